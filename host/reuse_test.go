package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// choosing returns a guest that reads what the field "reads" names, and puts it into a header.
func choosing() *guest {
	g := misusing(func(env contract.Env) (string, error) {
		text := ""
		switch what, _ := env.ConfigGet("reads"); what {
		case "time":
			text = fmt.Sprint(env.TimeNow())
		case "request":
			text = fmt.Sprintf("%x", env.Input())
		case "secret":
			text = env.SecretGet("k")
		case "log":
			env.Log(contract.LevelInfo, "a line")
		case "mac":
			text = env.Encode(contract.FormatHex, env.MAC(contract.MACSHA256, value(env, "mac_key"), "data"))
		case "cache":
			cached, found := env.CacheGet("count")
			if !found || len(cached) < 3 {
				env.CacheSet("count", cached+"x", 100)
			}
			text = cached
		}
		return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}, {Name: "X-Read", Value: text}}}), nil
	})
	g.about.Fields = append(g.about.Fields, abi.Field{Name: "reads", Kind: abi.KindString, Default: "nothing"},
		sealedField("mac_key", abi.SinkSign, abi.SinkHeader))
	return g
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

// A mutation is reused if its call read nothing that may differ for the next request.
func TestReusedMutations(t *testing.T) {
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
func TestReuseBounds(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Limits.MutationsBytes = 14 << 10 })
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
