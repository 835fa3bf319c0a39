package secretstore_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// engine is a transit engine with a key for each of its algorithms, which has two versions.
type engine struct {
	ec     [2]*ecdsa.PrivateKey
	ed     [2]ed25519.PrivateKey
	secret []byte
}

func newEngine() *engine {
	e := &engine{secret: []byte("the secret of an HMAC, for tests")}
	for i := range e.ec {
		e.ec[i] = newKey(elliptic.P256())
		_, e.ed[i], _ = ed25519.GenerateKey(nil) // of crypto/rand, which does not fail
	}
	return e
}

func newKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// toSign is the body of a request to sign.
type toSign struct {
	Input   []byte `json:"input"`
	Version int    `json:"key_version"`
}

// signature returns the signature of the newest version of a key, or of one that is wanted.
func (e *engine) signature(key string, r toSign) []byte {
	if r.Version == 0 {
		r.Version = len(e.ec)
	}
	switch key {
	case "ES256":
		x, y, err := ecdsa.Sign(rand.Reader, e.ec[r.Version-1], r.Input)
		if err != nil {
			panic(err)
		}
		return append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)
	case "EdDSA":
		return ed25519.Sign(e.ed[r.Version-1], r.Input)
	}
	signature, err := jwt.SigningMethodHS256.Sign(string(r.Input), e.secret)
	if err != nil {
		panic(err)
	}
	return signature
}

// about returns the description of a key.
func (e *engine) about(key string) map[string]any {
	versions, kind := map[string]any{}, "hmac"
	for i := range e.ec {
		half := ""
		switch key {
		case "ES256":
			half, kind = pemOf(e.ec[i].Public()), "ecdsa-p256"
		case "EdDSA":
			half, kind = base64.StdEncoding.EncodeToString(e.ed[i].Public().(ed25519.PublicKey)), "ed25519"
		}
		versions[strconv.Itoa(i+1)] = map[string]any{"public_key": half}
	}
	return map[string]any{"type": kind, "latest_version": len(e.ec), "min_encryption_version": 0, "keys": versions}
}

func pemOf(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// written returns a signature as the engine writes it.
func written(key string, version int, signature []byte) map[string]any {
	if key == "HS256" {
		return map[string]any{"hmac": fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(signature))}
	}
	return map[string]any{"signature": fmt.Sprintf("vault:v%d:%s", version, base64.RawURLEncoding.EncodeToString(signature)), "key_version": version}
}

// asking is a request to the engine.
type asking struct {
	*http.Request
	key    string
	toSign toSign
	// all is the token and the body, which an echo could send.
	all string
}

// hostile answers a request in place of the engine.
type hostile func(e *engine, w http.ResponseWriter, r asking)

// hostileAnswer is an answer, and what the error says.
type hostileAnswer struct {
	answer hostile
	want   string
}

// hostileVault is a host whose store of keys answers as a test wants.
type hostileVault struct {
	*fakeVault
	engine *engine
	// describe and sign answer in place of the engine unless they are nil.
	describe, sign hostile
	store          *secretstore.VaultStore
	api            *testworld.Server
	host           *host.Host
}

// newHostileVault returns a store that has no host yet.
func newHostileVault(t *testing.T) *hostileVault {
	t.Helper()
	v := &hostileVault{engine: newEngine(), api: testworld.NewServer(testworld.Respond(http.StatusOK, ""))}
	v.fakeVault, v.store = transit(t, v.answer)
	return v
}

// open makes the host.
func (v *hostileVault) open(t *testing.T) {
	t.Helper()
	v.t = t
	var log testworld.Log
	h := testworld.Must(host.New(context.Background(), host.Config{
		Keys: v.store, Secrets: host.MapSecrets{"s": v.Secret("what is signed")}, Base: v.api, Clock: v.Now, Logger: log.Logger(),
		BuiltIns: []host.Plugin{{Name: "jwt.wasm", Wasm: plugins.JWT()}, {Name: "dpop.wasm", Wasm: plugins.DPoP()}},
		Limits:   host.Limits{ConcurrentGuests: 1, ConcurrentExchanges: 1, ConcurrentKeys: 1}, // so that a place that is lost is noticed
		Observe:  func(_ context.Context, a host.Attempt) { v.OutError("Observe's error", a.Err) },
	}))(t)
	v.host = h
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		v.Out("the log", log.String())
	})
}

// answer answers as the engine does, or in the hostile way.
func (v *hostileVault) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	operation, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/transit/"), "/")
	a := asking{Request: r, key: key, all: r.Header.Get("X-Vault-Token") + " " + string(body)}
	if operation == "keys" {
		if v.describe != nil {
			v.describe(v.engine, w, a)
			return
		}
		_, _ = io.WriteString(w, dataOf(v.engine.about(key)))
		return
	}
	if err := json.Unmarshal(body, &a.toSign); err != nil {
		v.t.Errorf("%s: err = %v", r.URL.Path, err)
	}
	if v.sign != nil {
		v.sign(v.engine, w, a)
		return
	}
	version := max(a.toSign.Version, 1)
	if a.toSign.Version == 0 {
		version = len(v.engine.ec)
	}
	_, _ = io.WriteString(w, dataOf(written(key, version, v.engine.signature(key, a.toSign))))
}

// connect returns a connector that signs a secret with a key of the engine.
func (v *hostileVault) connect(algorithm string) *host.Connector {
	v.t.Helper()
	return testworld.Must(v.host.NewConnector(v.t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{"https://api.test"}, Auth: []host.Auth{{
		Type: "jwt", Config: map[string]any{"algorithm": algorithm, "private_key": "{{ get_key('" + algorithm + "') }}", "claims": map[string]any{"sub": "{{ get_secret('s') }}"}},
	}}}))(v.t)
}

