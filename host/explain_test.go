package host_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

func (w *world) explain(c *host.Connector, r *http.Request) (*host.Explanation, error) {
	e, err := c.Explain(r)
	w.OutError("Explain's error", err)
	if e != nil {
		document, _ := json.Marshal(e)
		w.Out("the explanation", string(document))
	}
	return e, err
}

func TestExplainSendsNothingAndMasks(t *testing.T) {
	w := newWorld(t)
	w.Hide("a key that is written out", "written-out-key")
	for _, c := range []struct {
		name, authType string
		config         config
		url, added     string // added is the header or the query
	}{
		{"header", "api_key", key("x{{ get_secret('s') }}"), apiURL + "?a=1", "x{{ get_secret('s') }}"},
		{"a key that is written out", "api_key", key("written-out-key"), apiURL + "?a=1", "<value>"},
		{"query", "api_key", with(key("{{ get_secret('s') }}"), "in", "query"), apiURL + "?a=1&X-Key={{ get_secret('s') }}", "X-Key={{ get_secret('s') }}"},
		{
			"JWT", "jwt",
			config{"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": config{"exp": "{{ now(60) }}", "x": "{{ get_secret('s') }}"}},
			apiURL + "?a=1", `Bearer <jwt {"alg":"HS256","typ":"JWT"}.{"exp":1700000060,"x":"{{ get_secret('s') }}"}>`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := must(w.explain(w.connect(c.authType, c.config), request(t, apiURL+"?a=1")))(t)
			got := e.Added.Query
			for _, h := range e.Added.Headers {
				got += h.Value
			}
			if e.URL != c.url || got != c.added || e.Method != http.MethodGet || e.Connector != "crm" || e.AuthType != c.authType {
				t.Errorf("%+v, want %s and %s", e, c.url, c.added)
			}
		})
	}
	if w.login.Count() != 0 || w.api.Count() != 0 {
		t.Errorf("%d token requests and %d requests were sent", w.login.Count(), w.api.Count())
	}
}

func TestExplainShowsTheWholeRequest(t *testing.T) {
	w, c := keyWorld(t)
	r := request(t, "https://me:pw@api.test/x?#f")
	r.Header = http.Header{"x-key": {"mine"}, "B": {"2", "3"}, "A": {"1"}}
	for range 5 {
		e := must(w.explain(c, r))(t)
		list := ""
		for _, h := range e.Headers {
			list += h.Name + "=" + h.Value + ";"
		}
		if list != "A=1;B=2;B=3;X-Key={{ get_secret('s') }};" || e.URL != "https://api.test/x?" {
			t.Fatalf("%s with %s", e.URL, list)
		}
	}
	e, err := w.explain(w.connect("api_key", with(key("v-that-is-literal"), "in", "query")), r)
	if err != nil || e.URL != "https://api.test/x?X-Key=<value>" {
		t.Errorf("e = %+v, err = %v", e, err)
	}
}

func TestExplainFailsWhereTheRequestWould(t *testing.T) {
	fails := func(w *world, c *host.Connector, r *http.Request, stage host.Stage) {
		t.Helper()
		_, err := w.explain(c, r)
		if failure, ok := err.(*host.Error); !ok || failure.Stage != stage { //nolint:errorlint // Explain returns it as it is
			t.Errorf("%s: err = %v", stage, err)
		}
	}
	w := newWorld(t)
	for stage, c := range map[host.Stage]*host.Connector{
		host.StageTemplate: w.connect("api_key", key("{{ get_secret('gone') }}")),
		host.StageConfig:   w.connect("api_key", key("{{ default('', '') }}")),
		host.StageSign:     w.connect("jwt", config{"private_key": "no PEM", "claims": config{}}),
		host.StageMutation: w.connect("api_key", key("a\nb")),
	} {
		fails(w, c, get(t.Context()), stage)
	}
	for stage, header := range map[host.Stage]string{host.StageOrigin: "host", host.StageMutation: "Connection"} {
		r := get(t.Context())
		r.Header[header] = []string{"X-Key"}
		fails(w, w.connect("api_key", key("a-key")), r, stage)
	}
	sealed := misusedWorld(t, func(env contract.Env) (string, error) { return header("X-Key", value(env, "to_token")), nil })
	fails(sealed, sealed.connect("custom", misused), get(t.Context()), host.StagePlugin)
}

