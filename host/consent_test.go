package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

const (
	redirectURI = "https://gateway.test/connect/crm/callback"
	binding     = "a cookie of one browser"
)

var (
	alice = host.User{ID: "alice", TenantID: "acme", Email: "alice@acme.test"}
	bob   = host.User{ID: "bob", TenantID: "acme"}
)

// issuer is an authorization server that redeems each code and each refresh token once.
type issuer struct {
	mu    sync.Mutex
	codes map[string]bool
	spent map[string]bool
	n     int
}

func (s *issuer) answer(r *http.Request) (*http.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := r.PostForm.Get("code") + r.PostForm.Get("refresh_token")
	if !s.codes[sent] || s.spent[sent] {
		return testworld.Response(http.StatusBadRequest, `{"error":"invalid_grant"}`), nil
	}
	s.n++
	s.spent[sent] = true
	next := fmt.Sprintf("refresh-token-%d-after-%s", s.n, sent)
	s.codes[next] = true
	return testworld.Response(http.StatusOK, fmt.Sprintf(`{"access_token":"access-token-%d-for-%s","expires_in":3600,"refresh_token":%q}`, s.n, sent, next)), nil
}

// consenting is a cluster whose authorization server issues what codes stand for.
func consenting(t *testing.T, codes ...string) *cluster {
	t.Helper()
	return newCluster(t, newIssuer(codes...).answer)
}

func newIssuer(codes ...string) *issuer {
	s := &issuer{codes: map[string]bool{}, spent: map[string]bool{}}
	for _, code := range codes {
		s.codes[code] = true
	}
	return s
}

// withAuthCode leaves oauth_authorization_code as the only built-in type.
func withAuthCode(c *host.Config) {
	c.BuiltIns = []host.Plugin{{Name: "authcode", Wasm: plugins.OAuthAuthorizationCode()}}
}

// consents adds a node, and returns its world and a connector with consent.
func consents(c *cluster, change ...any) (*world, *host.Connector) {
	w := c.world(withAuthCode)
	w.canaryOf("s", "the secret of the client")
	return w, w.connectAs("crm", "oauth_authorization_code", authCode(change...))
}

func authCode(change ...any) config {
	return with(oauth("{{ get_secret('s') }}"), append([]any{"authorization_url", "https://login.example.com/authorize"}, change...)...)
}

// forUser returns a context of a user, or of nobody.
func forUser(t *testing.T, user host.User) context.Context {
	t.Helper()
	if user == (host.User{}) {
		return t.Context()
	}
	return host.WithUser(t.Context(), user)
}

// begin begins a consent of a user and returns the query of the authorization request.
func begin(t *testing.T, c *host.Connector, user host.User) url.Values {
	t.Helper()
	target := must(c.BeginConsent(forUser(t, user), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding}))(t)
	u := must(url.Parse(target))(t)
	return u.Query()
}

// back returns the request with which a browser comes back.
func back(request url.Values, code string) host.AuthorizationResponse {
	return host.AuthorizationResponse{RedirectURI: redirectURI, Binding: binding, Response: url.Values{"state": request["state"], "code": {code}}}
}

// finish ends a consent of a user at a host.
func finish(t *testing.T, w *world, c *host.Connector, user host.User, b host.AuthorizationResponse) error {
	t.Helper()
	got, err := w.host.Callback(forUser(t, user), b, func(name string) *host.Connector {
		if c != nil && name != c.Config().Name {
			t.Errorf("the connector %q is asked for", name)
		}
		return c
	})
	w.OutError("the error of Callback", err)
	if err == nil && (got.Connector != c.Config().Name || user != (host.User{}) && (got.User == nil || got.User.ID != user.ID)) {
		t.Errorf("the consent is that of %+v", got)
	}
	return err
}

// condition checks the condition of a user's connection.
func condition(t *testing.T, c *host.Connector, user host.User, want host.Condition) {
	t.Helper()
	if got, err := c.Connection(forUser(t, user)); err != nil || got.Condition != want {
		t.Errorf("the condition is %v, %v, want %s", got, err, want)
	}
}

