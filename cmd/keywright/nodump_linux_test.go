package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// threats.md 22: serve leaves no core dump, but where somebody develops.
func TestNoDumps(t *testing.T) {
	dumpable := func() bool {
		t.Helper()
		is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return is != 0
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := keywright(t.Context(), "serve", "--dev", "-c", "missing.yaml"); code != exitFailure || !dumpable() {
		t.Errorf("exit %d, dumpable %t with --dev", code, dumpable())
	}
	if code, _, _ := keywright(t.Context(), "serve", "-c", "missing.yaml"); code != exitFailure || dumpable() {
		t.Errorf("exit %d, dumpable %t", code, dumpable())
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit != (unix.Rlimit{}) {
		t.Errorf("the limit of a dump is %+v: %v", limit, err)
	}
}
