package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

// hung counts the requests that hang, by host.
type hung struct{ hang, stall atomic.Int64 }

// hanging sets a base: the endpoints of hang.example and stall.example say nothing, and those of any other host answer after 50 ms.
func hanging(counts *hung) func(*host.Config) {
	return func(c *host.Config) {
		c.Base = answer(func(r *http.Request) (*http.Response, error) {
			switch strings.ToLower(r.URL.Host) {
			case "api.test":
				return status(http.StatusOK)(r)
			case "hang.example", "hang.shops.example":
				counts.hang.Add(1)
				return silent(r)
			case "stall.example":
				counts.stall.Add(1)
				return silent(r)
			}
			time.Sleep(50 * time.Millisecond)
			if r.Method == http.MethodGet {
				return respond(http.StatusOK, fmt.Sprintf(`{"issuer":"https://%s","token_endpoint":"https://%[1]s/token"}`, r.URL.Host))(r)
			}
			return token("a-token-that-came", 3600)(r)
		})
	}
}

// at returns a configuration whose token endpoint is at a host, with another token for each user.
func at(name string) config {
	return with(oauth("{{ get_secret('s') }}"), "token_url", "https://"+name+"/token", "scope", "{{ user.id }}")
}

// Endpoints that hang keep nobody else from a new token, of a connector without one under way: neither one with 1,000 callers,
// nor two with ten connectors each. Calls that find no place in time say so. threats.md 330
func TestHangingEndpoints_threats_330(t *testing.T) {
	of := func(name string, connectors, callers int) map[string]int {
		all := map[string]int{}
		for i := range connectors {
			all[fmt.Sprintf("%s %d", name, i)] = callers / connectors
		}
		return all
	}
	for name, endpoints := range map[string][]map[string]int{
		"one endpoint, one connector":     {of("hang.example", 1, 1000)},
		"one endpoint, ten connectors":    {of("hang.example", 10, 1000)},
		"one endpoint, two spellings":     {of("hang.example", 10, 500), of("HANG.Example", 10, 500)},
		"two endpoints, ten connectors":   {of("hang.example", 10, 500), of("stall.example", 10, 500)},
		"the connectors of two endpoints": {of("hang.example", 1, 500), of("stall.example", 10, 500)},
	} {
		bubble(t, name, func(t *testing.T) {
			asked := &hung{}
			w := newWorld(t, hanging(asked))
			other := w.connectAs("other", "oauth_client_credentials", at("login.example"))
			found := w.connectAs("found", "oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", "{{ discover('https://issuer.example', 'token_endpoint') }}"))
			errs := make(chan error, 1000)
			for _, connectors := range endpoints {
				for name, callers := range connectors {
					c := w.connectAs(name, "oauth_client_credentials", at(name[:len(name)-2]))
					for i := range callers {
						go func() {
							_, err := w.try(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)})))
							errs <- err
						}()
					}
				}
			}
			synctest.Wait()
			hang, stall := int(asked.hang.Load()), int(asked.stall.Load())
			inside := hang + stall
			if hang > 32 || stall > 32 || inside > 48 {
				t.Errorf("of 64 places, %d and %d are taken", hang, stall)
			}
			for i := range 100 {
				began := time.Now()
				must(w.try(other, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)}))))(t)
				if took := time.Since(began); took != 50*time.Millisecond {
					t.Fatalf("token %d of another connector took %v, and takes 50 ms alone", i, took)
				}
			}
			began := time.Now()
			_, err := w.try(found, get(t.Context()))
			if took := time.Since(began); took != 100*time.Millisecond || err != nil {
				t.Errorf("metadata and a token took %v, and take 100 ms alone: %v", took, err)
			}
			busy := 0
			for range 1000 {
				var failed *host.Error
				err := <-errs
				if !errors.As(err, &failed) || !failed.Retryable() {
					t.Fatalf("a call that hangs gets %v", err)
				}
				if errors.Is(err, host.ErrBusy) {
					busy++
				}
			}
			if busy != 1000-inside {
				t.Errorf("%d calls found no place, want %d", busy, 1000-inside)
			}
		})
	}
}

// Issuers that hang have their share of the places, too, and an issuer that was not asked is not remembered as one that failed.
// threats.md 331
func TestHangingIssuers_threats_331(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hanging(&hung{}), func(c *host.Config) { c.Limits.ConcurrentExchanges = 4 })
		var all sync.WaitGroup
		begin := func(issuer string) *host.Connector {
			c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", "{{ discover('"+issuer+"', 'token_endpoint') }}"))
			all.Go(func() {
				if _, err := w.try(c, get(t.Context())); err == nil {
					t.Error("an issuer that hangs has a token")
				}
			})
			synctest.Wait()
			return c
		}
		begin("https://hang.example/a")
		begin("https://hang.example/b")
		late := begin("https://login.example") // of the same connector, which has its share
		other := w.connectAs("other", "oauth_client_credentials", at("login.example"))
		if _, err := w.try(other, get(ann(t.Context()))); err != nil {
			t.Errorf("another connector: %v", err)
		}
		all.Wait()
		synctest.Wait()
		if _, err := w.try(late, get(t.Context())); err != nil {
			t.Errorf("the connector, once its places are free: %v", err)
		}
	})
}

// A tenant whose token endpoint hangs, for 1,000 users, keeps no other tenant of its connector from a new token. threats.md 532
func TestHangingTenant_threats_532(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &hung{}
		w := newWorld(t, hanging(asked))
		c := w.open(host.ConnectorConfig{
			Name: "shops", Hosts: []string{"*.shops.example"}, HostsShareSecrets: true,
			Auth: []host.Auth{{Type: "oauth_client_credentials", Config: at("{{ tenant_id }}.shops.example")}},
		})
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if _, err := w.try(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i), TenantID: "hang"}))); err == nil {
					t.Error("a tenant has a token of an endpoint that hangs")
				}
			})
		}
		synctest.Wait()
		if n := asked.hang.Load(); n != 16 {
			t.Errorf("the tenant has %d of 64 places, want 16", n)
		}
		for i := range 100 {
			began := time.Now()
			must(w.try(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i), TenantID: "works"}))))(t)
			if took := time.Since(began); took != 50*time.Millisecond {
				t.Fatalf("token %d of another tenant took %v, and takes 50 ms alone", i, took)
			}
		}
		all.Wait()
	})
}
