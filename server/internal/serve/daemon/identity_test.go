package daemon_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// keyless is a file whose connector has a token of the process in place of a secret. Sessions are of the same issuer and key.
const keyless = `gateway:
  traces: COLLECTOR/v1/traces
  access_log: true
  audit: {file: LOG}
  user: {type: jwt, jwt: {bearer: true, jwks_file: keys.json, issuer: "https://id.example.com", audiences: gateway}}
identities:
  - {name: pod, type: file, path: token, for: [{audience: sts, hosts: [HOST]}]}
connectors:
  - name: Orders
    url: API/v1
    auth: {type: oauth_client_credentials, config: {token_url: LOGIN/token, client_id: orders, client_auth: assertion, client_assertion: "{{ identity('pod', 'sts') }}"}}
`

// identityWorld is a gateway that has no secret, and the token endpoint of its connector.
type identityWorld struct {
	*world
	collected *collected
	key       ed25519.PrivateKey
	session   string
	addresses *strings.Replacer
	offset    atomic.Int64
	// exchanges counts the token requests. The endpoint answers with refuse if that is not nil.
	exchanges atomic.Int64
	refuse    atomic.Pointer[testworld.Answer]
}

func startIdentity(t *testing.T) *identityWorld {
	t.Helper()
	collected, collector := collect(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	w := &identityWorld{collected: collected, key: private}
	login := httptest.NewServer(http.HandlerFunc(w.issue))
	t.Cleanup(login.Close)
	keys := filepath.Join(t.TempDir(), "keys.json")
	testworld.Check(t, os.WriteFile(keys, fmt.Appendf(nil, `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"1","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public)), 0o600))
	w.addresses = strings.NewReplacer("COLLECTOR", collector.URL, "LOGIN", login.URL, "HOST", login.Listener.Addr().String(), "keys.json", keys)
	began := time.Now()
	api := func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-0123456789-"))
	}
	w.world = start(t, api, w.addresses.Replace(keyless), func(c *daemon.Config) {
		c.Options.Host.Clock = func() time.Time { return began.Add(time.Duration(w.offset.Load())) }
	})
	w.session = w.token(jwt.MapClaims{"aud": "gateway"})
	return w
}

// issue is the token endpoint.
func (w *identityWorld) issue(rw http.ResponseWriter, r *http.Request) {
	n := w.exchanges.Add(1)
	if refuse := w.refuse.Load(); refuse != nil {
		answering(&testworld.Canaries{}, *refuse)(rw, r)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(rw, `{"access_token":"token-0123456789-%d","token_type":"bearer","expires_in":86400}`, n)
}

// token returns a token of the issuer, with changes to the claims of a good one. Nothing of it may come out of the gateway.
func (w *identityWorld) token(changes jwt.MapClaims) string {
	claims := jwt.MapClaims{"iss": "https://id.example.com", "aud": "sts", "sub": "orders", "exp": 4102444800, "jti": w.Word("an ID of a token")}
	maps.Copy(claims, changes)
	unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	unsigned.Header["kid"] = "1"
	text := testworld.Must(unsigned.SignedString(w.key))(w.t)
	for _, part := range strings.Split(text, ".")[1:] {
		w.Hide("a part of a token of the process", part)
	}
	return text
}

// setToken puts a token into the file of the identity, which is read once a second.
func (w *identityWorld) setToken(token string) {
	testworld.Check(w.t, os.WriteFile(filepath.Join(filepath.Dir(w.file), "token"), []byte(token), 0o600))
	w.offset.Add(int64(time.Second))
}

// request sends a request of a user with a session.
func (w *identityWorld) request(session string) (status int, body string) {
	response, body := w.ask(http.MethodGet, w.callers+"/connectors/orders", http.Header{"Authorization": {"Bearer " + session}}, "")
	w.Out("the answer to a caller", body)
	return response.StatusCode, body
}

// wants sends a request, and checks its answer and the number of token requests so far.
func (w *identityWorld) wants(what string, status int, body string, exchanges int64) {
	w.t.Helper()
	gotStatus, gotBody := w.request(w.session)
	if gotStatus != status || !strings.Contains(gotBody, body) || w.exchanges.Load() != exchanges {
		w.t.Errorf("%s: status = %d, want %d; body = %s, want %s; token requests = %d, want %d", what, gotStatus, status, gotBody, body, w.exchanges.Load(), exchanges)
	}
}

// threats.md 439, 414 and 416: whatever becomes of a request, no part of a token of the process is in the answer to the caller or to an
// operator's test, in the log, in the metrics, in the traces or in the audit log. A redirect does not take it along, and no token that is
// not for the token endpoint alone is sent.
func TestTokenOfProcessStaysInside_threats_439(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect is followed") }))
	t.Cleanup(elsewhere.Close)
	repeat, redirect := testworld.Answer(testworld.Refused), testworld.Respond(http.StatusTemporaryRedirect, "", "Location", elsewhere.URL)
	for name, c := range map[string]struct {
		claims    jwt.MapClaims
		change    func(token string) string
		refuse    *testworld.Answer
		stage     string
		exchanges int64
	}{
		"an endpoint that issues":      {exchanges: 1},
		"an endpoint that repeats it":  {refuse: &repeat, stage: "token", exchanges: 1},
		"an endpoint that redirects":   {refuse: &redirect, stage: "token", exchanges: 1},
		"the token of another party":   {claims: jwt.MapClaims{"aud": "vault"}, stage: "identity"},
		"the token of several parties": {claims: jwt.MapClaims{"aud": []string{"sts", "vault"}}, stage: "identity"},
		"the session of a user":        {claims: jwt.MapClaims{"aud": "gateway"}, stage: "identity"},
		"one that has ended":           {claims: jwt.MapClaims{"exp": 1}, stage: "identity"},
		"without its signature":        {change: func(token string) string { return token[:strings.LastIndexByte(token, '.')+1] }, stage: "identity"},
		"two tokens":                   {change: func(token string) string { return token + "\n" + token }, stage: "identity"},
		"no token":                     {change: func(token string) string { return strings.ReplaceAll(token, ".", "") }, stage: "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			w := startIdentity(t)
			token := w.token(c.claims)
			if c.change != nil {
				token = c.change(token)
			}
			w.setToken(token)
			w.refuse.Store(c.refuse)
			status, answer := w.request(w.session)
			if (status == http.StatusOK) != (c.stage == "") || c.stage != "" && !strings.Contains(answer, `"stage":"`+c.stage+`"`) {
				t.Errorf("status = %d, body = %s, want the stage %q", status, answer, c.stage)
			}
			_, answer = w.test("orders", `{"path": "/"}`)
			w.Out("the answer to a test", answer)
			if w.exchanges.Load() != c.exchanges {
				t.Errorf("token requests = %d, want %d", w.exchanges.Load(), c.exchanges)
			}
			w.metrics()
			if uses := w.auditLines(); len(uses) < 2 {
				t.Errorf("the uses are %v", uses)
			}
			w.Out("the traces", string(w.collected.bytes))
			if len(w.collected.bytes) == 0 {
				t.Error("there are no traces")
			}
		})
	}
}

// threats.md 416: a token of the process is no session, also if one issuer and one key make both.
func TestTokenOfProcessAsSession_threats_416(t *testing.T) {
	w := startIdentity(t)
	w.setToken(w.token(nil))
	for name, claims := range map[string]jwt.MapClaims{"a token of the process": nil, "one for several parties": {"aud": []string{"sts", "vault"}}} {
		if status, body := w.request(w.token(claims)); status != http.StatusUnauthorized || w.exchanges.Load() != 0 {
			t.Errorf("%s: status = %d, want 401; body = %s, token requests = %d", name, status, body, w.exchanges.Load())
		}
	}
	w.refuses(w.addresses.Replace(strings.Replace(keyless, "audience: sts", "audience: gateway", 1)), "is also one of gateway.user.jwt.audiences")
	w.wants("a session", http.StatusOK, "1", 1)
}

// threats.md 439: what a file with fewer or more hosts, another expectation or another identity says counts at once, for access tokens of
// the file before, too. A file whose connector names what is not listed does not come into use.
func TestReloadOfIdentities_threats_439(t *testing.T) {
	w := startIdentity(t)
	w.setToken(w.token(nil))
	w.wants("the first file", http.StatusOK, "1", 1)
	payments := filepath.Join(t.TempDir(), "payments")
	testworld.Check(t, os.WriteFile(payments, []byte(w.token(jwt.MapClaims{"sub": "payments"})), 0o600))
	for _, step := range []struct {
		name, old, replacement string
		status                 int
		body                   string
		exchanges              int64
	}{
		{"the same file", "", "", http.StatusOK, "1", 1},
		{"hosts of another audience", "hosts: [HOST]}", "hosts: [HOST]}, {audience: vault, hosts: [vault.test]}", http.StatusOK, "1", 1},
		{"one host more", "[HOST]", "[HOST, other.test]", http.StatusOK, "2", 2},
		{"another host", "[HOST]", "[other.test]", http.StatusBadGateway, `"stage":"config"`, 2},
		{"back again", "", "", http.StatusOK, "1", 2},
		{"another subject is expected", "path: token", "path: token, expect: {sub: payments}", http.StatusBadGateway, `"stage":"identity"`, 2},
		{"another issuer is expected", "path: token", "path: token, expect: {iss: 'https://other.example.com'}", http.StatusBadGateway, `"stage":"identity"`, 2},
		{"a token of another subject", "path: token", "path: " + payments, http.StatusOK, "3", 3},
		{"another audience of the same token", "audience: sts, hosts: [HOST]", "audience: vault, hosts: [HOST]", http.StatusBadGateway, `"stage":"identity"`, 3},
	} {
		text := strings.Replace(keyless, step.old, step.replacement, 1)
		if strings.Contains(step.replacement, "audience: vault, hosts: [HOST]") {
			w.refuses(w.addresses.Replace(text), "names identity('pod', 'sts'), and no host may get its token")
			text = strings.Replace(text, "'sts'", "'vault'", 1)
		}
		w.use(w.addresses.Replace(text))
		w.wants(step.name, step.status, step.body, step.exchanges)
	}
}
