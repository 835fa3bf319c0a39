package daemon_test

import (
	"encoding/base64"
	"fmt"
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

// operatorWorld runs a gateway that other machines reach, whose users and operators have session tokens.
func operatorWorld(t *testing.T) (w *world, token func(role string) string) {
	t.Helper()
	dir := t.TempDir()
	key := []byte(strings.Repeat("k", 32))
	keys := fmt.Sprintf(`{"keys": [{"kty": "oct", "kid": "1", "alg": "HS256", "k": %q}]}`, base64.RawURLEncoding.EncodeToString(key))
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "keys.json"), []byte(keys), 0o600))
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "token"), []byte(secret+secret+"\n"), 0o600))
	text := "gateway:\n  user: {type: jwt, jwt: {cookie: session, jwks_file: " + filepath.Join(dir, "keys.json") +
		", issuer: https://id.example.com, audiences: gateway, algorithms: HS256}}\n" + echo
	w = start(t, version, text, func(c *daemon.Config) {
		c.Admin = "0.0.0.0:0"
		c.Login.TokenFile, c.Login.Claim, c.Login.Value = filepath.Join(dir, "token"), "role", "operator"
	})
	w.operators = strings.Replace(w.operators, "[::]", "127.0.0.1", 1)
	return w, func(role string) string {
		claims := jwt.MapClaims{"iss": "https://id.example.com", "aud": "gateway", "sub": "1", "role": role, "exp": time.Now().Add(time.Hour).Unix()}
		signed := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
		signed.Header["kid"] = "1"
		return testworld.Must(signed.SignedString(key))(t)
	}
}

// threats.md 156: the token of operators and the sessions of operators reach all of the operators' listener, and others nothing but
// the probes.
func TestLoginOfOperators(t *testing.T) {
	w, token := operatorWorld(t)
	ask := func(path, header, value string) int {
		t.Helper()
		method := http.MethodGet
		if strings.HasSuffix(path, "/test") {
			method = http.MethodPost
		}
		headers := http.Header{}
		if header != "" {
			headers.Set(header, value)
		}
		response, _ := w.ask(method, w.operators+path, headers, "")
		return response.StatusCode
	}
	for _, path := range []string{"/metrics", "/debug/pprof/heap", "/connectors/echo/test"} {
		for who, c := range map[string]struct {
			header, value string
			want          int
		}{
			"nobody": {"", "", 401}, "the token": {"Authorization", "Bearer " + secret + secret, 200}, "another token": {"Authorization", "Bearer " + secret, 401},
			"an operator": {"Cookie", "session=" + token("operator"), 200}, "a user": {"Cookie", "session=" + token("user"), 403},
		} {
			if got := ask(path, c.header, c.value); got != c.want {
				t.Errorf("%s: %s is answered %d, want %d", path, who, got, c.want)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := ask(path, "", ""); got != 200 {
			t.Errorf("%s is answered %d", path, got)
		}
	}
	w.refuses("gateway: {user: {type: header, header: {proxies: 10.0.0.1, id: X-User}}}\n"+echo,
		"--admin-claim is about the claims of session tokens: gateway.user has to be of type jwt")
	if got := ask("/metrics", "Cookie", "session="+token("operator")); got != 200 {
		t.Errorf("after a change of the file that is refused: %d", got)
	}
}

// The login is checked before anything is served.
func TestInvalidLogin(t *testing.T) {
	file := testworld.File(t, "connectors.yaml", strings.ReplaceAll(echo, "API", "https://api.example.com"))
	for name, c := range map[string]struct {
		change func(*daemon.Config)
		want   string
	}{
		"no login":         {func(c *daemon.Config) { c.Admin = "0.0.0.0:0" }, "operators from other machines have to log in"},
		"no token":         {func(c *daemon.Config) { c.Login.TokenFile = file + ".none" }, "the login of operators: stat"},
		"no session token": {func(c *daemon.Config) { c.Login.Claim, c.Login.Value = "role", "operator" }, "gateway.user has to be of type jwt"},
	} {
		invalid(t, name, file, c.want, c.change)
	}
}

// An operator sees whether the keys of sessions can be read, and when they were. An issuer that is down when the gateway starts is
// found later.
func TestMetricsOfSessionKeys(t *testing.T) {
	var up atomic.Bool
	var address atomic.Value
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/keys":
			_, _ = fmt.Fprint(w, `{"keys":[]}`)
		default:
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, address.Load(), address.Load().(string)+"/keys")
		}
	}))
	t.Cleanup(issuer.Close)
	address.Store(issuer.URL)
	w := start(t, version, "gateway: {user: {type: jwt, jwt: {bearer: true, issuer: '"+issuer.URL+"', audiences: gateway}}}\n"+echo)
	label := fmt.Sprintf(`{issuer=%q} `, issuer.URL)
	if status, body := w.get(w.operators + "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "answers with status 502") {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if page := w.metrics("keywright_session_keys_available" + label + "0"); strings.Contains(page, "keywright_session_keys_read_timestamp_seconds{") || !strings.Contains(page, "keywright_build_info{version=") {
		t.Errorf("/metrics has\n%s", page)
	}
	up.Store(true)
	w.eventually("the keys are there", func() bool {
		status, _ := w.get(w.operators + "/readyz")
		return status == http.StatusOK
	})
	if page := w.metrics("keywright_session_keys_available" + label + "1"); !strings.Contains(page, "keywright_session_keys_read_timestamp_seconds"+label) {
		t.Errorf("/metrics has\n%s", page)
	}
}
