package oidcprovider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

const (
	callbackURL = "http://127.0.0.1:4711/connect/me/callback"
	cookie      = "the cookie of a browser"
)

// consents is a provider where users consent, and a host with a connector for its API.
type consents struct {
	t         *testing.T
	issuer    string
	now       time.Time
	host      *host.Host
	connector *host.Connector
	log       bytes.Buffer
}

// newConsents starts a provider and a host. Pairs of name and value add fields to the connector's configuration. ISSUER in a text
// stands for the issuer.
func newConsents(t *testing.T, pairs ...any) *consents {
	t.Helper()
	return newConsentsOf(t, object{"client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_basic"}, host.MapSecrets{"crm": reservedSecret}, pairs...)
}

// newConsentsOf is newConsents with a client and secrets of its own.
func newConsentsOf(t *testing.T, client object, secrets host.Secrets, pairs ...any) *consents {
	t.Helper()
	s := &consents{t: t, now: time.Now()}
	client["client_id"], client["redirect_uris"] = reservedID, []string{callbackURL}
	client["response_types"], client["grant_types"] = []string{"code"}, []string{"authorization_code", "refresh_token"}
	s.start(client)
	clock := func() time.Time { return s.now }
	kept := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: state.NewMemory(clock), Keys: [][]byte{[]byte(strings.Repeat("k", 32))}, Clock: clock}))(t)
	s.host = testworld.Must(host.New(t.Context(), host.Config{
		BuiltIns: []host.Plugin{module(t, "../../plugins/authcode/authcode.wasm")}, State: kept, Clock: clock,
		Secrets: secrets, Egress: host.Egress{AllowPrivate: true, AllowHTTP: true},
		Logger: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug - 4})),
	}))(t)
	t.Cleanup(func() {
		testworld.Check(t, errors.Join(s.host.Close(context.Background()), kept.Close(context.Background())))
	})
	config := object{
		"authorization_url": s.issuer + "/auth", "token_url": s.issuer + "/token", "revocation_url": s.issuer + "/token/revocation",
		"issuer": s.issuer, "client_id": reservedID, "client_auth": "client_secret_basic", "client_secret": "{{ get_secret('crm') }}",
		"scope": "openid offline_access", "authorization_parameters": object{"prompt": "consent"},
	}
	for i := 0; i < len(pairs); i += 2 {
		switch text, isText := pairs[i+1].(string); {
		case isText:
			config[pairs[i].(string)] = strings.ReplaceAll(text, "ISSUER", s.issuer)
		case pairs[i+1] == nil:
			delete(config, pairs[i].(string))
		default:
			config[pairs[i].(string)] = pairs[i+1]
		}
	}
	s.connector = testworld.Must(s.host.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "me", Origins: []string{s.issuer}, Auth: []host.Auth{{Type: "oauth_authorization_code", Config: config}},
	}))(t)
	return s
}

