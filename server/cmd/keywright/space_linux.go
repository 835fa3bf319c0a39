package main

import "golang.org/x/sys/unix"

// freeSpace returns the bytes that are free for this user on the disk of a directory.
func freeSpace(dir string) (free uint64, ok bool) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err == nil
}
