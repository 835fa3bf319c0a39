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
