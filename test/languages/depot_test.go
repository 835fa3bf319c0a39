package languages

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

const (
	ordersURL = "https://api.test/{workspace}/orders?a=b"
	loginURL  = "https://api.test/v1/sessions"
)

// depot is the API that both plugins are for. All that it issues, and all signatures that it gets, are credentials: if one is in the
// memory of the plugin, in a log, in an error or in an explanation, the test fails.
type depot struct {
	t *testing.T
	h *hosttest.Harness

	password string
	logins   int
	// session, workspace and secret are those of the last login, and device is the key of its client.
	session, workspace string
	secret             []byte
	device             ed25519.PublicKey
	// nonce is the nonce that requests must have, or "".
	nonce string
}

func newDepot(t *testing.T, h *hosttest.Harness) *depot {
	d := &depot{t: t, h: h, password: h.Canary("password")}
	h.TokenEndpoint(loginURL, d.logIn)
	h.API(d.orders)
	h.Hosts("*.api.test")
	return d
}

func (*depot) config() hosttest.Config {
	return hosttest.Config{"url": "https://api.test/v1", "user": `ann "the first"`, "password": "{{ get_secret('password') }}"}
}

// new returns a new credential.
func (d *depot) new(what string) string {
	return strings.NewReplacer("%", "p", "/", "s", "&", "a", "=", "e", "+", "l").Replace(d.h.Canary(what))
}

// logIn is the Answer to a login.
func (d *depot) logIn(r *http.Request) (*http.Response, error) {
	var login struct {
		User, Proof string
		Device      struct{ Kty, Crv, X string }
	}
	if err := json.NewDecoder(r.Body).Decode(&login); err != nil {
		d.t.Errorf("the login is not JSON: %v", err)
	}
	proof := sha256.Sum256([]byte(login.User + ":" + d.password))
	if login.User != d.config()["user"] || login.Proof != hex.EncodeToString(proof[:]) {
		d.t.Errorf("the login is %+v", login)
	}
	d.h.Secret("the proof of the login", login.Proof)
	device, err := base64.RawURLEncoding.DecodeString(login.Device.X)
	if err != nil || login.Device.Crv != "Ed25519" || d.device != nil && !d.device.Equal(ed25519.PublicKey(device)) {
		d.t.Errorf("the device is %+v, %v", login.Device, err)
	}
	d.logins++
	d.device, d.secret = device, []byte(d.new("the secret"))
	d.session, d.workspace = d.new("the session"), d.new("the workspace")
	document, err := json.Marshal(map[string]any{"workspace": d.workspace, "api": "https://depot.api.test/v2", "secret": base64.StdEncoding.EncodeToString(d.secret), "expires_in": 600})
	if err != nil {
		return nil, err
	}
	response, err := hosttest.JSON(http.StatusCreated, string(document))(r)
	response.Header.Add("Set-Cookie", "OTHER=x; Path=/")
	response.Header.Add("Set-Cookie", "SESSION="+d.session+"; Path=/; HttpOnly")
	return response, err
}

// orders is the Answer of the API to other requests.
func (d *depot) orders(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	d.h.Secret("the MAC", r.Header.Get("Depot-MAC"))
	d.h.Secret("the proof", r.Header.Get("Depot-Proof"))
	cookie, err := r.Cookie("SESSION")
	if err != nil || cookie.Value != d.session {
		return d.refuse(r, "session")
	}
	digest := sha256.Sum256(body)
	signed := func(nonce string) []byte {
		return fmt.Appendf(nil, "depot/1\n%s\n%x\n%s\n%s", r.Method, digest, r.Header.Get("Depot-Once"), nonce)
	}
	mac := hmac.New(sha256.New, d.secret)
	mac.Write(signed(d.nonce))
	if r.Header.Get("Depot-MAC") != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		return d.refuse(r, "use_nonce")
	}
	proof, err := base64.RawURLEncoding.DecodeString(r.Header.Get("Depot-Proof"))
	if err != nil || !ed25519.Verify(d.device, signed(d.nonce), proof) {
		d.t.Errorf("the proof does not verify: %v", err)
	}
	if want := "https://depot.api.test/v2/" + d.workspace + "/orders?a=b"; r.URL.String() != want || len(r.Header.Get("Depot-Once")) != 16 {
		d.t.Errorf("the request is %s %s", r.URL, r.Header)
	}
	return hosttest.JSON(http.StatusOK, `{}`)(r)
}