func (v *hostileVault) try(ctx context.Context, c *host.Connector) error {
	r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodGet, "https://api.test/orders", nil))(v.t)
	response, err := c.Transport(nil).RoundTrip(r)
	v.OutError("the request's error", err)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// refuse checks that a request fails with one clear error and that nothing is sent, and that the next one succeeds once the
// store answers as it should.
func (v *hostileVault) refuse(c *host.Connector, want string) {
	v.t.Helper()
	sent := v.api.Count()
	err := v.try(v.t.Context(), c)
	var failed *host.Error
	if !errors.As(err, &failed) || failed.Stage != host.StageSign || !strings.Contains(err.Error(), want) {
		v.t.Errorf("the error is %v, want one of the stage sign that says %q", err, want)
	}
	if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400) {
		v.t.Errorf("the error is not a short line: %q", err)
	}
	if n := v.api.Count() - sent; n != 0 {
		v.t.Errorf("%d requests were sent to the API", n)
	}
	v.with(func() { v.describe, v.sign = nil, nil })
	v.Advance(time.Minute) // the description of a key is remembered so long
	if err := v.try(v.t.Context(), c); err != nil {
		v.t.Errorf("afterwards: %v", err)
	}
}

// threats.md 95, 104: whatever a store of keys answers, there is one clear error, and nothing is sent to the API. The error holds
// nothing of the answer. The next request succeeds once the store answers as it should.
func TestHostileStoreOfKeys(t *testing.T) {
	v := newHostileVault(t)
	v.open(t)
	run := func(t *testing.T, answers map[string]hostileAnswer, describing bool, algorithms ...string) {
		for name, c := range answers {
			for _, algorithm := range algorithms {
				t.Run(name+"/"+algorithm, func(t *testing.T) {
					v.t = t
					v.with(func() {
						if v.sign = c.answer; describing {
							v.describe, v.sign = c.answer, nil
						}
					})
					v.refuse(v.connect(algorithm), c.want)
				})
			}
		}
	}
	t.Run("describe", func(t *testing.T) { run(t, hostileToBoth(), true, "ES256", "EdDSA") })
	t.Run("the description", func(t *testing.T) { run(t, hostileDescriptions, true, "ES256", "EdDSA") })
	t.Run("sign", func(t *testing.T) { run(t, hostileToBoth(), false, "ES256", "EdDSA", "HS256") })
	t.Run("the signing", func(t *testing.T) { run(t, hostileToSign, false, "ES256", "EdDSA", "HS256") })
	t.Run("the signature", func(t *testing.T) { run(t, hostileSignatures, false, "ES256", "EdDSA") })
}

// threats.md 95: a store that shows the public half of one version and signs with another is noticed.
func TestHostileVersions(t *testing.T) {
	v := newHostileVault(t)
	v.open(t)
	v.sign = func(e *engine, w http.ResponseWriter, r asking) {
		_, _ = io.WriteString(w, dataOf(written(r.key, 1, e.signature(r.key, toSign{Input: r.toSign.Input, Version: 1}))))
	}
	c := testworld.Must(v.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{"https://api.test"}, Auth: []host.Auth{{
		Type: "dpop", Config: map[string]any{
			"token_url": "https://login.test/token", "client_id": "me", "client_secret": "{{ get_secret('s') }}", "proof_key": "{{ get_key('ES256') }}", "proof_algorithm": "ES256",
		},
	}}}))(t)
	sent := v.api.Count() // of the token endpoint as well
	err := v.try(t.Context(), c)
	if want := "the store of keys used version 1, and version 2 was wanted"; err == nil || !strings.Contains(err.Error(), want) || v.api.Count() != sent {
		t.Errorf("the error is %v, want %q, after %d requests", err, want, v.api.Count()-sent)
	}
}

// threats.md 94: an answer that comes a byte a second, or not at all, ends with the time of a lookup, and holds no place after it.
func TestSlowStoreOfKeys(t *testing.T) {
	for name, trouble := range slowAnswers {
		for _, operation := range []string{"keys", "sign", "hmac"} {
			t.Run(name+"/"+operation, func(t *testing.T) {
				v := newHostileVault(t)
				server := &inMemory{server: v.fakeVault}
				v.store = testworld.Must(secretstore.Vault(secretstore.VaultConfig{
					Address: "https://vault.test", TokenFile: v.tokenFile(v.token(0, false)), Transit: &secretstore.VaultTransit{}, Clock: v.Now, Transport: server,
				}))(t)
				algorithm := "ES256"
				if operation == "hmac" {
					algorithm = "HS256"
				}
				synctest.Test(t, func(t *testing.T) {
					v.open(t)
					c := v.connect(algorithm)
					server.trouble = func(r *http.Request) (*http.Response, error) {
						if strings.Contains(r.URL.Path, "/transit/"+operation+"/") {
							return trouble(r)
						}
						return (&inMemory{server: v.fakeVault}).RoundTrip(r)
					}
					began := time.Now()
					err := v.try(t.Context(), c)
					var failed *host.Error
					if !errors.As(err, &failed) || failed.Stage != host.StageSign || !failed.Retryable() || v.api.Count() != 0 {
						t.Errorf("the error is %v, after %d requests to the API", err, v.api.Count())
					}
					if took := time.Since(began); took != 10*time.Second {
						t.Errorf("it took %s", took)
					}
					server.trouble = nil
					if err := v.try(t.Context(), c); err != nil {
						t.Errorf("afterwards: %v", err)
					}
				})
			})
		}
	}
}
