package sandbox

import (
	"fmt"
	"os"

	"github.com/tetratelabs/wazero"
)

// openCodeCache gives the cache of compiled code in a directory, which it makes when there is none. What lies there is
// machine code, and runs outside of any sandbox: a directory that others may write to is refused.
func openCodeCache(dir string) (wazero.CompilationCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := onlyOurs(info); err != nil {
		return nil, fmt.Errorf("%s %w", dir, err)
	}
	return wazero.NewCompilationCacheWithDir(dir)
}
