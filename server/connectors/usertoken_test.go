package connectors_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// onBehalfOfUsers has two connectors that exchange the session's token, and one that another author points elsewhere.
const onBehalfOfUsers = `gateway:
  user:
    type: jwt
    jwt: {bearer: true, cookie: session, jwks_file: KEYS, issuer: https://id.test/, audiences: gateway, token_hosts: login.test}
connectors:
  - name: Exchange
    url: https://api.test/v1
    auth:
      type: token_exchange
      config:
        token_url: https://login.test/exchange
        subject_token: "{{ user.token }}"
        subject_token_type: urn:ietf:params:oauth:token-type:jwt
        audience: https://api.test/
        client_auth: client_secret_basic
        client_id: keywright
        client_secret: "{{ get_secret('client') }}"
  - name: On behalf of
    url: https://api.test/v1
    auth:
      type: token_exchange
      config:
        grant_type: on_behalf_of
        token_url: https://login.test/entra
        subject_token: "{{ user.token }}"
        scope: https://api.test/.default
        client_id: keywright
        client_secret: "{{ get_secret('client') }}"
  - name: Evil
    url: https://api.test/v1
    auth:
      type: token_exchange
      config:
        token_url: https://evil.test/exchange
        subject_token: "{{ user.token }}"
        client_auth: none
`

// sessionWorld is a gateway whose callers have sessions, between an issuer, its token endpoint and an API.
type sessionWorld struct {
	*testworld.Canaries
	*testworld.Clock
	t       *testing.T
	private ed25519.PrivateKey
	secret  string
	handler http.Handler
	log     testworld.Log

	mu sync.Mutex
	// exchanges counts the requests at each token endpoint.
	exchanges map[string]int
}

func newSessionWorld(t *testing.T) *sessionWorld {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &sessionWorld{
		Canaries: testworld.NewCanaries(t), Clock: testworld.NewClock(time.Unix(1_700_000_000, 0)), t: t, private: private, exchanges: map[string]int{},
	}
	w.secret = w.Secret("the client's secret")
	keys := filepath.Join(t.TempDir(), "keys.json")
	set := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"1","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
	testworld.Check(t, os.WriteFile(keys, []byte(set), 0o600))
	base := served(t, w.answer)
	loaded := loadGood(t, strings.Replace(onBehalfOfUsers, "KEYS", keys, 1), connectors.Options{Host: host.Config{
		Secrets: host.MapSecrets{"client": w.secret}, Base: base, Clock: w.Now, Logger: w.log.Logger(),
	}})
	users := testworld.Must(identity.New(t.Context(), loaded.Settings.User, identity.Options{Clock: w.Now}))(t)
	t.Cleanup(func() { _ = users.Close() })
	g := gateway.New(gateway.Config{Logger: w.log.Logger(), Clock: w.Now, Base: base})
	g.Use(gateway.Setup{Connectors: loaded.Connectors, Users: users})
	w.handler = g.Handler()
	t.Cleanup(func() { w.Out("the log", w.log.String()) })
	return w
}

