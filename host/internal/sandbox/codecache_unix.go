//go:build unix

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// onlyOurs says whether nobody but this process's user, and root, may change what a directory holds.
func onlyOurs(info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return errors.New("can be written to by others, who could have their code run: take that from them, with chmod go-w")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return errors.New("belongs to another user, who could have their code run: use a directory of your own")
	}
	return nil
}
