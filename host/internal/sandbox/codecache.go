package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
)

// Code is compiled code in memory that runtimes share. It stays there until the process ends.
type Code struct{ cache wazero.CompilationCache }

// NewCode returns a Code that is empty.
func NewCode() *Code { return &Code{cache: wazero.NewCompilationCache()} }

// openCodeCache returns the cache of compiled code in dir. It creates the directory if it does not exist. The files
// there are machine code, which runs outside of any sandbox. So openCodeCache returns an error if another user could
// write them, or could replace the directory or one above it.
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
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir: // another process has renamed its new file
			return nil
		case err != nil:
			return err
		}
		return onlyOurs(path, info, false)
	})
	for above := filepath.Dir(dir); err == nil; above = filepath.Dir(above) {
		var info fs.FileInfo
		if info, err = os.Stat(above); err == nil {
			// In a directory with the sticky bit, others can only replace files of their own.
			err = onlyOurs(above, info, info.Mode()&fs.ModeSticky != 0)
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

func refusal(path, why, remedy string) error {
	return fmt.Errorf("%s %s, who could have their code run: %s", path, why, remedy)
}
