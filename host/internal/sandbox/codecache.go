package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
)

// openCodeCache returns the cache of compiled code in a directory, which it makes when there is none. What lies there
// is machine code, and runs outside of any sandbox: nobody else may be able to write it, or to put another directory in
// the place of this one or of one above it.
func openCodeCache(dir string) (wazero.CompilationCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return onlyOurs(path, info, false)
	})
	for above := filepath.Dir(dir); err == nil; above = filepath.Dir(above) {
		var info fs.FileInfo
		if info, err = os.Stat(above); err == nil {
			err = onlyOurs(above, info, info.Mode()&fs.ModeSticky != 0) // where that is set, all but its owner keep what is theirs
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(dir)
}

func refused(path, why, remedy string) error {
	return fmt.Errorf("%s %s, who could have their code run: %s", path, why, remedy)
}
