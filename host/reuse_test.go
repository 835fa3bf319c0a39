package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
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

// choosing returns a guest that reads what the field "reads" names, and puts it into a header.
func choosing() *guest {
	g := misusing(func(env abi.Env) (string, error) {
		text := ""
		switch what, _ := env.ConfigGet("reads"); what {
		case "time":
			text = fmt.Sprint(env.TimeNow())
		case "request":
			text = fmt.Sprintf("%x", env.Input())
		case "secret":
			text = env.SecretGet("k")
		case "log":
			env.Log(abi.LevelInfo, "a line")
		case "mac":
			text = env.Encode(abi.FormatHex, env.MAC(abi.MACSHA256, value(env, "mac_key"), "data"))
		case "cache":
			cached, found := env.CacheGet("count")
			if !found || len(cached) < 3 {
				env.CacheSet("count", cached+"x", 100)
			}
			text = cached
		}
		return marshal(abi.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}, {Name: "X-Read", Value: text}}}), nil
	})
	g.about.Fields = append(g.about.Fields, abi.Field{Name: "reads", Kind: abi.KindString, Default: "nothing"},
		sealedField("mac_key", abi.SinkSign, abi.SinkHeader))
	return g
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

func numbered(number int) answer {
	var mu sync.Mutex
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return token(fmt.Sprintf("token-%d-%d", number, n), 150)(r)
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
func TestReuseIsNotNoticed(t *testing.T) {
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

// A mutation is reused if its call read nothing that may differ for the next request.
func TestWhatIsReused(t *testing.T) {
	w := newWorld(t, withGuest(choosing()), func(c *host.Config) { c.Variables = map[string]string{"v": "a-variable"} })
	for _, name := range []string{"s", "k", "text"} {
		w.canary(name)
	}
	w.login.Answer(tokens(150))
	for name, c := range map[string]struct {
		auth   host.Auth
		reused bool
	}{
		"none":                     {host.Auth{Type: "none"}, true},
		"api_key":                  {host.Auth{Type: "api_key", Config: key("{{ get_secret('s') }}")}, true},
		"api_key of a user":        {host.Auth{Type: "api_key", Config: key("{{ get_secret('s') }}{{ user.id }}")}, true},
		"a variable":               {host.Auth{Type: "api_key", Config: key("{{ get_variable('v') }}")}, true},
		"now()":                    {host.Auth{Type: "api_key", Config: key("x{{ now() }}")}, false},
		"uuid()":                   {host.Auth{Type: "api_key", Config: key("x{{ uuid() }}")}, false},
		"oauth_client_credentials": {host.Auth{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")}, true},
		"oauth_jwt_bearer":         {host.Auth{Type: "oauth_jwt_bearer", Config: bearer("{{ get_secret('k') }}")}, true},
		"jwt":                      {host.Auth{Type: "jwt", Config: config{"private_key": "{{ get_secret('k') }}", "algorithm": "HS256", "claims": config{}}}, false},
		"a guest":                  {host.Auth{Type: "custom", Config: misused}, true},
		"time_now":                 {host.Auth{Type: "custom", Config: with(misused, "reads", "time")}, false},
		"the request":              {host.Auth{Type: "custom", Config: with(misused, "reads", "request")}, false},
		"a log line":               {host.Auth{Type: "custom", Config: with(misused, "reads", "log")}, false},
		"mac":                      {host.Auth{Type: "custom", Config: with(misused, "reads", "mac", "mac_key", "{{ get_secret('k') }}")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			connector := w.connectAs(name, c.auth.Type, c.auth.Config)
			ctx := ann(t.Context())
			for range 3 { // an exchange, a cache hit, and a reuse
				if _, err := w.try(connector, get(ctx)); err != nil {
					t.Fatal(err)
				}
			}
			last := w.calls[len(w.calls)-1]
			if last.Reused != c.reused {
				t.Errorf("reused: %t, want %t", last.Reused, c.reused)
			}
			if cached := strings.HasPrefix(c.auth.Type, "oauth"); last.Cached != cached {
				t.Errorf("with a value of the cache: %t, want %t", last.Cached, cached)
			}
		})
	}
}

// The host keeps the mutations of a bounded number of users. After Close, it uses none of them.
func TestReuseIsBoundedAndEnds(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Limits.CacheEntries = 2 })
	w.canary("s")
	c := w.connect("api_key", key("{{ get_secret('s') }}{{ user.id }}"))
	ask := func(id string) bool {
		w.send(c, get(host.WithUser(t.Context(), host.User{ID: id})))
		return w.calls[len(w.calls)-1].Reused
	}
	ask("a")
	ask("b")
	if !ask("a") {
		t.Error("of two users, one is forgotten")
	}
	ask("c")
	if ask("b") {
		t.Error("three users are remembered, and there is room for two")
	}
	plain := w.connectAs("plain", "api_key", key("{{ get_secret('s') }}"))
	w.get(plain)
	w.get(plain)
	if err := w.host.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.setSecret("s", "") // a closed host must not ask the store, which may be closed too
	if _, err := w.try(plain, get(t.Context())); !errors.Is(err, host.ErrClosed) {
		t.Errorf("a closed host answers with %v", err)
	}
}

// Concurrent requests share a mutation, and its call for the errors of their transports.
func TestReuseAtOnce(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("s")
	c := w.connect("api_key", key("{{ get_secret('s') }}"))
	w.get(c)
	w.api.Answer(func(*http.Request) (*http.Response, error) { return nil, errors.New("failed at " + secret) })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := w.try(c, get(t.Context())); err == nil || err.Error() != "failed at <sealed>" {
					t.Errorf("the error is %v", err)
				}
				authenticated, err := c.Authenticate(get(t.Context()))
				if err != nil || authenticated.Header.Get("X-Key") != secret {
					t.Errorf("the credential is not there: %v", err)
					return
				}
				authenticated.Header.Set("X-Key", "changed") // the caller may change the clone
				maps.DeleteFunc(authenticated.Header, func(string, []string) bool { return true })
				authenticated.URL.Path, authenticated.Body = "/changed", io.NopCloser(strings.NewReader(""))
			}
		})
	}
	all.Wait()
}

// A host that was closed while a request waited for a slow store of secrets does not send the request.
func TestReuseEndsWithTheHost(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := false
	w := newWorld(t, func(c *host.Config) {
		c.Secrets = secretsFunc(func(context.Context, string) (string, error) {
			if slow {
				close(asked)
				<-answer
			}
			return "a secret of the test", nil
		})
	})
	c := w.connect("api_key", key("{{ get_secret('s') }}"))
	w.get(c)
	slow = true
	sent, failed := w.api.Count(), make(chan error)
	go func() {
		_, err := w.try(c, get(t.Context()))
		failed <- err
	}()
	<-asked
	if err := w.host.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if err := <-failed; !errors.Is(err, host.ErrClosed) || w.api.Count() != sent {
		t.Errorf("the error is %v, and %d requests were sent", err, w.api.Count()-sent)
	}
}
