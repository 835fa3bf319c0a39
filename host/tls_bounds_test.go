package host_test

import (
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// A certificate is valid up to NotAfter itself (RFC 5280 section 4.1.2.5), and ends soon in the last 30 days before.
func TestTheLastDaysOfACertificate(t *testing.T) {
	c := &host.ClientCertificate{NotAfter: start}
	for _, tt := range []struct {
		before      time.Duration
		soon, ended bool
	}{
		{30*day + time.Second, false, false},
		{30 * day, false, false},
		{30*day - time.Second, true, false},
		{0, true, false},
		{-time.Second, true, true},
	} {
		now := start.Add(-tt.before)
		if soon, err := c.EndsSoon(now), c.Ended(now); soon != tt.soon || (err != nil) != tt.ended {
			t.Errorf("%v before its end: soon %t, %v", tt.before, soon, err)
		}
	}
}
