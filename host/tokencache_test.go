package host_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

// generations returns a function that makes a new host on each call, in a world of its own. All these hosts share one
// token cache.
func generations(t *testing.T) (next func(t *testing.T, change ...func(*host.Config)) *world) {
	t.Helper()
	clock := func() time.Time { return start }
	tokens, err := host.NewTokenCache(host.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, change ...func(*host.Config)) *world {
		t.Helper()
		w := newWorld(t, append(change, func(c *host.Config) { c.Tokens, c.Clock = tokens, clock })...)
		w.setSecret("s", "the-same-in-all-of-them")
		return w
	}
}

// threats.md 64: an unchanged connector of a new host uses the token of the old one. Any other connector requests a
// token of its own.
func TestTokensOutliveTheirHost(t *testing.T) {
	next := generations(t)
	base := with(oauth("{{ get_secret('s') }}"), "client_id", "{{ get_variable('v') }}")
	first := next(t, func(c *host.Config) { c.Variables = map[string]string{"v": "1"} })
	first.get(first.connect("oauth_client_credentials", base))
	if err := first.host.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		variables map[string]string
		secret    string
		connector string
		config    config
		exchanges int
	}{
		"nothing":            {map[string]string{"v": "1"}, "", "crm", base, 0},
		"what nobody names":  {map[string]string{"v": "1", "w": "1"}, "", "crm", base, 0},
		"a variable":         {map[string]string{"v": "2"}, "", "crm", base, 1},
		"a secret":           {map[string]string{"v": "1"}, "another-value", "crm", base, 1},
		"the connector":      {map[string]string{"v": "1"}, "", "crm2", base, 1},
		"the configuration":  {map[string]string{"v": "1"}, "", "crm", with(base, "scope", "x"), 1},
		"where tokens are":   {map[string]string{"v": "1"}, "", "crm", with(base, "token_url", "https://login.test/other"), 1},
		"the cache's limits": {map[string]string{"v": "1"}, "", "crm", base, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := next(t, func(h *host.Config) {
				h.Variables = c.variables
				if name == "the cache's limits" {
					h.Limits.CachePerPartition = 1
				}
			})
			w.login.Answer(token("t2", 3600))
			if c.secret != "" {
				w.setSecret("s", c.secret)
			}
			sent := w.get(w.connectAs(c.connector, "oauth_client_credentials", c.config))
			want := map[int]string{0: "Bearer t1", 1: "Bearer t2"}[c.exchanges]
			if got := sent.Header.Get("Authorization"); w.login.Count() != c.exchanges || got != want {
				t.Errorf("%d exchanges and %s, want %d and %s", w.login.Count(), got, c.exchanges, want)
			}
		})
	}
}

// threats.md 30 and 64: callers of the next host get the token of an exchange that the previous host began, even while
// the previous host closes.
func TestAnExchangeInFlightServesTheNextHost(t *testing.T) {
	for name, fails := range map[string]bool{"it succeeds": false, "it fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := generations(t)
				before, after := next(t), next(t)
				g := newGate(token("t1", 3600))
				if fails {
					g.behind = status(http.StatusInternalServerError)
				}
				before.login.Answer(g.answer)
				after.login.Answer(token("t2", 3600))
				c := oauth("{{ get_secret('s') }}")
				one, other := before.connect("oauth_client_credentials", c), after.connect("oauth_client_credentials", c)
				answers := make(chan error, 2)
				go func() { _, err := before.try(one, get(t.Context())); answers <- err }()
				synctest.Wait()
				go func() { _, err := after.try(other, get(t.Context())); answers <- err }()
				synctest.Wait()
				closed := make(chan error, 1)
				go func() { closed <- before.host.Close(context.Background()) }()
				synctest.Wait()
				close(g.open)
				for range 2 {
					if err := <-answers; (err != nil) != fails {
						t.Errorf("a caller got %v", err)
					}
				}
				if err := <-closed; err != nil {
					t.Error(err)
				}
				want, exchanges := "Bearer t1", 0
				if fails { // the next request asks again
					want, exchanges = "Bearer t2", 1
				}
				if got := after.get(other).Header.Get("Authorization"); got != want || after.login.Count() != exchanges {
					t.Errorf("%s after %d exchanges of the next host, want %s after %d", got, after.login.Count(), want, exchanges)
				}
			})
		})
	}
}

// threats.md 35 and 64: reading the configuration again does not allow more token requests after 401s.
func TestThePaceOf401sOutlivesTheHost(t *testing.T) {
	next := generations(t)
	exchanges := 0
	for range 3 {
		w := next(t)
		w.api.Answer(status(http.StatusUnauthorized))
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		for range 3 {
			if got, err := w.try(c, get(t.Context())); got != http.StatusUnauthorized || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		}
		exchanges += w.login.Count()
	}
	if exchanges != 2 {
		t.Errorf("%d exchanges, want one and another one after the first 401", exchanges)
	}
}

func TestNewTokenCacheErrors(t *testing.T) {
	if _, err := host.NewTokenCache(host.Config{Limits: host.Limits{TokensBytes: -1}}); err == nil {
		t.Error("a cache for less than nothing was made")
	}
	if _, err := host.NewTokenCache(host.Config{Random: emptyReader{}}); err == nil {
		t.Error("a cache was made without randomness")
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, context.Canceled }
