package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// noDumps keeps the memory of this process, which contains secrets, out of core dumps and from other processes of the same
// user. The limit alone is not enough, because the kernel ignores it if it pipes dumps to a program. The flag alone is not
// enough, because it is reset when the process executes another program.
func noDumps() error {
	if err := errors.Join(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)); err != nil {
		return fmt.Errorf("turning core dumps off: %w", err)
	}
	return nil
}

// freeSpace returns the bytes that are free for this user on the disk of a directory.
func freeSpace(dir string) (free uint64, ok bool) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err == nil
}
