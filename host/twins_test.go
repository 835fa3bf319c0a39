//go:build !race

// Under the race detector this test takes long, and it does one thing after another. make test runs it without it.

package host_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// twins are two hosts in the same environment: one reuses mutations, and the other does not. Whatever happens, both
// must send the same.
type twins struct {
	t          *testing.T
	random     *rand.Rand
	worlds     [2]*world
	connectors [2][]*host.Connector
	said       strings.Builder // a log of the steps, for errors
}

var twinAuths = []host.Auth{
	{Type: "none"},
	{Type: "api_key", Config: key("{{ get_secret('s') }}")},
	{Type: "api_key", Config: with(key("{{ get_secret('s') }}"), "in", "query")},
	{Type: "api_key", Config: key("{{ get_secret('s') }} {{ user.email }} {{ default(tenant_id, 'nobody') }}")},
	{Type: "api_key", Config: key("{{ get_secret('s', 'tenant') }}")},
	{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s', 'user') }}")},
	{Type: "api_key", Config: key("{{ get_variable('v') }} {{ now() }}")},
	{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")},
	{Type: "oauth_client_credentials", Config: with(oauth("{{ get_secret('k') }}"), "scope", "{{ user.id }}")},
	{Type: "oauth_jwt_bearer", Config: bearer("{{ get_secret('k') }}")},
	{Type: "oauth_jwt_bearer", Config: with(bearer("{{ get_secret('k') }}"), "subject", "{{ user.email }}", "token_ttl", 100)},
	{Type: "jwt", Config: config{"private_key": "{{ get_secret('k') }}", "algorithm": "HS256", "claims": config{"iat": "{{ now() }}"}}},
	{Type: "custom", Config: misused},
	{Type: "custom", Config: with(misused, "reads", "time")},
	{Type: "custom", Config: with(misused, "reads", "request")},
	{Type: "custom", Config: with(misused, "reads", "secret", "to_header", "{{ get_secret('s') }}{{ default(user.id, '') }}")},
	{Type: "custom", Config: with(misused, "reads", "log")},
	{Type: "custom", Config: with(misused, "reads", "mac", "mac_key", "{{ get_secret('k') }}")},
	{Type: "custom", Config: with(misused, "reads", "cache")},
	{Type: "custom", Config: with(misused, "reads", "cache", "to_header", "{{ get_secret('s') }} {{ user.id }}")},
}

func newTwins(t *testing.T, seed uint64) *twins {
	tw := &twins{t: t, random: rand.New(rand.NewPCG(seed, 1))}
	for i := range tw.worlds {
		w := newWorld(t, withGuest(choosing()), func(c *host.Config) {
			c.NoReuse, c.Variables = i == 1, map[string]string{"v": "a-variable"}
		})
		w.login.Answer(tokens(150))
		tw.worlds[i] = w
		for n, auth := range twinAuths {
			tw.connectors[i] = append(tw.connectors[i], w.connectAs(fmt.Sprint("c", n), auth.Type, auth.Config))
		}
	}
	for _, name := range []string{"s", "k", "text", "tenants/t/s", "users/u1/s", "users/u2/s"} {
		tw.rotate(name)
	}
	return tw
}

func (tw *twins) both(format string, args ...any) [2]*world {
	fmt.Fprintf(&tw.said, format+"\n", args...)
	return tw.worlds
}

func (tw *twins) rotate(name string) {
	value := fmt.Sprintf("value-%d-of-%s", tw.random.IntN(4), name) // so that some values return
	if tw.random.IntN(10) == 0 {
		value = ""
	}
	for _, w := range tw.both("secret %s is %q", name, value) {
		w.setSecret(name, value)
	}
}

// step makes the same random change to both hosts or their environment, or sends the same request through both.
func (tw *twins) step() {
	switch n := tw.random.IntN(40); n {
	case 0, 1:
		tw.rotate([]string{"s", "k"}[n])
	case 10, 11:
		tw.rotate([]string{"tenants/t/s", "users/u1/s"}[n-10])
	case 2, 3, 4:
		d := []time.Duration{time.Second, 39 * time.Second, 90 * time.Second}[n-2]
		for _, w := range tw.both("%s later", d) {
			w.Advance(d)
		}
	case 5:
		for _, w := range tw.both("the API refuses") {
			w.api.Answer(status(http.StatusUnauthorized))
		}
	case 6:
		for _, w := range tw.both("the API accepts") {
			w.api.Answer(status(http.StatusOK))
		}
	case 7:
		number := tw.random.IntN(1000)
		for _, w := range tw.both("tokens are %d-1, …", number) {
			w.login.Answer(numbered(number))
		}
	case 8:
		for _, w := range tw.both("the token endpoint fails") {
			w.login.Answer(status(http.StatusServiceUnavailable))
		}
	case 9: // the same configuration under the same name, or another one
		at := tw.random.IntN(len(twinAuths))
		auth := twinAuths[at]
		if tw.random.IntN(2) == 0 && auth.Type == "api_key" {
			auth.Config = with(auth.Config, "key", "X-Key")
			auth.Config = with(auth.Config, "value", "{{ get_secret('k') }}")
		}
		for i, w := range tw.both("c%d is connected again", at) {
			tw.connectors[i][at] = w.connectAs(fmt.Sprint("c", at), auth.Type, auth.Config)
		}
	default:
		tw.request()
	}
}

func (tw *twins) request() {
	at, who, path := tw.random.IntN(len(twinAuths)), tw.random.IntN(4), []string{"", "?a=b", "/x"}[tw.random.IntN(3)]
	tw.both("request %s of user %d by c%d", path, who, at)
	var results [2]string
	for i, w := range tw.worlds {
		ctx := context.Background()
		if who > 0 {
			ctx = host.WithUser(ctx, host.User{ID: fmt.Sprint("u", who), Email: fmt.Sprintf("u%d@example.com", who), TenantID: []string{"", "t"}[who%2]})
		}
		r := request(tw.t, apiURL+path).WithContext(ctx)
		r.Header.Set("X-Caller", path)
		code, err := w.try(tw.connectors[i][at], r)
		results[i] = fmt.Sprint(code, err)
	}
	if results[0] != results[1] {
		tw.differ("with reuse: %s\nwithout:    %s", results[0], results[1])
	}
}

func (tw *twins) differ(format string, args ...any) {
	tw.t.Helper()
	said := strings.Split(tw.said.String(), "\n")
	tw.t.Fatalf(format+"\nafter %s", append(args, strings.Join(said[max(0, len(said)-40):], "\n"))...)
}

func (tw *twins) compare() {
	tw.t.Helper()
	one, other := tw.worlds[0], tw.worlds[1]
	if !reflect.DeepEqual(one.api.Received(), other.api.Received()) {
		tw.differ("the requests differ:\n%+v\n%+v", one.api.Received(), other.api.Received())
	}
	if !reflect.DeepEqual(exchanged(one), exchanged(other)) {
		tw.differ("the exchanges differ")
	}
}

func exchanged(w *world) (all []string) {
	for _, s := range w.login.Received() {
		all = append(all, s.URL+" "+s.Body)
	}
	return all
}

// threats.md 15, 29, 33: the reuse of mutations has no visible effect, whatever the order of events.
func TestInvisibleReuse(t *testing.T) {
	reused := 0
	for seed := range uint64(12) {
		tw := newTwins(t, seed)
		for range 400 {
			tw.step()
		}
		tw.compare()
		for _, c := range tw.worlds[0].calls {
			if c.Reused {
				reused++
			}
		}
		if slices.ContainsFunc(tw.worlds[1].calls, func(c host.Attempt) bool { return c.Reused }) {
			t.Error("NoReuse reuses")
		}
	}
	if reused < 500 {
		t.Errorf("%d calls were reused: the test shows nothing", reused)
	}
}