// A consent counts for the user and in the browser that began it, once, for ten minutes, and for the connector as it was. Otherwise
// nothing is kept, and the token endpoint is not asked (threats.md 128, 129).
func TestConsentOwner(t *testing.T) {
	const code = "the-code-of-alice"
	changed := func(change func(*host.AuthorizationResponse)) func(*host.AuthorizationResponse, *cluster) {
		return func(b *host.AuthorizationResponse, _ *cluster) { change(b) }
	}
	for _, test := range []struct {
		name       string
		began, now host.User
		change     func(*host.AuthorizationResponse, *cluster)
		want       host.ConsentReason
	}{
		{"the same user", alice, alice, nil, ""},
		{"no session any more", alice, host.User{}, nil, ""},
		{"the operator", host.User{}, host.User{}, nil, ""},
		{"almost ten minutes", alice, alice, func(_ *host.AuthorizationResponse, c *cluster) { c.clock.Advance(10*time.Minute - time.Second) }, ""},
		{"another user", alice, bob, nil, host.ConsentOther},
		{"another tenant", alice, host.User{ID: "alice", TenantID: "other"}, nil, host.ConsentOther},
		{"a user for the operator", host.User{}, alice, nil, host.ConsentOther},
		{"another browser", alice, alice, changed(func(b *host.AuthorizationResponse) { b.Binding = "a cookie of another one" }), host.ConsentOther},
		{"no cookie", alice, alice, changed(func(b *host.AuthorizationResponse) { b.Binding = "" }), host.ConsentOther},
		{"the URL of another connector", alice, alice, changed(func(b *host.AuthorizationResponse) { b.RedirectURI = "https://gateway.test/connect/other/callback" }), host.ConsentForged},
		{"another state", alice, alice, changed(func(b *host.AuthorizationResponse) { b.Response.Set("state", strings.Repeat("A", 43)) }), host.ConsentUnknown},
		{"no state", alice, alice, changed(func(b *host.AuthorizationResponse) { b.Response.Del("state") }), host.ConsentUnknown},
		{"ten minutes", alice, alice, func(_ *host.AuthorizationResponse, c *cluster) { c.clock.Advance(10 * time.Minute) }, host.ConsentUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := consenting(t, code)
			w, connector := consents(c)
			b := back(begin(t, connector, test.began), code)
			if test.change != nil {
				test.change(&b, c)
			}
			err := finish(t, w, connector, test.now, b)
			var refused *host.ConsentError
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				condition(t, connector, test.began, host.ConditionConnected)
			} else {
				if !errors.As(err, &refused) || refused.Reason != test.want {
					t.Errorf("the error is %v, want %s", err, test.want)
				}
				if n := c.login.Count(); n != 0 {
					t.Errorf("the token endpoint was asked %d times", n)
				}
				condition(t, connector, test.began, host.ConditionNotConnected)
			}
			// Whatever came of it, it does not count again.
			if again := finish(t, w, connector, test.began, back(b.Response, code)); !errors.As(again, &refused) || refused.Reason != host.ConsentUnknown {
				t.Errorf("the second time, the error is %v", again)
			}
		})
	}
}

// A consent that was begun on one node ends on another, once, even if it comes back many times at once (threats.md 128). The
// store learns neither code, verifier nor tokens, and no token is anybody else's (threats.md 131).
func TestAConsentOnTwoNodes(t *testing.T) {
	const code = "the-code-of-alice"
	c := consenting(t, code)
	one, first := consents(c)
	two, second := consents(c)
	request := begin(t, first, alice)
	one.Hide("the state", request.Get("state"))
	one.Hide("the code", code)
	var all sync.WaitGroup
	var good atomic.Int32
	for range 8 {
		all.Go(func() {
			if finish(t, two, second, alice, back(request, code)) == nil {
				good.Add(1)
			}
		})
	}
	all.Wait()
	form := c.login.Last().Form()
	one.Hide("the code verifier", form.Get("code_verifier"))
	if good.Load() != 1 || c.login.Count() != 1 || form.Get("redirect_uri") != redirectURI {
		t.Errorf("%d of 8 consents count, after %d requests: %v", good.Load(), c.login.Count(), form)
	}
	condition(t, first, alice, host.ConditionConnected)
	for range 2 {
		one.send(first, get(forUser(t, alice)))
		two.send(second, get(forUser(t, alice)))
	}
	if token := bearerOf(one); token != bearerOf(two) || !strings.Contains(token, "refresh-token-1") || c.login.Count() != 2 {
		t.Errorf("the nodes send %q and %q after %d requests", token, bearerOf(two), c.login.Count())
	}
	one.Hide("an access token", strings.TrimPrefix(bearerOf(one), "Bearer "))
	for _, other := range []host.User{bob, {ID: "alice"}, {ID: "alice", TenantID: "other"}, {}} {
		condition(t, second, other, host.ConditionNotConnected)
		if err := two.refuse(second, get(forUser(t, other)), host.StageToken); !errors.As(err, new(*host.GrantError)) {
			t.Errorf("%v: the error is %v", other, err)
		}
	}
}