// served returns a transport that sends the requests for all hosts to one server.
func served(t *testing.T, handler http.HandlerFunc) http.RoundTripper {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// session returns the token of a session that ends after a time.
func (w *sessionWorld) session(subject string, life time.Duration) string {
	w.t.Helper()
	token := jose.NewWithClaims(jose.SigningMethodEdDSA, jose.MapClaims{
		"iss": "https://id.test/", "aud": "gateway", "sub": subject, "iat": w.Now().Unix(), "exp": w.Now().Add(life).Unix(), "jti": rand.Text(),
	})
	token.Header["kid"] = "1"
	signed := testworld.Must(token.SignedString(w.private))(w.t)
	return w.Hide("the session of "+subject, signed)
}

// subject returns the subject of a token that the issuer has signed. golang-jwt judges it.
func (w *sessionWorld) subject(token string) (string, error) {
	parsed, err := jose.Parse(token, func(*jose.Token) (any, error) { return w.private.Public(), nil }, jose.WithTimeFunc(w.Now))
	if err != nil {
		return "", err
	}
	return parsed.Claims.GetSubject()
}

// answer is the token endpoint and the API. The API answers with the user of the token that it gets.
func (w *sessionWorld) answer(rw http.ResponseWriter, r *http.Request) {
	if r.Host == "api.test" {
		subject, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer for-")
		if !ok || r.URL.RawQuery != "" || len(r.Header["Cookie"]) > 0 {
			w.t.Errorf("the API got %s %v", r.URL, r.Header)
		}
		_, _ = io.WriteString(rw, subject)
		return
	}
	w.mu.Lock()
	w.exchanges[r.Host+r.URL.Path]++
	w.mu.Unlock()
	subject, err := w.exchange(r)
	if err != nil {
		w.t.Errorf("%s%s: err = %v", r.Host, r.URL, err)
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(rw).Encode(map[string]any{
		"access_token": "for-" + subject, "token_type": "Bearer", "expires_in": 24 * 3600, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
	})
}

// exchange returns the subject of the token that a request exchanges. The tests of the plugin check the rest of its form.
func (w *sessionWorld) exchange(r *http.Request) (string, error) {
	member := map[string]string{"/exchange": "subject_token", "/entra": "assertion"}[r.URL.Path]
	_, password, basic := r.BasicAuth()
	if !basic {
		password = url.QueryEscape(r.PostFormValue("client_secret"))
	}
	if r.Method != http.MethodPost || password != url.QueryEscape(w.secret) { // RFC 6749 section 2.3.1
		return "", fmt.Errorf("%s without the client's secret", r.Method)
	}
	return w.subject(r.PostFormValue(member))
}

// get sends a caller's request, with a header.
func (w *sessionWorld) get(connector, name, value string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost/connectors/"+connector, nil)
	r.Header.Set(name, value)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	w.Out("the answer", fmt.Sprint(recorder.Header(), recorder.Body))
	return recorder
}

// With a session, each user reaches the API with a token that the user's own token was exchanged for. Users are cached apart:
// threats.md 98.
func TestUserTokenExchange(t *testing.T) {
	for connector, endpoint := range map[string]string{"exchange": "login.test/exchange", "on-behalf-of": "login.test/entra"} {
		t.Run(connector, func(t *testing.T) {
			w := newSessionWorld(t)
			want := func(exchanges int, subject, name, value string) {
				t.Helper()
				if got := w.get(connector, name, value); got.Code != http.StatusOK || got.Body.String() != subject {
					t.Errorf("%s got %d %s", subject, got.Code, got.Body)
				}
				if got := w.exchanges[endpoint]; got != exchanges || len(w.exchanges) != 1 {
					t.Errorf("%d exchanges so far, want %d: %v", got, exchanges, w.exchanges)
				}
			}
			ann, bob := w.session("ann", time.Minute), w.session("bob", time.Hour)
			want(1, "ann", "Authorization", "Bearer "+ann)
			want(2, "bob", "Cookie", "session="+bob)
			want(2, "ann", "Cookie", "session="+ann)
			want(2, "bob", "Authorization", "Bearer "+bob)
			w.Advance(time.Minute)
			if got := w.get(connector, "Authorization", "Bearer "+ann); got.Code != http.StatusUnauthorized {
				t.Errorf("a session that has ended got %d", got.Code)
			}
			want(3, "ann", "Authorization", "Bearer "+w.session("ann", time.Minute))
			want(3, "bob", "Authorization", "Bearer "+bob)
		})
	}
}

// threats.md 96: the author of a connector gets no user's token. The operator learns which host, and where to list it.
func TestUsersTokenGoesToNoOtherHost(t *testing.T) {
	w := newSessionWorld(t)
	got := w.get("evil", "Authorization", "Bearer "+w.session("ann", time.Minute))
	if got.Code != http.StatusBadGateway || len(w.exchanges) > 0 || strings.Contains(got.Body.String(), "evil.test") {
		t.Errorf("%d %s, and the endpoints got %v", got.Code, got.Body, w.exchanges)
	}
	for _, word := range []string{"user.token may not go to evil.test", "gateway.user.jwt.token_hosts"} {
		if !strings.Contains(w.log.String(), word) {
			t.Errorf("no %q in the log: %s", word, w.log.String())
		}
	}
}

// threats.md 97: outside of a sealed field for token endpoints, user.token is a problem with its place.
func TestPlacesOfTheUsersToken(t *testing.T) {
	wantProblems(t, `gateway:
  user: {type: jwt, jwt: {bearer: true, jwks_url: https://id.test/keys, issuer: https://id.test/, audiences: gateway, token_hosts: [login.test, "https://login.test/"]}}
connectors:
  - name: A
    url: https://api.test/{{ user.token }}
    headers: [{name: X-A, value: "{{ user.token }}"}]
    query: [{name: a, value: "{{ user.token }}"}]
    request: "{{ user.token }}"
    auth: {type: api_key, config: {in: header, key: X-Key, value: "{{ user.token }}"}}
  - name: B
    url: https://api.test/
    auth: {type: oauth_client_credentials, config: {token_url: "https://login.test/{{ user.token }}", client_id: a, client_secret: b, scope: "{{ user.token }}"}}
`, connectors.Options{},
		`connectors.yaml:2:145: gateway.user.jwt.token_hosts[1]: is not the name of a host, such as login.example.com…`,
		`connectors.yaml:5:10: connectors.a.url: user.token goes to token endpoints only…`,
		`connectors.yaml:6:34: connectors.a.headers[0].value: user.token goes to token endpoints only…`,
		`connectors.yaml:7:30: connectors.a.query[0].value: user.token goes to token endpoints only…`,
		`connectors.yaml:8:18: connectors.a.request: user.token is not available here…`,
		`connectors.yaml:9:67: connectors.a.auth.config.value: names user.token, and its value goes elsewhere…`,
		`connectors.yaml:12:64: connectors.b.auth.config.token_url: names user.token, and is not sealed…`,
		`connectors.yaml:12:142: connectors.b.auth.config.scope: names user.token, and is not sealed…`,
	)
}
