package postgrestest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// owner returns the attributes to start PostgreSQL with. It refuses to run as root, so in place of root another user
// runs it and becomes the owner of the directory.
func owner(directory string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user for PostgreSQL, which does not run as root: %w", err)
		}
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(directory, int(uid), int(gid))
}
