package hosttest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

// complaints runs a test with its clean-up functions, and returns its failures.
func complaints(test func(tb TB)) []string {
	return testworld.Collect(func(c *testworld.Collector) { test(c) }).Failures()
}

// wantComplaint fails the test unless there is exactly one failure, which contains all the texts.
func wantComplaint(t *testing.T, got []string, texts ...string) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("complaints: %q", got)
	}
	for _, text := range texts {
		if !strings.Contains(got[0], text) {
			t.Errorf("%q does not say %q", got[0], text)
		}
	}
}

// In a verbose test, each call in the sandbox logs what it did, as Explain shows it.
func TestVerboseLogsCalls(t *testing.T) {
	for name, want := range map[string]struct {
		verbose bool
		texts   []string
	}{
		"not verbose": {false, nil},
		"verbose": {true, []string{
			"auth type scripted\n",
			"the request to the token endpoint\n  POST https://login.test/token\n  grant_type=client_credentials&audience=a",
			"the data of digest sha256\n  {{ get_secret('crm') }}",
			"the request gets\n  Authorization: Bearer <token>\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := testworld.Collect(func(tb *testworld.Collector) {
				h := nativeHarness(tb, exchanging{scripted(exchange)})
				h.verbose = want.verbose
				h.Canary("crm")
				h.TokenEndpoint("https://login.test/token", Token("the-access-token", 300))
				h.Authenticate(config, GET("https://api.test"))
				h.Authenticate(config, GET("https://api.test")) // uses the mutation again, and so does nothing
			})
			if failures := run.Failures(); len(failures) > 0 {
				t.Errorf("failures: %q", failures)
			}
			log := strings.Join(run.Logs(), "\n")
			rest := log
			for _, text := range want.texts {
				_, after, found := strings.Cut(rest, text)
				if !found {
					t.Fatalf("no %q, or not in this place:\n%s", text, log)
				}
				rest = after
			}
			if want.texts == nil && log != "" || strings.Count(log, "the request to the token endpoint") > 1 {
				t.Errorf("the log is\n%s", log)
			}
		})
	}
}

// exchanging is a plugin that also hashes its secret.
type exchanging struct{ scripted }

func (e exchanging) Describe() sdk.Description {
	d := e.scripted.Describe()
	d.Fields[0].Sinks = []sdk.Sink{sdk.ToDigest}
	return d
}

// exchange requests a token unless it has one, and hashes the secret.
func exchange(c *sdk.Call) (sdk.Mutation, error) {
	token, ok := c.Cached("token")
	if !ok {
		issued, err := c.RequestToken(sdk.TokenRequest{
			URL: c.Config("token_url"), Form: []sdk.Pair{{Name: "grant_type", Value: "client_credentials"}, {Name: "audience", Value: "a"}},
		})
		if err != nil {
			return sdk.Mutation{}, err
		}
		c.Digest("sha256", c.Config("value"))
		c.Cache("token", issued.AccessToken, 4*time.Minute)
		token = issued.AccessToken
	}
	return sdk.Bearer(token), nil
}

// scripted is a plugin whose Authenticate is a function of the test.
type scripted func(c *sdk.Call) (sdk.Mutation, error)

func (scripted) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "scripted", Version: "1.0.0", Summary: "Does what a test wants.",
		Uses: []sdk.Group{sdk.UsesToken, sdk.UsesCache},
		Fields: []sdk.Field{
			{Name: "value", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToHeader}},
			{Name: "token_url", Kind: sdk.URL, Sinks: []sdk.Sink{sdk.ToToken}},
		},
	}
}

func (s scripted) Authenticate(c *sdk.Call) (sdk.Mutation, error) { return s(c) }

var config = Config{"value": "{{ get_secret('crm') }}", "token_url": "https://login.test/token"}

func nativeHarness(tb TB, p sdk.Plugin) *Harness {
	return newHarness(tb, "", testhook.NativePlugin("native", newNative(tb, p, callTimeout), nil).(host.Plugin), false)
}