// A request is explained as the plugin would send it after a challenge, or at first if the plugin passes that challenge on.
func TestExplainOfAPluginWithAChallenge(t *testing.T) {
	for name, c := range map[string]struct {
		pass func(contract.ChallengeReply) bool
		want string // of the header X-Nonce, or of the error
	}{
		"that answers it":   {func(contract.ChallengeReply) bool { return false }, "<nonce>"},
		"that passes it on": {func(c contract.ChallengeReply) bool { return c.Status != 0 }, "none"},
		"that passes all":   {func(contract.ChallengeReply) bool { return true }, "passes the API's answer on"},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
				reply := challengeOf(env)
				if c.pass(reply) {
					return marshal(contract.Mutation{Pass: true}), nil
				}
				return header("X-Nonce", cmp.Or(reply.Answers["nonce"], "none")), nil
			})
			explained, err := connector.Explain(get(t.Context()))
			got := fmt.Sprint(err)
			if err == nil {
				got = explained.Added.Headers[0].Value
			}
			if !strings.Contains(got, c.want) || w.api.Count() > 0 {
				t.Errorf("it is explained as %s, want %s", got, c.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	w, c := tokenWorld(t, nil)
	const took = 42 * time.Millisecond
	slowly := func(a answer) answer {
		return func(r *http.Request) (*http.Response, error) {
			w.Advance(took)
			return a(r)
		}
	}
	w.login.Answer(slowly(token("t1", 3600)))
	w.get(c)
	w.get(c)
	w.login.Answer(slowly(status(http.StatusBadGateway)))
	w.Advance(time.Hour)
	w.refuse(c, get(t.Context()), host.StageToken)
	if len(w.calls) != 3 {
		t.Fatalf("%d calls, want 3", len(w.calls))
	}
	asked := host.Attempt{Exchanges: 1, TokenTime: took, Endpoint: "https://login.test"}
	for i, want := range []host.Attempt{asked, {Cached: true}, asked} {
		got := w.calls[i]
		if got.Connector != "crm" || got.AuthType != "oauth_client_credentials" || got.Exchanges != want.Exchanges ||
			got.TokenTime != want.TokenTime || got.Endpoint != want.Endpoint ||
			got.Cached != want.Cached || (got.Err != nil) != (i == 2) || got.SandboxTime <= 0 {
			t.Errorf("call %d is %+v", i, got)
		}
	}
}

// The endpoint of an attempt stays, also if the plugin runs once more after it, to read the request's body.
func TestEndpointOfAnAttempt(t *testing.T) {
	g := readsRequest(func(env contract.Env) { env.Body() })
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	r := get(t.Context())
	r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader("a body"))
	w.send(w.connect("custom", config{"url": tokenURL, "plain": "a text"}), r)
	if len(w.calls) != 1 || w.calls[0].Runs != 3 || w.calls[0].Exchanges != 1 || w.calls[0].Endpoint != "https://login.test" {
		t.Errorf("Observe got %+v", w.calls)
	}
}

// Observe is called when the right to fetch the token has ended: it may send a request of its own, which waits for nobody.
func TestObserveSendsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		var c *host.Connector
		var began atomic.Bool
		var failure error
		w = newWorld(t, func(config *host.Config) {
			config.Observe = func(ctx context.Context, _ host.Attempt) {
				if began.Swap(true) {
					return
				}
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				w.login.Answer(token("t1", 3600))
				_, failure = w.try(c, get(ctx))
			}
		})
		c = w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		w.login.Answer(status(http.StatusInternalServerError))
		if _, err := w.try(c, get(t.Context())); err == nil || failure != nil || w.login.Count() != 2 {
			t.Errorf("%v, and the request of Observe: %v, after %d exchanges", err, failure, w.login.Count())
		}
	})
}