// refuse returns a 401 with a new nonce. It repeats the request.
func (d *depot) refuse(r *http.Request, code string) (*http.Response, error) {
	d.nonce = d.new("the nonce")
	response, err := hosttest.JSON(http.StatusUnauthorized, fmt.Sprintf("%q", fmt.Sprint(r.URL, r.Header)))(r)
	response.Header.Set("Depot-Nonce", d.nonce)
	response.Header.Set("Depot-Error", code)
	return response, err
}

// send sends a request, and checks its status and how often it was sent.
func (d *depot) send(r *http.Request, status, attempts int) {
	d.t.Helper()
	got := d.h.Authenticate(d.config(), r)
	if got.Response.StatusCode != status || got.Attempts != attempts {
		d.t.Errorf("the status is %d after %d attempts, want %d after %d", got.Response.StatusCode, got.Attempts, status, attempts)
	}
}

// Plugins in C, AssemblyScript and Rust do what plugins in Go can do, and see as little: threats.md 15.
func TestDepot(t *testing.T) {
	for name, module := range map[string]string{
		"C": compile(t, "c/depot.c"), "AssemblyScript": compile(t, "assembly/depot.ts"), "Rust": compile(t, "rust/depot.rs"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("the module is small and imports nothing beyond the contract", func(t *testing.T) {
				wasm := read(t, module)
				if limit := map[bool]int{true: 64 << 10, false: 16 << 10}[name == "Rust"]; len(wasm) > limit { // Rust's format! is large
					t.Errorf("it has %d bytes, want %d at most", len(wasm), limit)
				}
				checkImports(t, wasm)
			})
			for name, test := range map[string]func(*testing.T, *hosttest.Harness){
				"a session is used again, until a minute before its end": testSession,
				"nonces of the API are signed":                           testNonces,
				"a session that has ended is replaced, once":             testEndedSession,
				"a login that is refused":                                testRefusedLogin,
				"an explanation":                                         testExplanation,
			} {
				t.Run(name, func(t *testing.T) { hosttest.Run(t, nil, module, test) })
			}
		})
	}
}

func testSession(t *testing.T, h *hosttest.Harness) {
	d := newDepot(t, h)
	for _, logins := range []int{1, 1, 2} {
		d.send(hosttest.POST(ordersURL, `{"order":1}`), http.StatusOK, 1)
		if d.logins != logins {
			t.Errorf("there were %d logins, want %d", d.logins, logins)
		}
		h.Advance(270 * time.Second)
	}
}

func testNonces(t *testing.T, h *hosttest.Harness) {
	d := newDepot(t, h)
	d.nonce = d.new("the nonce")
	d.send(hosttest.POST(ordersURL, "a body"), http.StatusOK, 2)
	d.send(hosttest.GET(ordersURL), http.StatusOK, 1) // with the nonce that is kept
	d.nonce = d.new("the nonce")
	d.send(hosttest.GET(ordersURL), http.StatusOK, 2)
	if d.logins != 1 {
		t.Errorf("there were %d logins, want 1", d.logins)
	}
}

func testEndedSession(t *testing.T, h *hosttest.Harness) {
	d := newDepot(t, h)
	d.send(hosttest.GET(ordersURL), http.StatusOK, 1)
	d.session = "ended"
	d.send(hosttest.GET(ordersURL), http.StatusOK, 2)
	d.session = "ended at once"
	d.send(hosttest.GET(ordersURL), http.StatusUnauthorized, 1) // the session was renewed moments ago
	if d.logins != 2 {
		t.Errorf("there were %d logins, want 2", d.logins)
	}
}

func testRefusedLogin(t *testing.T, h *hosttest.Harness) {
	d := newDepot(t, h)
	h.TokenEndpoint(loginURL, func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		return hosttest.JSON(http.StatusForbidden, fmt.Sprintf("%q", d.password+string(body)))(r)
	})
	err := h.AuthenticateError(d.config(), hosttest.GET(ordersURL))
	if err.Stage != host.StageToken || !strings.Contains(err.Error(), "403") {
		t.Errorf("the error is %v", err)
	}
}

func testExplanation(t *testing.T, h *hosttest.Harness) {
	d := newDepot(t, h)
	e := h.Explain(d.config(), hosttest.POST(ordersURL, "a body"))
	text := e.URL
	for _, step := range e.Steps {
		text += step.String()
	}
	for _, want := range []string{"<api>/<workspace>/orders", "POST " + loginURL, `"device":{`, "the data of mac HS256", "the data of sign_sealed EdDSA", "<nonce>"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}