// leakyModule assembles testdata/leaky.wat with wat2wasm, of the Debian package wabt.
func leakyModule(t *testing.T) []byte {
	t.Helper()
	wasm, err := exec.Command("wat2wasm", "--output=-", filepath.Join("testdata", "leaky.wat")).Output()
	if err != nil {
		t.Fatalf("wat2wasm (install wabt): %v", err)
	}
	return wasm
}

// leakyHarness returns a harness for the module of leakyModule, with the grant reveal.
func leakyHarness(tb TB, wasm []byte) *Harness {
	h := newHarness(tb, "", host.Plugin{Name: "leaky.wasm", Wasm: wasm}, false)
	h.Grant("reveal")
	h.Canary("crm")
	return h
}

func TestSecretInMemory(t *testing.T) {
	wasm := leakyModule(t)
	got := complaints(func(tb TB) {
		h := leakyHarness(tb, wasm)
		h.Secret("other", `"X-Fixed","value":"always"`) // the module has this text in its data, and did not reveal it
		if got := h.Authenticate(Config{"value": "{{ get_secret('crm') }}"}, GET("https://api.test")); got.Header("X-Fixed") != "always" {
			t.Errorf("headers: %v", got.Request.Header)
		}
	})
	wantComplaint(t, got, "the guest's memory holds secret \"other\", as it is")
}

func TestSentCredentialInMemory(t *testing.T) {
	var e evidence
	e.begin()
	e.memory([]byte("\x00\x00eyJhIjoxfQ.eyJiIjoyfQ.c2lnbmF0dXJl\x00\x00"), []byte("and U2VjcmV0 a basic-credential"))
	e.noteRequest(http.Header{"Authorization": {"Basic basic-credential"}, "X-Proof": {"eyJhIjoxfQ.eyJiIjoyfQ.c2lnbmF0dXJl"}}, nil)
	e.end()
	if got := strings.Join(e.leaks(), "; "); got != "the guest's memory holds a signed JWT, as it is; "+
		"the guest's memory holds the credential of an Authorization header, as it is; "+
		"the guest's memory holds the signature of a JWT, as it is" {
		t.Error(got)
	}
}

// Memory is searched when no request is in flight, because the credentials of a request in flight are not known yet.
func TestMemorySearchWaitsForRequests(t *testing.T) {
	var e evidence
	e.begin()
	e.begin()
	e.memory([]byte("the-credential"), nil)
	e.end()
	e.noteRequest(http.Header{"Authorization": {"the-credential"}}, nil)
	e.end()
	if got := e.leaks(); len(got) != 1 {
		t.Error(got)
	}
}

// The attributes of a logger are searched as well as those of its records.
func TestLogs(t *testing.T) {
	got := complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(nil))
		secret := h.Canary("crm")
		slog.New(&logger{harness: h}).With("key", secret).Info("text", "other", 1)
	})
	wantComplaint(t, got, `a log line of level INFO holds secret "crm", as it is`)
}

// A leak of a revealed secret is found in each form and place.
func TestLeaks(t *testing.T) {
	for _, test := range []struct {
		name   string
		leak   func(c *sdk.Call, secret string) error
		places []string
	}{
		{"log", func(c *sdk.Call, secret string) error {
			c.Debug(base64.RawStdEncoding.EncodeToString([]byte("x" + secret + "xx")))
			return nil
		}, []string{"a log line of level DEBUG holds secret \"crm\", in base64 from byte 1 on"}},
		{"error", func(_ *sdk.Call, secret string) error {
			return errors.New(strings.ToUpper(fmt.Sprintf("%x", secret)))
		}, []string{
			"the error that Config.Observe was given holds secret \"crm\", in hex, in capitals",
			"the request's error holds secret \"crm\", in hex, in capitals",
		}},
		{"nowhere", func(*sdk.Call, string) error { return nil }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := complaints(func(tb TB) {
				h := nativeHarness(tb, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
					value := c.Config("value")
					return sdk.Header("X-Key", value), test.leak(c, string(c.Reveal(value)))
				}))
				h.Grant("reveal")
				h.Canary("crm")
				_, _ = h.Try(config, GET("https://api.test"))
			})
			if len(got) != len(test.places) {
				t.Fatalf("complaints: %q", got)
			}
			for i, place := range test.places {
				if got[i] != "hosttest: "+place {
					t.Errorf("%q, not %q", got[i], place)
				}
			}
		})
	}
}