// After a grant was taken back, or replaced by that of another consent, the node uses its tokens no more, and the others do not
// after half a minute (threats.md 130).
func TestTokensOfAnEarlierGrant(t *testing.T) {
	c := consenting(t, "the-first-code", "the-second-code")
	one, first := consents(c)
	two, second := consents(c)
	nodes := func() {
		one.send(first, get(forUser(t, alice)))
		two.send(second, get(forUser(t, alice)))
	}
	for _, code := range []string{"the-first-code", "the-second-code"} {
		check(t, finish(t, one, first, alice, back(begin(t, first, alice), code)))
		one.send(first, get(forUser(t, alice)))
		if token := bearerOf(one); !strings.Contains(token, code) {
			t.Errorf("after the consent with %s the node sends %q", code, token)
		}
		c.clock.Advance(30 * time.Second)
		nodes()
		if token := bearerOf(two); token != bearerOf(one) {
			t.Errorf("the other node sends %q, want %q", token, bearerOf(one))
		}
	}
	gone, cancel := context.WithCancel(forUser(t, alice))
	cancel()
	if err := first.Disconnect(gone); err != nil { // a browser that is closed does not leave half of it
		t.Error(err)
	}
	condition(t, second, alice, host.ConditionNotConnected)
	one.refuse(first, get(forUser(t, alice)), host.StageToken, "is not there")
	c.clock.Advance(30 * time.Second)
	two.refuse(second, get(forUser(t, alice)), host.StageToken, "is not there")
}

// The text of a consent that the authorization server refuses has its error code once, if that is a registered one.
func TestRefusedConsentTexts(t *testing.T) {
	c := consenting(t, "the-code")
	w, connector := consents(c)
	for code, want := range map[string]string{
		"access_denied": "the consent was refused (access_denied)",
		"invalid_scope": "the authorization server answered with the error invalid_scope",
		"of-its-own":    "the authorization server answered with the error (one that is not registered)",
	} {
		answer := back(begin(t, connector, alice), "")
		answer.Response.Set("error", code)
		if err := finish(t, w, connector, alice, answer); err == nil || err.Error() != want {
			t.Errorf("%s got %v, want %s", code, err, want)
		}
	}
}

// While the store is down, no consent begins or ends, and what was got with a grant is used to its end.
func TestConsentWithoutTheStore(t *testing.T) {
	c := consenting(t, "the-first-code")
	w, connector := consents(c)
	check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), "the-first-code")))
	w.send(connector, get(forUser(t, alice)))
	request := begin(t, connector, alice)
	c.store.down.Store(true)
	defer c.store.down.Store(false)
	c.clock.Advance(time.Minute)
	w.send(connector, get(forUser(t, alice)))
	if n := c.login.Count(); n != 2 {
		t.Errorf("there were %d token requests, want 2", n)
	}
	w.refuse(connector, get(forUser(t, bob)), host.StageToken, "cannot be read")
	_, begun := connector.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
	_, seen := connector.Connection(forUser(t, alice))
	for what, err := range map[string]error{"Consent": begun, "Connection": seen, "Disconnect": connector.Disconnect(forUser(t, alice))} {
		if failure, ok := errors.AsType[*host.Error](err); !ok || !failure.Retryable() || !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("%s returns %v, want an error that passes and wraps ErrUnavailable", what, err)
		}
	}
	if err := finish(t, w, connector, alice, back(request, "the-second-code")); !errors.Is(err, state.ErrUnavailable) || c.login.Count() != 2 {
		t.Errorf("a consent ends without the store: %v", err)
	}
}

