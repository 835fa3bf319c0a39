package secretstore

import (
	"time"

	"github.com/keywright/keywright/host"
)

// Dir is [host.DirSecrets] with a memory of a second: a file is read once in that time, however many requests want it. A
// file that is replaced, by renaming, by a link that leads elsewhere or in place, counts after a second at the latest. A
// new one counts at once.
//
// A nil clock is [time.Now].
func Dir(dir string, clock func() time.Time) host.Secrets {
	if clock == nil {
		clock = time.Now
	}
	return newCached(host.DirSecrets(dir), leastTTL, clock)
}