func TestUnknownURL(t *testing.T) {
	got := complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
			_, err := c.RequestToken(sdk.TokenRequest{URL: c.Config("token_url")})
			return sdk.Mutation{}, err
		}))
		h.Canary("crm")
		h.TokenEndpoint("https://other.test/", Token("the-access-token", 300))
		if _, err := h.Try(config, GET("https://api.test")); err == nil {
			t.Error("there was an answer")
		}
	})
	wantComplaint(t, got, `"https://login.test/token"`, "h.TokenEndpoint(", `"https://other.test/"`)
}

func TestShortToken(t *testing.T) {
	got := complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
			token, err := c.RequestToken(sdk.TokenRequest{URL: c.Config("token_url")})
			return sdk.Bearer(token.AccessToken), err
		}))
		h.Canary("crm")
		h.TokenEndpoint("https://login.test/token", Token("t1", 300))
		h.Authenticate(config, GET("https://api.test"))
	})
	wantComplaint(t, got, `"t1"`, "8 bytes or more")
}

func TestLateSettings(t *testing.T) {
	for name, late := range map[string]func(h *Harness){
		"Grant":    func(h *Harness) { h.Grant("reveal") },
		"Variable": func(h *Harness) { h.Variable("a", "b") },
		"Limits":   func(h *Harness) { h.Limits(host.Limits{LogLines: 1}) },
	} {
		got := complaints(func(tb TB) {
			h := nativeHarness(tb, scripted(nil))
			h.Description()
			late(h)
		})
		wantComplaint(t, got, name+" comes too late", "before")
	}
}

func TestAuthenticateFailures(t *testing.T) {
	keyed := scripted(func(c *sdk.Call) (sdk.Mutation, error) { return sdk.Header("X-Key", c.Config("value")), nil })
	got := complaints(func(tb TB) {
		h := nativeHarness(tb, keyed)
		h.Canary("crm")
		h.AuthenticateError(config, GET("https://api.test"))
	})
	wantComplaint(t, got, "the request was sent")

	got = complaints(func(tb TB) { nativeHarness(tb, keyed).Authenticate(config, GET("https://api.test")) })
	wantComplaint(t, got, "was not authenticated", `"crm"`, "Harness.Canary")

	got = complaints(func(tb TB) { nativeHarness(tb, keyed).AuthenticateError(nil, GET("https://api.test")) })
	wantComplaint(t, got, "auth.config.value", "Harness.Problems")
}

// Concurrent requests share a connector and wait for one exchange.
func TestConcurrentRequests(t *testing.T) {
	h := nativeHarness(t, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
		c.Warn("once for a connector")
		if token, ok := c.Cached("t"); ok {
			return sdk.Bearer(token), nil
		}
		token, err := c.RequestToken(sdk.TokenRequest{URL: c.Config("token_url")})
		if err == nil {
			c.Cache("t", token.AccessToken, token.ExpiresIn)
		}
		return sdk.Bearer(token.AccessToken), err
	}))
	h.Canary("crm")
	h.TokenEndpoint("https://login.test/token", Token("first-token", 60), Token("second-token", 60))
	for _, want := range []string{"first-token", "second-token"} {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				got, err := h.Try(config, GET("https://api.test"))
				if err != nil || got.Header("Authorization") != "Bearer "+want {
					t.Errorf("not %s, or an error: %v", want, err)
				}
			})
		}
		all.Wait()
		h.Advance(time.Minute)
	}
	if n := len(h.Exchanges()); n != 2 {
		t.Errorf("%d exchanges", n)
	}
	if w := h.Warnings(); len(w) != 1 {
		t.Errorf("warnings: %q", w)
	}
}