// A consent is for a connector as it is configured. If that changes meanwhile, the code goes nowhere (threats.md 129).
func TestConnectorChangedDuringConsent(t *testing.T) {
	c := consenting(t, "the-first-code")
	w, connector := consents(c)
	for name, other := range map[string]*host.Connector{
		"another endpoint": w.connectAs("crm", "oauth_authorization_code", authCode("token_url", "https://evil.test/token")),
		"gone":             nil,
	} {
		var refused *host.ConsentError
		if err := finish(t, w, other, alice, back(begin(t, connector, alice), "the-first-code")); !errors.As(err, &refused) || refused.Reason != host.ConsentUnknown {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if n := c.login.Count(); n != 0 {
		t.Errorf("there were %d token requests", n)
	}
}

// What cannot be a consent is an error at once.
func TestConsentBeginErrors(t *testing.T) {
	c := consenting(t)
	w, connector := consents(c)
	for _, test := range []struct {
		name, redirect, binding string
		user                    host.User
	}{
		{"a relative redirect URI", "/connect/callback", binding, alice},
		{"a redirect URI with a query", redirectURI + "?a=b", binding, alice},
		{"a redirect URI with a fragment", redirectURI + "#a", binding, alice},
		{"a redirect URI of another scheme", "javascript://gateway.test/%0aalert(1)", binding, alice},
		{"a short binding", redirectURI, "fifteen bytes..", alice},
		{"a user without an id", redirectURI, binding, host.User{Email: "alice@acme.test"}},
	} {
		if target, err := connector.BeginConsent(forUser(t, test.user), host.ConsentRequest{RedirectURI: test.redirect, Binding: test.binding}); err == nil {
			t.Errorf("%s: the browser goes to %s", test.name, target)
		}
	}
	if _, err := connector.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: "sixteen bytes..."}); err != nil {
		t.Errorf("a binding that is long enough: %v", err)
	}
	nobody := host.User{Email: "nobody@acme.test"}
	w.refuse(connector, get(forUser(t, nobody)), host.StageTemplate, "no id")
	if err := connector.Disconnect(forUser(t, nobody)); err == nil {
		t.Error("a user without an id has a grant")
	}
	_, other := c.node()
	if _, err := other.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding}); other.NeedsConsent() || err == nil || !connector.NeedsConsent() {
		t.Errorf("a type without consent: %v", err)
	}
	if got := begin(t, connector, alice); got.Get("response_type") != "code" {
		t.Errorf("the browser sends %v", got)
	}
}

// Without a store there is no connector with consent.
func TestConsentNeedsAStore(t *testing.T) {
	w := newWorld(t, withAuthCode)
	if problems := w.problems("oauth_authorization_code", authCode()); len(problems) != 1 || !strings.Contains(problems[0], "Config.State") {
		t.Errorf("the problems are %q", problems)
	}
	if _, err := w.host.Callback(t.Context(), host.AuthorizationResponse{}, nil); err == nil {
		t.Error("a consent ends that nobody keeps")
	}
}

// The code verifier is a secret: somebody who sees the authorization URL, as in the history of a browser, cannot redeem the code with it. State,
// verifier and nonce differ, in each consent and from those of others (threats.md 129).
func TestVerifierSecrecy(t *testing.T) {
	c := consenting(t, "the-first-code", "the-second-code")
	w, connector := consents(c)
	seen := map[string]string{}
	for _, code := range []string{"the-first-code", "the-second-code"} {
		request := begin(t, connector, alice)
		check(t, finish(t, w, connector, alice, back(request, code)))
		verifier := c.login.Last().Form().Get("code_verifier")
		if strings.Contains(request.Encode(), verifier) {
			t.Errorf("the verifier is in the authorization URL: %v", request)
		}
		challenge := sha256.Sum256([]byte(verifier))
		if got := request.Get("code_challenge"); got != base64.RawURLEncoding.EncodeToString(challenge[:]) {
			t.Errorf("the challenge %q is not that of the verifier", got)
		}
		for name, value := range map[string]string{"state": request.Get("state"), "nonce": request.Get("nonce"), "verifier": verifier} {
			if of, there := seen[value]; there || len(value) < 43 {
				t.Errorf("the %s after %s is %q, which is that of %q or too short", name, code, value, of)
			}
			seen[value] = name + " after " + code
		}
	}
}

