//go:build unix

package sandbox

import (
	"io/fs"
	"os"
	"syscall"
)

// onlyOurs returns an error unless a file or directory belongs to this process's user or to root. It also returns an
// error if others may write to it, unless shared is set.
func onlyOurs(path string, info fs.FileInfo, shared bool) error {
	return onlyOf(os.Geteuid(), path, info, shared)
}

func onlyOf(user int, path string, info fs.FileInfo, shared bool) error {
	if !shared && info.Mode().Perm()&0o022 != 0 {
		return refusal(path, "can be written to by others", "take that from them (chmod go-w), or use another directory")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != user {
		return refusal(path, "belongs to another user", "use a directory of your own")
	}
	return nil
}
