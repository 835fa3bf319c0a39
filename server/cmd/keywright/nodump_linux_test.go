package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// threats.md 22: a server leaves no core dump, except with --dev.
func TestNoDumps(t *testing.T) {
	dumpable := func() bool {
		t.Helper()
		is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return is != 0
	}
	for _, args := range [][]string{
		{"serve", "-c", "missing.yaml"},
		{"content", "serve", "--db", "missing:"},
	} {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
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
