package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
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
		sealedField("mac_key", contract.SinkSign, contract.SinkHeader))
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
				must(w.try(connector, get(ctx)))(t)
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
	check(t, w.host.Close(t.Context()))
	w.setSecret("s", "") // a closed host must not ask the store, which may be closed too
	if _, err := w.try(plain, get(t.Context())); !errors.Is(err, host.ErrClosed) {
		t.Errorf("a closed host answers with %v", err)
	}
}

// Concurrent requests share a mutation, and its call for the errors of their transports.
func TestReuseAtOnce(t *testing.T) {
	w, c := keyWorld(t)
	secret := w.canary("s")
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
	check(t, w.host.Close(t.Context()))
	close(answer)
	if err := <-failed; !errors.Is(err, host.ErrClosed) || w.api.Count() != sent {
		t.Errorf("the error is %v, and %d requests were sent", err, w.api.Count()-sent)
	}
}

// A plugin that makes many sealed values does not make the host keep more for each user (threats.md 3).
func TestLargeCallsNotReused(t *testing.T) {
	g := misusing(func(env contract.Env) (string, error) {
		k := value(env, "to_header")
		for range 20 {
			env.Encode(contract.FormatHex, k+strings.Repeat("x", 90_000))
		}
		return header("X-Key", k), nil
	})
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	c := w.connect("custom", config{"to_header": "{{ get_secret('s') }} {{ user.id }}"})
	before := heap()
	const users = 20
	for i := range users {
		w.send(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)})))
	}
	if grown := heap() - before; grown > users*64<<10 {
		t.Errorf("%d users keep %d bytes", users, grown)
	}
	runtime.KeepAlive(w)
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the second run frees what a sync.Pool keeps for one more run
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A kept mutation does not keep the values of cache entries that were evicted (threats.md 3).
func TestReuseAfterDrop(t *testing.T) {
	g := misusing(func(env contract.Env) (string, error) {
		k := value(env, "to_header")
		for i := range 16 {
			name := fmt.Sprint("k", i)
			if _, ok := env.CacheGet(name); !ok {
				env.CacheSet(name, strings.Repeat("x", 60_000), 3600)
			}
		}
		return header("X-Key", k), nil
	})
	const users, entries = 64, 64
	w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Limits.TokensBytes = entries * 60_000 })
	c := w.connect("custom", config{"to_header": "{{ get_secret('s') }} {{ user.id }}"})
	before := heap()
	for i := range users {
		for range 2 {
			w.send(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)})))
		}
	}
	if grown := heap() - before; grown > entries*60_000+users*32<<10+4<<20 {
		t.Errorf("%d entries of 60 kB may be cached, and %d bytes are kept", entries, grown)
	}
	runtime.KeepAlive(w)
}

// A mutation is used again unless its call is large. The texts that secrets are part of count, and the names of the
// cache entries that the call read (threats.md 3).
func TestHowLargeACallMayBeToBeKept(t *testing.T) {
	for name, c := range map[string]struct {
		puts, entries int
		kept          bool
	}{
		"a secret":                      {1, 0, true},
		"a secret, 6 times":             {6, 0, true},
		"a secret, 10 times":            {10, 0, false},
		"50 entries with long names":    {1, 50, true},
		"both, too large together only": {6, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := misusing(func(env contract.Env) (string, error) {
				for i := range c.entries {
					name := fmt.Sprintf("%0256d", i)
					if _, ok := env.CacheGet(name); !ok {
						env.CacheSet(name, "x", 3600)
					}
				}
				return header("X-Key", strings.Repeat(value(env, "to_header"), c.puts)), nil
			})
			w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Limits.CachePerPartition = 100 })
			w.setSecret("s", strings.Repeat("s", 16_000))
			connector := w.connect("custom", config{"to_header": "{{ get_secret('s') }}"})
			for range 3 { // the first call fills the cache, the second may be kept
				w.get(connector)
			}
			if got := w.calls[len(w.calls)-1].Reused; got != c.kept {
				t.Errorf("used again: %t, want %t", got, c.kept)
			}
		})
	}
}

// A request whose mutation is used again takes three allocations, which the base may keep or change: the request with its URL, and
// the map of its headers, which is two. With a cached token it takes no more.
func TestAllocationsOfARequest(t *testing.T) {
	respond := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	base := answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "login.test" {
			return token("a-token", 3600)(r)
		}
		return respond, nil
	})
	for name, c := range map[string]struct {
		authType string
		config   config
	}{
		"api_key":                  {"api_key", key("{{ get_secret('s') }}")},
		"oauth_client_credentials": {"oauth_client_credentials", oauth("{{ get_secret('s') }}")},
	} {
		t.Run(name, func(t *testing.T) {
			h := must(host.New(t.Context(), host.Config{Base: base, Secrets: host.MapSecrets{"s": "a secret of the test"}}))(t)
			defer h.Close(t.Context())
			connector := must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: c.authType, Config: c.config}}}))(t)
			transport, r := connector.Transport(nil), get(t.Context())
			r.Header.Set("User-Agent", "test")
			allocations := testing.AllocsPerRun(100, func() {
				_ = must(transport.RoundTrip(r))(t).Body.Close()
			})
			if allocations > 3 {
				t.Errorf("%v allocations", allocations)
			}
		})
	}
}

