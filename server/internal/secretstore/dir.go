package secretstore

import (
	"time"

	"github.com/keywright/keywright/host"
)

// Dir is like [host.DirSecrets], but caches each secret for a second. A changed file, whether renamed, written in place or
// reached by a changed link, takes effect after a second at the latest. A new file takes effect at once.
//
// If clock is nil, it is [time.Now].
func Dir(dir string, clock func() time.Time) host.Secrets {
	if clock == nil {
		clock = time.Now
	}
	return newCached(host.DirSecrets(dir), leastTTL, clock)
}
