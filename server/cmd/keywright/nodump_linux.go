package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// noDumps keeps the memory of this process, which has secrets in it, out of core dumps, and from other processes of the
// same user. The limit alone would not do: the kernel does not heed it when it hands dumps to a program. And what follows
// from the flag is undone when a process starts another program, which the limit is not.
func noDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("turning core dumps off: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("turning core dumps off: %w", err)
	}
	return nil
}