// start runs the provider until the test ends. It is one of FAPI 2.0 if the client has a key.
func (s *consents) start(client object) {
	s.t.Helper()
	clients := testworld.Must(json.Marshal(object{"clients": []object{client}, "fapi": client["jwks"] != nil}))(s.t)
	ctx, cancel := context.WithCancel(context.Background())
	node := exec.CommandContext(ctx, "node", "consent.mjs")
	node.Stdin = bytes.NewReader(clients)
	var stderr strings.Builder
	node.Stderr = &stderr
	stdout, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		cancel()
		s.t.Fatalf("node does not run (make deps installs it): %v", err)
	}
	s.t.Cleanup(func() {
		cancel()
		_ = node.Wait() // killed
	})
	lines := bufio.NewScanner(stdout)
	for i := range 2 { // the issuer, and ready
		if !lines.Scan() {
			cancel()
			_ = node.Wait()
			s.t.Fatalf("the provider does not run (make deps installs it): %s", stderr.String())
		}
		if i == 0 {
			s.issuer = lines.Text()
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
}

// as returns the context of a user.
func (s *consents) as(user string) context.Context {
	return host.WithUser(s.t.Context(), host.User{ID: user})
}

// begin returns where the browser of a user goes.
func (s *consents) begin(user string) string {
	s.t.Helper()
	target := testworld.Must(s.connector.BeginConsent(s.as(user), host.ConsentRequest{RedirectURI: callbackURL, Binding: cookie}))(s.t)
	return target
}

// browse has a browser sign in at the provider with an account, and give an answer: allow or refuse. It returns the query with
// which the browser comes back.
func (s *consents) browse(target, account, answer string) url.Values {
	s.t.Helper()
	jar := testworld.Must(cookiejar.New(nil))(s.t)
	var back url.Values
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), callbackURL) {
			back = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	defer browser.CloseIdleConnections()
	open := func(method, target, form string) *url.URL {
		r := testworld.Must(http.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(form)))(s.t)
		if form != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		response := testworld.Must(browser.Do(r))(s.t)
		defer response.Body.Close()
		page, _ := io.ReadAll(response.Body)
		if response.StatusCode >= 400 {
			s.t.Fatalf("the browser gets %d from %s: %s", response.StatusCode, response.Request.URL, page)
		}
		return response.Request.URL
	}
	page := open(http.MethodGet, target, "")
	if back == nil {
		open(http.MethodPost, page.String(), url.Values{"account": {account}, "answer": {answer}}.Encode())
	}
	if back == nil {
		s.t.Fatal("the browser does not come back")
	}
	return back
}

// finish ends a consent of a user.
func (s *consents) finish(user string, response url.Values) error {
	s.t.Helper()
	_, err := s.host.Callback(s.as(user), host.AuthorizationResponse{RedirectURI: callbackURL, Response: response, Binding: cookie},
		func(string) *host.Connector { return s.connector })
	return err
}

// me returns the account that the provider's API knows a user's request by.
func (s *consents) me(user string) (string, error) {
	s.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(s.as(user), http.MethodGet, s.issuer+"/me", nil))(s.t)
	response, err := s.connector.Transport(nil).RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct{ Sub string }
	if response.StatusCode != http.StatusOK {
		return "", errors.New(response.Status)
	}
	return answer.Sub, errors.Join(json.NewDecoder(response.Body).Decode(&answer), nil)
}

// A user consents, and the API knows the requests of that user, and of nobody else, while refresh tokens rotate. After the user has
// disconnected, the provider takes the access token no more. The URLs of the endpoints may be written out or discovered. threats.md 130,
// 131
func TestConsent(t *testing.T) {
	t.Run("URLs written out", func(t *testing.T) { testConsent(t) })
	t.Run("URLs discovered", func(t *testing.T) {
		testConsent(t,
			"authorization_url", "{{ discover('ISSUER', 'authorization_endpoint') }}", "token_url", "{{ discover('ISSUER', 'token_endpoint') }}",
			"revocation_url", "{{ discover('ISSUER', 'revocation_endpoint') }}")
	})
}

func testConsent(t *testing.T, pairs ...any) {
	s := newConsents(t, pairs...)
	for _, user := range []string{"ann", "bob"} {
		testworld.Check(t, s.finish(user, s.browse(s.begin(user), user+" at the provider", "allow")))
	}
	for range 3 {
		for _, user := range []string{"ann", "bob"} {
			if got, err := s.me(user); err != nil || got != user+" at the provider" {
				t.Errorf("the API takes %s for %q, %v", user, got, err)
			}
		}
		s.now = s.now.Add(10 * time.Minute) // the access tokens end for the host
	}
	var grant *host.GrantError
	if got, err := s.me("carl"); !errors.As(err, &grant) || grant.Condition != host.ConditionNotConnected {
		t.Errorf("without consent, the API takes carl for %q, %v", got, err)
	}
	testworld.Check(t, s.connector.Disconnect(s.as("ann")))
	if got, err := s.me("ann"); !errors.As(err, &grant) || grant.Condition != host.ConditionNotConnected {
		t.Errorf("after ann has disconnected, the API takes ann for %q, %v", got, err)
	}
	if got, err := s.me("bob"); err != nil || got != "bob at the provider" {
		t.Errorf("the API takes bob for %q, %v", got, err)
	}
	if refused := s.errors(); len(refused) > 0 {
		t.Errorf("the provider has refused %v", refused)
	}
	if strings.Contains(s.log.String(), reservedSecret) {
		t.Error("the log holds the secret")
	}
}