// A request repeats the mutation of one whose token was cached, without a call of the plugin.
func TestCachedTokensNeedNoCall(t *testing.T) {
	configs := testworld.AuthTypes(tokenURL)
	w := newWorld(t, listed("login.test"), func(c *host.Config) { c.BuiltIns = allBuiltIns(t) })
	w.keys()
	w.canary("s")
	w.login.Answer(w.Issued(w.Now))
	for _, authType := range []string{"oauth_client_credentials", "oauth_jwt_bearer", "oauth_password", "google_service_account", "github_app", "login"} {
		c := w.connect(authType, configs[authType])
		for i, want := range []bool{false, false, true} {
			w.get(c)
			if got := w.calls[len(w.calls)-1].Reused; got != want {
				t.Errorf("%s, request %d: reused = %t, want %t", authType, i, got, want)
			}
		}
	}
}

// assemble compiles a module from its text with wat2wasm, of the Debian package wabt.
func assemble(t *testing.T, text string) []byte {
	t.Helper()
	source := filepath.Join(t.TempDir(), "guest.wat")
	check(t, os.WriteFile(source, []byte(text), 0o600))
	var stdout, stderr bytes.Buffer
	command := exec.Command("wat2wasm", "--output=-", source)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("wat2wasm (install wabt): %v\n%s", err, &stderr)
	}
	return stdout.Bytes()
}

// fixed returns the text of a module that runs before, and then puts its field "value" into a header.
func fixed(before string) string {
	const (
		about  = `{"abi":1,"type":"custom","version":"1.0.0","summary":"A guest.","fields":[{"name":"value","kind":"string","sealed":true,"sinks":["header"]}]}`
		output = `{"headers":[{"name":"X-Key","value":"kw_abcdefghijklmnopqrstuvwxyz"}]}`
	)
	quoted := func(text string) string { return strings.ReplaceAll(text, `"`, `\22`) }
	return fmt.Sprintf(`(module
		(import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
		(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
		(import "extism:host/user" "block_new" (func $block_new (param i32 i32) (result i64)))
		(import "extism:host/user" "block_read" (func $block_read (param i64 i32 i32) (result i64)))
		(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
		(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
		(memory (export "memory") 1)
		(data (i32.const 0) "%s") (data (i32.const 1000) "value") (data (i32.const 2000) "%s")
		(func (export "describe") (result i32)
			(call $output_set (call $block_new (i32.const 0) (i32.const %[4]d)) (i64.const %[4]d)) (i32.const 0))
		(func (export "authenticate") (result i32)
			%[3]s
			(drop (call $block_read (call $config_get (call $block_new (i32.const 1000) (i32.const 5))) (i32.const %[6]d) (i32.const 29)))
			(call $output_set (call $block_new (i32.const 2000) (i32.const %[5]d)) (i64.const %[5]d)) (i32.const 0)))`,
		quoted(about), quoted(output), before, len(about), len(output), 2000+strings.Index(output, "kw_"))
}

// specification.md 3.10: a mutation of a third-party plugin that reads the time or random bytes with WASI is for one
// request only.
func TestNoReuseAfterWASI(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		reused bool
	}{
		"nothing":         {``, true},
		"clock_time_get":  {`(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 8)))`, false},
		"monotonic clock": {`(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 8)))`, false},
		"random_get":      {`(drop (call $random_get (i32.const 8) (i32.const 8)))`, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := fixed(c.before)
			if c.reused { // a module that imports these functions is never reused
				for _, line := range []string{"clock_time_get", "random_get"} {
					at := strings.Index(text, `(import "wasi_snapshot_preview1" "`+line)
					text = text[:at] + text[at+strings.Index(text[at:], "\n"):]
				}
			}
			plugin := host.Plugin{Name: "custom.wasm", Wasm: assemble(t, text)}
			w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, plugin) })
			secret := w.canary("s")
			connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
			for range 3 {
				if got := w.get(connector).Header.Get("X-Key"); got != secret {
					t.Fatal("the header is another")
				}
			}
			for i, call := range w.calls[1:] {
				if call.Reused != c.reused {
					t.Errorf("request %d: the mutation was used again: %t", i+2, call.Reused)
				}
			}
		})
	}
}
