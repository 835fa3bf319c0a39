package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// places runs check --reach for a file, and returns what it found, by place.
func places(t *testing.T, code int, file string, args ...string) map[string]place {
	t.Helper()
	name := filepath.Join(t.TempDir(), "connectors.yaml")
	testworld.Check(t, os.WriteFile(name, []byte(file), 0o600))
	got, out, errs := keywright(t.Context(), append([]string{"check", "--reach", "--json", "-c", name}, args...)...)
	if got != code {
		t.Errorf("exit %d, want %d: %s", got, code, errs)
	}
	var report struct {
		OK     bool
		Places []place
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.OK != (code == 0) {
		t.Fatalf("%v, ok = %t: %s", err, report.OK, out)
	}
	all := map[string]place{}
	for _, p := range report.Places {
		all[p.Place] = p
	}
	return all
}

// A server is asked once for all connectors that name it, gets no credential, and its Date says whether the clock is right.
func TestReach(t *testing.T) {
	canary := "hunter2hunter2canary"
	var mu sync.Mutex
	var requests []string
	clock := time.Duration(0)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := httputil.DumpRequest(r, true)
		requests = append(requests, string(text))
		w.Header().Set("Date", time.Now().Add(clock).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer api.Close()
	secrets := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(secrets, "key"), []byte(canary), 0o600))
	file := strings.ReplaceAll(`
connectors:
  - {name: one, url: $API/v1, auth: {type: bearer, config: {token: "{{ get_secret('key') }}"}}, headers: [{name: X-Two, value: "{{ get_secret('key') }}"}]}
  - name: two
    url: "$API/v2?k={{ get_variable('v') }}"
    auth: {type: oauth_client_credentials, config: {token_url: $API/token, client_id: me, client_secret: "{{ get_secret('key') }}"}}
`, "$API", api.URL)
	args := []string{"--dev", "--secrets-dir", secrets, "--var", "v=1"}
	all := places(t, 0, file, args...)
	if host := all[api.URL]; host.Found != "it answers, with 401" ||
		strings.Join(host.For, " ") != "connectors.one.url connectors.two.auth.config.token_url connectors.two.url" {
		t.Errorf("the host is %+v", host)
	}
	if c := all["clock"]; !c.OK {
		t.Errorf("the clock is %+v", c)
	}
	if len(requests) != 1 || !strings.HasPrefix(requests[0], "HEAD / HTTP/1.1") || strings.Contains(requests[0], canary) || strings.Contains(requests[0], "Authorization") {
		t.Errorf("the server got %q", requests)
	}
	clock = -time.Hour
	if c := places(t, 1, file, args...)["clock"]; c.OK || !strings.Contains(c.Found, "differs by 1h0m") || !strings.Contains(c.Remedy, "NTP") {
		t.Errorf("the clock is %+v", c)
	}
	api.Close()
	if host := places(t, 1, file, args...)[api.URL]; !strings.Contains(host.Found, "refused") || !strings.Contains(host.Remedy, "is it up?") {
		t.Errorf("the host is %+v", host)
	}
}

// The authorities and the client certificate of a connector count for its hosts, and not for those of another.
func TestReachTLS(t *testing.T) {
	authority := testworld.NewAuthority(t)
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != "keywright" {
			t.Errorf("the client is %q", name)
		}
	}))
	api.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}
	api.StartTLS()
	defer api.Close()
	secrets := t.TempDir()
	certificate, key := authority.Client("keywright", time.Now().Add(90*24*time.Hour))
	for name, text := range map[string]string{"crt": certificate, "key": key, "ca": authority.PEM()} {
		testworld.Check(t, os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600))
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	all := places(t, 1, `
connectors:
  - name: mutual
    url: `+api.URL+`
    auth: {type: none}
    tls: {certificate: "{{ get_secret('crt') }}", key: "{{ get_secret('key') }}", ca: "{{ get_secret('ca') }}"}
  - {name: other, url: "`+untrusted.URL+`", auth: {type: none}}
`, "--dev", "--secrets-dir", secrets)
	if p := all[api.URL]; !p.OK {
		t.Errorf("with its own TLS: %+v", p)
	}
	if p := all[untrusted.URL]; p.OK || !strings.Contains(p.Remedy, "ca_file") {
		t.Errorf("without: %+v", p)
	}
}

// The metadata of an issuer is read, and the endpoint that it names is asked.
func TestReachMetadata(t *testing.T) {
	wrong := false
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") && !wrong {
			_, _ = io.WriteString(w, `{"issuer":"http://`+r.Host+`","token_endpoint":"http://`+r.Host+`/token"}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer issuer.Close()
	file := strings.ReplaceAll(`
connectors:
  - name: one
    url: $ISSUER
    auth: {type: oauth_client_credentials, config: {token_url: "{{ discover('$ISSUER', 'token_endpoint') }}", client_id: me, client_secret: "{{ get_secret('key') }}"}}
`, "$ISSUER", issuer.URL)
	t.Setenv("KEYWRIGHT_SECRET_KEY", "hunter2hunter2")
	p := places(t, 0, file, "--dev")["metadata of "+issuer.URL]
	if want := "token_endpoint is " + issuer.URL + "/token, and it answers, with 404"; !p.OK || p.Found != want {
		t.Errorf("%+v, want %s", p, want)
	}
	wrong = true
	if p := places(t, 1, file, "--dev")["metadata for one"]; p.OK || !strings.Contains(p.Remedy, "issuer") {
		t.Errorf("the metadata is %+v", p)
	}
}

// The keys of sessions are read from where serve reads them.
func TestReachSessions(t *testing.T) {
	keys := `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, keys) }))
	defer server.Close()
	file := "connectors: [{name: one, url: \"" + server.URL + "\", auth: {type: none}}]\ngateway: {user: {type: jwt, jwt: {issuer: x, audiences: [a], jwks_url: \"" + server.URL + "\"}}}"
	if p := places(t, 0, file, "--dev")["gateway.user"]; !p.OK {
		t.Errorf("the keys are %+v", p)
	}
	keys = "none"
	if p := places(t, 1, file, "--dev")["gateway.user"]; p.OK || p.Found == "" {
		t.Errorf("what is no JWK Set is %+v", p)
	}
}

// An address that egress does not allow is not dialled.
func TestReachEgress(t *testing.T) {
	dialled := false
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { dialled = true }))
	defer api.Close()
	host := strings.TrimPrefix(api.URL, "http://")
	p := places(t, 1, "egress: {plain_http: [\""+host+"\"]}\nconnectors: [{name: one, url: \""+api.URL+"\", auth: {type: none}}]")[api.URL]
	if p.OK || dialled || !strings.Contains(p.Remedy, "egress.allow") {
		t.Errorf("%+v, dialled: %t", p, dialled)
	}
}
