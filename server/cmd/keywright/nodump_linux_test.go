package main

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 22: a server leaves no core dump, except with --dev.
func TestNoDumps(t *testing.T) {
	dumpable := func() bool {
		t.Helper()
		is := testworld.Must(unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0))(t)
		return is != 0
	}
	for _, args := range [][]string{
		{"serve", "-c", "missing.yaml"},
		{"content", "serve", "--db", "missing:"},
	} {
		testworld.Check(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
		if code, _, _ := keywright(t.Context(), append(args, "--dev")...); code != exitFailure || !dumpable() {
			t.Errorf("%s: exit %d, dumpable %t with --dev", args, code, dumpable())
		}
		if code, _, _ := keywright(t.Context(), args...); code != exitFailure || dumpable() {
			t.Errorf("%s: exit %d, dumpable %t", args, code, dumpable())
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit != (unix.Rlimit{}) {
		t.Errorf("the limit of a dump is %+v: %v", limit, err)
	}
}