// Connectors of one type have a grant of a user each: the token of one authorization server is not sent to that of another, and who
// disconnects one stays connected to the other (threats.md 130, 131).
func TestConsentOfOneConnector(t *testing.T) {
	c := consenting(t, "the-code-of-crm", "the-code-of-erp")
	w, crm := consents(c)
	erp := w.connectAs("erp", "oauth_authorization_code", authCode("token_url", "https://login.test/of-erp"))
	check(t, finish(t, w, crm, alice, back(begin(t, crm, alice), "the-code-of-crm")))
	condition(t, crm, alice, host.ConditionConnected)
	condition(t, erp, alice, host.ConditionNotConnected)
	w.refuse(erp, get(forUser(t, alice)), host.StageToken, "is not there")
	if n := c.login.Count(); n != 1 {
		t.Errorf("there were %d token requests, want 1", n)
	}
	check(t, finish(t, w, erp, alice, back(begin(t, erp, alice), "the-code-of-erp")))
	c.clock.Advance(2 * time.Hour)
	for code, of := range map[string]*host.Connector{"the-code-of-crm": crm, "the-code-of-erp": erp} {
		w.send(of, get(forUser(t, alice)))
		if sent := c.login.Last().Form().Get("refresh_token"); !strings.HasSuffix(sent, code) || !strings.Contains(bearerOf(w), code) {
			t.Errorf("with the grant of %s, the authorization server gets %q, and the API %q", code, sent, bearerOf(w))
		}
	}
	check(t, erp.Disconnect(forUser(t, alice)))
	condition(t, erp, alice, host.ConditionNotConnected)
	condition(t, crm, alice, host.ConditionConnected)
}

// A grant that no request can use any more is not shown as connected.
func TestConditionsOfFailedGrants(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer answer
		never  bool
		want   host.Condition
	}{
		{"a token that cannot be kept", unkept["a token that is too long to keep"], false, host.ConditionLost},
		{"no answer, and none is sent again", failed["cut"], true, host.ConditionLost},
		{"no answer", failed["cut"], false, host.ConditionUncertain},
		{"refused", respond(http.StatusBadRequest, `{"error":"invalid_grant"}`), false, host.ConditionRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := consenting(t, "the-code")
			w, _ := consents(c)
			connect := func(never bool) *host.Connector {
				return w.open(host.ConnectorConfig{
					Auth: []host.Auth{{Type: "oauth_authorization_code", Config: authCode()}}, NeverResend: never,
				})
			}
			connector := connect(test.never)
			check(t, finish(t, w, connector, alice, back(begin(t, connector, alice), "the-code")))
			condition(t, connector, alice, host.ConditionConnected)
			c.clock.Advance(2 * time.Hour)
			c.login.Answer(test.answer)
			_, err := w.try(connector, get(forUser(t, alice)))
			if failure, ok := errors.AsType[*host.GrantError](err); !ok || failure.Condition != test.want {
				t.Errorf("the error is %v, want a grant that is %s", err, test.want)
			}
			condition(t, connector, alice, test.want)
			if test.want == host.ConditionUncertain { // an operator who wants none to be sent again from now on
				condition(t, connect(true), alice, host.ConditionLost)
			}
		})
	}
}

// A browser that goes away while the code is exchanged loses nothing: the code is spent, so the grant is kept.
func TestCallbackAfterDisconnect(t *testing.T) {
	c := consenting(t)
	w, connector := consents(c)
	b := back(begin(t, connector, alice), "the-code")
	ctx, leave := context.WithCancel(forUser(t, alice))
	c.login.Answer(func(r *http.Request) (*http.Response, error) {
		leave()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return respond(http.StatusOK, `{"access_token":"an-access-token","expires_in":3600,"refresh_token":"a-refresh-token"}`)(r)
	})
	if _, err := w.host.Callback(ctx, b, func(string) *host.Connector { return connector }); err != nil || ctx.Err() == nil {
		t.Errorf("Callback returns %v", err)
	}
	condition(t, connector, alice, host.ConditionConnected)
	if w.send(connector, get(forUser(t, alice))); bearerOf(w) == "" {
		t.Error("the API gets no token")
	}
}
