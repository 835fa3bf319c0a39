//go:build !linux

package main

// noDumps does nothing on systems without a reliable way.
func noDumps() error { return nil }

// freeSpace reports that it is unknown.
func freeSpace(string) (free uint64, ok bool) { return 0, false }