// Observe is called once for each attempt, however it fails.
func TestObserveFailures(t *testing.T) {
	for name, c := range map[string]struct {
		auth host.Auth
		fail func(w *world)
		want error
	}{
		"a secret is missing": {
			host.Auth{Type: "api_key", Config: key("{{ get_secret('s') }}")},
			func(w *world) { w.setSecret("s", "") }, nil,
		},
		"the host is closed": {
			host.Auth{Type: "api_key", Config: key("{{ get_secret('s') }}")},
			func(w *world) { _ = w.host.Close(w.t.Context()) }, host.ErrClosed,
		},
		"the endpoint is down": {
			host.Auth{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")},
			func(w *world) { w.login.Answer(status(http.StatusBadGateway)) }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			connector := w.connect(c.auth.Type, c.auth.Config)
			c.fail(w)
			_, err := w.try(connector, get(t.Context()))
			if err == nil || len(w.calls) != 1 || !errors.Is(w.calls[0].Err, err) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("the error is %v, and Observe was told of %+v", err, w.calls)
			}
		})
	}
	// The caller that requests the token goes away, and so does a caller that waits for it.
	synctest.Test(t, func(t *testing.T) {
		w, c, g := gatedWorld(t)
		gone, leave := context.WithCancel(t.Context())
		for range 2 {
			go func() { _, _ = w.try(c, get(gone)) }()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		if len(w.calls) != 1 || !errors.Is(w.calls[0].Err, context.Canceled) {
			t.Errorf("Observe was told of %+v, want the one that waited", w.calls)
		}
		close(g.open)
		synctest.Wait()
		if len(w.calls) != 2 || w.calls[1].Err != nil || w.calls[1].Exchanges != 1 {
			t.Errorf("Observe was told of %+v, want the exchange as well", w.calls)
		}
	})
	// The token comes, and cannot be put into the request.
	w, r := newWorld(t), get(t.Context())
	r.Header.Set("Connection", "Authorization")
	_, err := w.try(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), r)
	if err == nil || len(w.calls) != 1 || w.calls[0].Exchanges != 1 {
		t.Errorf("the error is %v, and Observe was told of %+v", err, w.calls)
	}
}

// An explanation replaces a placeholder where the request does: in the path, once, and not in the text that replaces it.
func TestExplainOfAPlaceholder(t *testing.T) {
	w := newWorld(t)
	w.canary("test")
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/bottest/%74est/a?test=1", nil)
	e := must(w.connect("api_key", config{"key": "test", "value": "{{ get_secret('test') }}", "in": "path"}).Explain(r))(t)
	if want := "https://api.test/bot{{ get_secret('test') }}/{{ get_secret('test') }}/a?test=1"; e.URL != want {
		t.Errorf("%s, want %s", e.URL, want)
	}
}

