//go:build !linux

package postgrestest

import "syscall"

// owner returns no attributes: the user who runs the tests, who must not be root, runs PostgreSQL.
func owner(string) (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }
