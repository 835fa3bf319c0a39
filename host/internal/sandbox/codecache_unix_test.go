//go:build unix

package sandbox

import (
	"io/fs"
	"syscall"
	"testing"
	"time"
)

// file is a file's information with the given mode and owner.
type file struct {
	mode fs.FileMode
	uid  uint32
}

func (f file) Name() string       { return "file" }
func (f file) Size() int64        { return 0 }
func (f file) Mode() fs.FileMode  { return f.mode }
func (f file) ModTime() time.Time { return time.Time{} }
func (f file) IsDir() bool        { return true }
func (f file) Sys() any           { return &syscall.Stat_t{Uid: f.uid} }

// A directory that everybody may write to is safe only if its sticky bit is set and its owner is trusted: the owner may
// still rename what is in it (threats.md 12).
func TestWhoMayChangeTheCodeCache(t *testing.T) {
	const us, other = 1000, 1001
	for _, c := range []struct {
		mode   fs.FileMode
		uid    uint32
		shared bool
		ok     bool
	}{
		{0o755, us, false, true},
		{0o755, 0, false, true},
		{0o775, us, false, false},
		{0o757, 0, false, false},
		{0o777, us, true, true},
		{0o777, 0, true, true},
		{0o755, other, false, false},
		{0o777, other, true, false},
	} {
		if err := onlyOf(us, "there", file{c.mode, c.uid}, c.shared); (err == nil) != c.ok {
			t.Errorf("%v of user %d, shared %t: %v", c.mode, c.uid, c.shared, err)
		}
	}
}
