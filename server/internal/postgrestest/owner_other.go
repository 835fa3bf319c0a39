//go:build !linux

package postgrestest

import "syscall"

// owner leaves everything to the user who runs the tests, who must not be root.
func owner(string) (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }
