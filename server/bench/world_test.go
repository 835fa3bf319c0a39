package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

const (
	apiOrigin = "https://api.test"
	apiURL    = apiOrigin + "/v1/things?limit=10"
	loginHost = "login.test"
	tokenURL  = "https://" + loginHost + "/token"

	apiKey      = "Vl2bq8ZxJ0c5oTn7YhRwKd3sGm9uPe1A"
	accessToken = "B0InW6eXk2rVtQ4zLp8aHs5yMc7fUd1g"
)

// base is a network that responds at once.
type base struct {
	exchanges atomic.Int64
	// answering, if not nil, is closed when the token endpoint answers.
	answering chan struct{}
	// answer is the answer of the token endpoint. If it is empty, it is a bearer token.
	answer string
	// body is the answer of the API.
	body string
}

const bearerToken = `{"access_token":"` + accessToken + `","token_type":"Bearer","expires_in":3600}`

func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if b.body != "" {
		response.Body = io.NopCloser(strings.NewReader(b.body))
	}
	if r.URL.Host == loginHost {
		b.exchanges.Add(1)
		if b.answering != nil {
			<-b.answering
		}
		response.Body = io.NopCloser(strings.NewReader(cmp.Or(b.answer, bearerToken)))
	}
	return response, nil
}

// withoutReuse turns off the reuse of mutations, so that every call of a plugin runs its sandbox.
func withoutReuse(c *host.Config) { c.NoReuse = true }

// newHost returns a host with the secrets of all configurations.
func newHost(t testing.TB, b *base, change ...func(*host.Config)) *host.Host {
	t.Helper()
	config := host.Config{Base: b, Secrets: host.MapSecrets{
		"key": apiKey, "client": "9tW3vYb6Nq1xZc8eRk5u",
		"RS256": keys().rsaPEM, "ES256": keys().ecdsaPEM, "EdDSA": keys().ed25519PEM, "HS256": hmacKey,
	}}
	for _, c := range change {
		c(&config)
	}
	h := testworld.Must(host.New(t.Context(), config))(t)
	t.Cleanup(func() { testworld.Check(t, h.Close(context.WithoutCancel(t.Context()))) })
	return h
}

// auths holds configurations of the five auth types, in a fixed order.
var auths = []host.Auth{
	{Type: "none"},
	apiKeyAuth,
	{Type: "oauth_client_credentials", Config: map[string]any{
		"client_id": "me", "client_secret": "{{ get_secret('client') }}", "token_url": tokenURL, "scope": "read",
	}},
	jwtAuth("ES256"),
	{Type: "oauth_jwt_bearer", Config: map[string]any{
		"client_id": "me", "private_key": "{{ get_secret('ES256') }}", "algorithm": "ES256", "token_url": tokenURL,
		"subject": "user@example.com", "audience": "https://login.test/",
	}},
}

var apiKeyAuth = host.Auth{Type: "api_key", Config: map[string]any{
	"key": "X-API-Key", "value": "{{ get_secret('key') }}", "in": "header",
}}

func jwtAuth(algorithm string) host.Auth {
	return host.Auth{Type: "jwt", Config: map[string]any{
		"private_key": "{{ get_secret('" + algorithm + "') }}", "algorithm": algorithm,
		"claims": map[string]any{
			"iss": issuer, "sub": subject, "aud": audience, "iat": "{{ now() }}", "exp": fmt.Sprintf("{{ now(%d) }}", lifetime),
		},
	}}
}

func authOf(authType string) host.Auth {
	for _, a := range auths {
		if a.Type == authType {
			return a
		}
	}
	panic("there is no auth type " + authType)
}

func connect(t testing.TB, h *host.Host, name string, a host.Auth) *host.Connector {
	t.Helper()
	return testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: name, Origins: []string{apiOrigin}, Auth: []host.Auth{a}}))(t)
}

// connected returns the only connector of a host. If the host does not load its auth type by default, it gets the module.
func connected(t testing.TB, b *base, a host.Auth, change ...func(*host.Config)) *host.Connector {
	t.Helper()
	return connect(t, newHost(t, b, append(change, func(c *host.Config) {
		if module := plugins.Of(a.Type); !slices.ContainsFunc(plugins.Default(), func(m []byte) bool { return bytes.Equal(m, module) }) {
			c.Plugins = append(c.Plugins, host.Plugin{Name: a.Type, Wasm: module})
		}
	})...), "bench", a)
}

// request returns a request with three headers.
func request(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, apiURL, nil)
	if err != nil {
		panic(err) // the URL is a constant
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "bench/1")
	r.Header.Set("X-Request-Id", "0b9f4c1e-6a53-4c0e-9d1f-2f6c3b7f6a11")
	return r
}

// roundTrip returns a round trip.
func roundTrip(transport http.RoundTripper, r *http.Request) op {
	return op{run: func() error { return send(transport, r) }}
}

// whole returns a whole call of a plugin.
func whole(c *host.Connector, r *http.Request) op {
	return op{run: func() error {
		_, err := c.Authenticate(r)
		return err
	}}
}

// authenticate returns the request that a plugin has authenticated.
func authenticate(t testing.TB, c *host.Connector, r *http.Request) *http.Request {
	t.Helper()
	return testworld.Must(c.Authenticate(r))(t)
}

// send does one round trip.
func send(transport http.RoundTripper, r *http.Request) error {
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

const hmacKey = "h7Jq2wXv9mLs4TzB8nRc5pKd1yGf6aUe3oVi0tQxZkMb" // 44 bytes

type keyRing struct {
	rsa     *rsa.PrivateKey
	ecdsa   *ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey

	rsaPEM, ecdsaPEM, ed25519PEM string
}

// keys returns the keys, which are generated once per process.
var keys = sync.OnceValue(func() keyRing {
	var k keyRing
	var errs [3]error
	k.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	k.ecdsa, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed25519, errs[2] = ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(errs[:]...); err != nil {
		panic(err) // randomness does not fail
	}
	text := func(key any) string {
		der, _ := x509.MarshalPKCS8PrivateKey(key) // these are of known types
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	k.rsaPEM, k.ecdsaPEM, k.ed25519PEM = text(k.rsa), text(k.ecdsa), text(k.ed25519)
	return k
})