// For each auth type of this repository, Explain shows the texts that are signed, each request to a token endpoint, and what
// the API gets. None of that has a credential (threats.md 18).
func TestExplainOfEachType(t *testing.T) {
	const secret = "{{ get_secret('s') }}"
	configs := testworld.AuthTypes(tokenURL)
	configs["token_exchange"]["subject_token"] = "{{ user.token }}"
	wants := map[string][]string{ // texts of the explanation, in order
		"none":                     nil,
		"api_key":                  {"X-Key: " + secret},
		"basic":                    {"Authorization: Basic "},
		"bearer":                   {"Authorization: Bearer " + secret},
		"jwt":                      {`Bearer <jwt {"alg":"HS256","typ":"JWT"}.{"sub":"ann"}>`},
		"oauth_client_credentials": {"POST " + tokenURL, "grant_type=client_credentials", "Authorization: Bearer <token>"},
		"oauth_jwt_bearer":         {"POST " + tokenURL, `assertion=<jwt {"alg":"HS256"`, `"sub":"ann"`, "Authorization: Bearer <token>"},
		"oauth_password":           {"POST " + tokenURL, "grant_type=password", "password=" + secret, "Authorization: Bearer <token>"},
		"oauth_refresh_token":      {"POST " + tokenURL, "grant_type=refresh_token", "refresh_token=<refresh_token>", "Authorization: Bearer <"},
		"oauth_authorization_code": {"POST " + tokenURL, "grant_type=refresh_token", "refresh_token=<refresh_token>", "Authorization: Bearer <"},
		"token_exchange":           {"POST " + tokenURL, "subject_token={{ user.token }}", "Authorization: Bearer <token>"},
		"dpop":                     {"POST " + tokenURL, "DPoP: <jwt {", "Authorization: DPoP <"},
		"login":                    {"POST " + tokenURL, `"password":"` + secret, "X-Session: <"},
		"github_app":               {"POST https://login.test/app/installations/4711/access_tokens", "Authorization: Bearer <jwt {", "Authorization: Bearer <"},
		"google_service_account":   {"POST " + tokenURL, `assertion=<jwt {"alg":"RS256"`, "Authorization: Bearer <"},
		"aws_sigv4":                {"the data of digest sha256", "GET", "the data of mac HS256", "AWS4-HMAC-SHA256", "Authorization: AWS4-HMAC-SHA256 Credential=AKIABASE/"},
		"aws_assume_role":          {"POST " + tokenURL, "Action=AssumeRole", "AWS4-HMAC-SHA256", "Authorization: AWS4-HMAC-SHA256 Credential="},
		"http_signature":           {"the data of sign_sealed EdDSA", `"@signature-params": `, "Signature-Input: ", "Signature: "},
		"jws":                      {"jws_sign EdDSA\n  GET /v1/things", `X-Jws-Signature: <jws {"alg":"EdDSA"}.GET /v1/things>`},
		"signature":                {"the data of mac HS256\n  GET /v1/things", "X-Signature: "},
		"oauth1":                   {"the data of mac HS1\n  GET&https%3A%2F%2Fapi.test%2Fv1%2Fthings&", "Authorization: OAuth ", "oauth_signature="},
		"digest":                   {"the data of digest ", ":" + secret, "Authorization: Digest "},
	}
	w := newWorld(t, listed("login.test"), withState(t, &failingStore{}), func(c *host.Config) { c.BuiltIns = allBuiltIns(t) })
	w.keys()
	for _, info := range w.host.Plugins() {
		t.Run(info.Type, func(t *testing.T) {
			want, ok := wants[info.Type]
			if !ok {
				t.Fatal("there is no case for this type")
			}
			w.canary("s")
			w.canary("seed")
			e := must(w.explain(w.connect(info.Type, configs[info.Type]), w.as(w.Secret("the user's token"))))(t)
			text := explained(e)
			w.Out("the text of the explanation", text)
			rest := text
			for _, want := range want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("no %q, or not in this place:\n%s", want, text)
				}
				rest = after
			}
		})
	}
	if w.login.Count() != 0 || w.api.Count() != 0 {
		t.Errorf("%d token requests and %d requests were sent", w.login.Count(), w.api.Count())
	}
}

// allBuiltIns returns all plugins of this repository.
func allBuiltIns(t *testing.T) []host.Plugin {
	t.Helper()
	modules := must(filepath.Glob("../plugins/*/*.wasm"))(t)
	var all []host.Plugin
	for _, name := range modules {
		wasm := must(os.ReadFile(name))(t)
		all = append(all, host.Plugin{Name: filepath.Base(name), Wasm: wasm})
	}
	return all
}

// keys sets the secrets of testworld.AuthTypes that are keys.
func (w *world) keys() {
	w.t.Helper()
	for _, kind := range []string{"rsa", "ed", "jws"} {
		w.setSecret(kind, w.Key(w.t, kind))
	}
}

// explained returns an explanation as text.
func explained(e *host.Explanation) string {
	text := ""
	for _, step := range e.Steps {
		text += step.String()
	}
	return text + e.Added.String()
}
