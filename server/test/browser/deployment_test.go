// Package browser tests the gateway with a browser. All parts are real: the gateway runs from a file, the API verifies requests,
// and pages of several origins call the gateway in Debian's chromium. The authorization server is ory/fosite, or oidc-provider if
// users consent. Package browser also tests the host alone against ory/fosite, an independent implementation.
package browser

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// Credentials with characters that base64 and URLs encode.
const (
	headerKey    = "header/key+Ts0vZqk8=~Wd"
	queryKey     = "query/key+Jw4eBn7=~Rm"
	clientSecret = "client/secret+Hy2dXc9=~Pl"

	ann, bea = "ann@example.com", "bea@example.com"
	issuer   = "https://login.example.com"
)

// paths lists the paths of the API. They are also the permalinks of the connectors.
var paths = []string{"header", "query", "token", "jwt", "assertion"}

// definitions is the configuration. Each connector sends the user's email address in X-User-Email.
const definitions = `gateway:
  origins: ["APP"]
  user: {type: jwt, jwt: {cookie: session, bearer: true, jwks_file: sessions.json, issuer: ISSUER, audiences: gateway}}
connectors:
  - name: header
    url: API/header
    auth: {type: api_key, config: {key: X-Api-Key, value: "{{ get_secret('header-key') }}", in: header}}
  - name: query
    url: API/query
    auth: {type: api_key, config: {key: api_key, value: "{{ get_secret('query-key') }}", in: query}}
  - name: token
    url: API/token
    auth:
      type: oauth_client_credentials
      config: {client_id: gateway, client_secret: "{{ get_secret('client-secret') }}", token_url: API/oauth/token, scope: read}
  - name: jwt
    url: API/jwt
    auth:
      type: jwt
      config:
        private_key: "{{ get_secret('jwt-key') }}"
        algorithm: ES256
        claims: {sub: "{{ user.email }}", aud: api, exp: "{{ now(120) }}", jti: "{{ uuid() }}"}
  - name: assertion
    url: API/assertion
    auth:
      type: oauth_jwt_bearer
      config:
        client_id: gateway
        private_key: "{{ get_secret('assertion-key') }}"
        token_url: API/oauth/token
        subject: "{{ user.email }}"
        audience: TOKEN
        algorithm: ES256
        additional_claims: {jti: "{{ uuid() }}"}
`

// deployment holds a running gateway, the servers behind it, and the sites of the pages.
type deployment struct {
	*testworld.Canaries
	t       *testing.T
	auth    *authServer
	api     *api
	gateway string // http://127.0.0.1:port
	port    string // port of the sites
	app     string // the origin that may call; its site is not the gateway's
	script  string // the script of the page /app

	sessionKey *ecdsa.PrivateKey
	log        *testworld.Log
}

// bareDeployment returns a deployment with the sites alone.
func bareDeployment(t *testing.T) *deployment {
	t.Helper()
	w := &deployment{Canaries: testworld.NewCanaries(t), t: t, sessionKey: newKey(t), log: &testworld.Log{}}
	w.sites()
	return w
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	w := bareDeployment(t)
	w.auth = newAuthServer(t)
	jwtKey, assertionKey := newKey(t), newKey(t)
	w.auth.RegisterClient(t, "gateway", clientSecret, "read")
	for _, user := range []string{ann, bea} {
		w.auth.RegisterKey("gateway", user, "", assertionKey.Public())
	}
	w.api = newAPI(t, w.auth, &jwtKey.PublicKey, w.Canaries)
	secrets := host.MapSecrets{
		"header-key": headerKey, "query-key": queryKey, "client-secret": clientSecret,
		"jwt-key": text(t, jwtKey), "assertion-key": text(t, assertionKey),
	}
	w.api.isSecret(headerKey, queryKey, clientSecret)
	for _, key := range []crypto.PrivateKey{jwtKey, assertionKey} {
		w.api.isSecret(strings.Split(text(t, key), "\n")[1]) // the first line of the encoded key
	}
	w.run(w.file(), connectors.Options{Host: host.Config{
		Secrets: secrets, Egress: host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: w.auth.Roots}},
	}})
	return w
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	return testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// text returns a key as PEM.
func text(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// sites serves pages under each name of the loopback, because localhost and 127.0.0.1 are different sites to a browser. A page
// contains the parameter html of /page?html=. /elsewhere?to= redirects, and /app runs w.script.
func (w *deployment) sites() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(rw, `<!doctype html><link rel="icon" href="data:,"><title>page</title><pre id="out"></pre>%s`, r.FormValue("html"))
	})
	mux.HandleFunc("GET /elsewhere", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, r.FormValue("to"), http.StatusFound)
	})
	mux.HandleFunc("GET /app", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(rw, `<!doctype html><link rel="icon" href="data:,"><title>app</title><pre id="out"></pre><script>%s</script>`, w.script)
	})
	s := httptest.NewServer(mux)
	w.t.Cleanup(s.Close)
	w.port = strconv.Itoa(s.Listener.Addr().(*net.TCPAddr).Port)
	w.app = "http://localhost:" + w.port
}

// file writes the gateway's configuration.
func (w *deployment) file() string {
	named := strings.NewReplacer("API", w.api.URL, "APP", w.app, "TOKEN", w.auth.TokenURL, "ISSUER", issuer)
	var content strings.Builder
	for line := range strings.Lines(named.Replace(definitions)) {
		content.WriteString(line)
		if strings.HasPrefix(line, "  - name:") {
			content.WriteString("    method: [GET, POST]\n    paths: [/echo/*]\n    headers: [{name: X-User-Email, value: \"{{ user.email }}\"}]\n")
		}
	}
	return w.write(content.String())
}

// write writes a configuration and the keys of sessions beside it, and returns the name of the configuration.
func (w *deployment) write(content string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	point := testworld.Must(w.sessionKey.PublicKey.Bytes())(w.t) // 4, x, y
	keys := testworld.Must(json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "use": "sig", "kid": "1",
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
	}}}))(w.t)
	for name, content := range map[string]string{"sessions.json": string(keys), "connectors.yaml": content} {
		testworld.Check(w.t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return filepath.Join(dir, "connectors.yaml")
}

// run runs the gateway until the test ends.
func (w *deployment) run(file string, options connectors.Options) {
	w.t.Cleanup(func() { w.Out("the gateway's log", w.log.String()) })
	config := daemon.Config{File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: w.log.Logger(), Options: options}
	w.gateway, _, _ = testworld.Serve(w.t, &config.Started, func(ctx context.Context) error { return daemon.Run(ctx, config) })
}

// session returns a session token of a user.
func (w *deployment) session(email string) string {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuer, "aud": "gateway", "sub": email, "email": email, "email_verified": true, "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = "1"
	return testworld.Must(token.SignedString(w.sessionKey))(w.t)
}
