package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// An operator sees for how long a token endpoint is not asked, until it issues a token, or the time has passed.
func TestMetricOfBackoff(t *testing.T) {
	clock := testworld.NewClock(time.Unix(1_700_000_000, 0))
	m := newMetrics(&daemon{clock: clock.Now})
	refused := func(connector string, wait time.Duration) {
		m.attempted(host.Attempt{Connector: connector, Exchanges: 1, Err: fmt.Errorf("token: %w", &host.TokenError{Status: 401, RetryAfter: wait})})
	}
	check := func(want string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(page(t, m)) {
			if rest, ok := strings.CutPrefix(line, `keywright_backoff_seconds{connector=`); ok {
				got = append(got, strings.TrimSpace(rest))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("the page has %v, want %s", got, want)
		}
	}
	check("")
	refused("crm", 8*time.Second)
	refused("crm", 2*time.Second) // of another user
	refused("shop", 60*time.Second)
	refused("once", 0)
	m.attempted(host.Attempt{Connector: "issuer", Err: &host.DiscoveryError{RetryAfter: 5 * time.Second}})
	check(`"crm"} 8, "issuer"} 5, "shop"} 60`)
	m.attempted(host.Attempt{Connector: "crm", Reused: true})
	m.attempted(host.Attempt{Connector: "crm", Err: errors.New("no secret")})
	clock.Advance(5 * time.Second)
	check(`"crm"} 3, "shop"} 55`)
	m.attempted(host.Attempt{Connector: "shop", Exchanges: 1})
	check(`"crm"} 3`)
	clock.Advance(3 * time.Second)
	check("")
	refused("crm", time.Second)
	m.forget("crm")
	check("")
}