// errors returns the error codes of the provider so far.
func (s *consents) errors() (codes []string) {
	s.t.Helper()
	response := testworld.Must(http.Get(s.issuer + "/seen"))(s.t)
	defer response.Body.Close()
	var seen []request
	testworld.Check(s.t, json.NewDecoder(response.Body).Decode(&seen))
	for _, r := range seen {
		if r.Error != "" && r.Path != "/.well-known/oauth-authorization-server" { // which it does not have
			codes = append(codes, r.Path+" "+r.Error)
		}
	}
	return codes
}

// What comes back in another way than the provider has sent it brings no grant. threats.md 128, 129
func TestInvalidConsents(t *testing.T) {
	s := newConsents(t)
	parameter := func(target, name, value string) string {
		u := testworld.Must(url.Parse(target))(t)
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
		return u.String()
	}
	set := func(name, value string) func(url.Values) { return func(v url.Values) { v.Set(name, value) } }
	for _, test := range []struct {
		name   string
		sent   func(target string) string
		answer string
		back   func(url.Values)
		reason host.ConsentReason
		code   string
	}{
		{"the user refuses", nil, "refuse", nil, host.ConsentDenied, ""},
		{"another iss", nil, "allow", set("iss", "https://evil.test"), host.ConsentForged, ""},
		{"another state", nil, "allow", set("state", "another"), host.ConsentUnknown, ""},
		{"too late", nil, "allow", func(url.Values) { s.now = s.now.Add(10 * time.Minute) }, host.ConsentUnknown, ""},
		{"another nonce", func(target string) string { return parameter(target, "nonce", "another") }, "allow", nil, host.ConsentForged, ""},
		// The challenge is that of the verifier of RFC 7636 appendix B.
		{"another verifier", func(target string) string {
			return parameter(target, "code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
		}, "allow", nil, "", "invalid_grant"},
		{"another code", nil, "allow", set("code", "another-code-than-that"), "", "invalid_grant"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.t = t
			target := s.begin("ann")
			if test.sent != nil {
				target = test.sent(target)
			}
			response := s.browse(target, "ann at the provider", test.answer)
			if test.back != nil {
				test.back(response)
			}
			err := s.finish("ann", response)
			var refused *host.ConsentError
			var answer *host.TokenError
			switch {
			case test.reason != "" && (!errors.As(err, &refused) || refused.Reason != test.reason):
				t.Errorf("the error is %v, want %s", err, test.reason)
			case test.code != "" && (!errors.As(err, &answer) || answer.Code != test.code):
				t.Errorf("the error is %v, want %s", err, test.code)
			}
			if connection, err := s.connector.Connection(s.as("ann")); err != nil || connection.Condition != host.ConditionNotConnected {
				t.Errorf("the condition is %v, %v", connection, err)
			}
			if again := s.finish("ann", response); !errors.As(again, &refused) || refused.Reason != host.ConsentUnknown {
				t.Errorf("the second time, the error is %v", again)
			}
		})
	}
	s.t = t
	response := s.browse(s.begin("ann"), "ann at the provider", "allow")
	if err := s.finish("bob", response); err == nil {
		t.Error("a consent of ann is bob's")
	}
	for _, user := range []string{"ann", "bob"} {
		if got, err := s.me(user); err == nil {
			t.Errorf("the API takes %s for %q", user, got)
		}
	}
	if refused := s.errors(); !slices.Equal(refused, []string{"/token invalid_grant", "/token invalid_grant"}) {
		t.Errorf("the provider has refused %v", refused)
	}
}
