//go:build !linux

package main

// freeSpace reports that it is unknown.
func freeSpace(string) (free uint64, ok bool) { return 0, false }
