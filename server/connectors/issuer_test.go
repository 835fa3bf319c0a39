package connectors_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	golangjwt "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
)

// keyring is a store of keys with one EC key, issuer.
type keyring struct{ private *ecdsa.PrivateKey }

func newKeyring(t *testing.T) keyring {
	return keyring{testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
}

func (k keyring) Describe(_ context.Context, key host.Key) (host.KeyInfo, error) {
	if key.Name != "issuer" {
		return host.KeyInfo{}, host.ErrKeyNotFound
	}
	return host.KeyInfo{Version: 1, Type: "ecdsa-p256", Public: k.private.Public()}, nil
}

func (k keyring) Sign(_ context.Context, _ host.Key, algorithm string, data []byte) ([]byte, int, error) {
	signature, err := golangjwt.GetSigningMethod(algorithm).Sign(string(data), k.private)
	return signature, 1, err
}

// ownIssuer is the source of tokens that the gateway makes itself.
const ownIssuer = `type: issuer
    issuer: https://gateway.test
    key: "{{ get_key('issuer') }}"
    subject: "tenant:{{ tenant_id }}"`

// A connector without any secret sends tokens of the gateway's own, which a party verifies by the documents that the gateway serves.
func TestIssuerOfGateway(t *testing.T) {
	p := newParty(t)
	text := strings.NewReplacer("SOURCE", ownIssuer, "EGRESS", "egress: {allow: [127.0.0.1/32], plain_http: [HOST]}").Replace(keyless)
	text = strings.NewReplacer("URL", p.URL, "HOST", p.Listener.Addr().String()).Replace(text)
	set := loadGood(t, text, connectors.Options{Host: host.Config{Keys: newKeyring(t)}})
	g := gateway.New(gateway.Config{})
	g.Use(gateway.Setup{Documents: set.Documents, Hosts: []string{"gateway.test"}})
	read := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "https://gateway.test"+path, http.NoBody)
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w
	}
	client := http.Client{Transport: set.Connectors[0].Upstream().Transport(nil)}
	send := func(tenant string) error {
		r, _ := http.NewRequestWithContext(host.WithUser(t.Context(), host.User{ID: "1", TenantID: tenant}), http.MethodGet, p.URL+"/api", http.NoBody)
		response, err := client.Do(r)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	for _, tenant := range []string{"acme", "acme", "other"} {
		testworld.Check(t, send(tenant))
	}
	if p.exchanges != 2 || len(p.received) != 3 {
		t.Fatalf("%d exchanges for 2 tenants, %d requests", p.exchanges, len(p.received))
	}
	var keys jwkset.JWKSMarshal
	testworld.Check(t, json.Unmarshal(read("GET", "/.well-known/jwks.json").Body.Bytes(), &keys))
	key := testworld.Must(jwkset.NewJWKFromMarshal(keys.Keys[0], jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{}))(t).Key()
	for i, tenant := range []string{"acme", "other"} {
		_, err := golangjwt.Parse(p.assertions[i], func(*golangjwt.Token) (any, error) { return key, nil },
			golangjwt.WithAudience("api://exchange"), golangjwt.WithIssuer("https://gateway.test"), golangjwt.WithSubject("tenant:"+tenant), golangjwt.WithExpirationRequired(), golangjwt.WithIssuedAt())
		if err != nil {
			t.Errorf("the token of %s: %v", tenant, err)
		}
	}
	err := send("")
	var failed *host.Error
	if !errors.As(err, &failed) || failed.Stage != host.StageIdentity || !strings.Contains(err.Error(), "its subject has tenant_id, and the request has none") {
		t.Errorf("a request without a tenant: %v", err)
	}
	metadata := read("GET", "/.well-known/openid-configuration")
	if metadata.Code != http.StatusOK || metadata.Header().Get("Content-Type") != "application/json" || !strings.Contains(metadata.Body.String(), `"jwks_uri":"https://gateway.test/.well-known/jwks.json"`) {
		t.Errorf("the metadata is %d %v %s", metadata.Code, metadata.Header(), metadata.Body)
	}
	for path, status := range map[string]int{"POST /.well-known/jwks.json": 405, "GET /.well-known/jwks.jso": 404, "GET /.well-known/": 404, "HEAD /.well-known/jwks.json": 200} {
		method, target, _ := strings.Cut(path, " ")
		if got := read(method, target); got.Code != status {
			t.Errorf("%s: %d, want %d", path, got.Code, status)
		}
	}
	g.Use(gateway.Setup{Hosts: []string{"gateway.test"}, Documents: map[string]func(context.Context) ([]byte, error){"/x": func(context.Context) ([]byte, error) { return nil, errors.New("text-of-the-store") }}})
	if w := read("GET", "/x"); w.Code != 503 || strings.Contains(w.Body.String(), "text-of-the-store") || !strings.Contains(w.Body.String(), "document-unavailable") {
		t.Errorf("a document that cannot be read: %d %s", w.Code, w.Body)
	}
}

// threats.md 511 and 416: what the issuer of the gateway may not be is a problem of the file, and its key serves no connector and no store.
func TestProblemsOfIssuer_threats_511(t *testing.T) {
	const file = `gateway:
  user: {type: jwt, jwt: {jwks_file: KEYS, issuer: "https://id.test", audiences: gateway}}
identities:
  - {type: issuer, name: a, issuer: "https://id.test", key: "{{ get_key('issuer') }}", subject: x, for: [{audience: sts, hosts: sts.test}]}
  - {type: issuer, name: b, issuer: "https://id.test/", key: issuer, subject: "{{ user.email }}", ttl: 1m, for: [{audience: gateway, hosts: sts.test}]}
  - {type: issuer, name: c, for: [{audience: sts, hosts: sts.test}]}
connectors:
  - name: Orders
    url: https://api.test
    auth: {type: jwt, config: {private_key: "{{ get_key('issuer') }}", algorithm: ES256, claims: {sub: x}}}
`
	wantProblems(t, file, connectors.Options{Host: host.Config{Keys: newKeyring(t)}},
		"connectors.yaml:4:37: identities[0].issuer: is also that of gateway.user.jwt: a token of the process would be the session of a user",
		"connectors.yaml:5:5: identities[1]: is the second issuer: one serves the documents of the gateway",
		"connectors.yaml:5:37: identities[1].issuer: is no https origin, such as https://gateway.example.com",
		"connectors.yaml:5:62: identities[1].key: is no key of a store of keys, as in {{ get_key('issuer') }}",
		"connectors.yaml:5:79: identities[1].subject: may have {{ tenant_id }} and {{ user.id }}, and no other template",
		"connectors.yaml:5:104: identities[1].ttl: is less than 2m: each request would need another token",
		"connectors.yaml:5:114: identities[1].for[0].audience: is also one of gateway.user.jwt.audiences: …",
		"connectors.yaml:6:5: identities[2].issuer: is missing", "connectors.yaml:6:5: identities[2].key: is missing", "connectors.yaml:6:5: identities[2].subject: is missing",
		"connectors.yaml:6:5: identities[2]: is the second issuer: one serves the documents of the gateway",
	)
	const good = `identities:
  - {type: issuer, name: a, issuer: "https://id.test", key: "{{ get_key('issuer') }}", subject: x, for: [{audience: sts, hosts: sts.test}]}
`
	const none = "connectors:\n  - {name: Orders, url: 'https://api.test', auth: {type: none}}\n"
	wantProblems(t, good+none, connectors.Options{}, "connectors.yaml:2:61: identities[0].key: needs a store of keys in secrets, such as vault with transit")
	wantProblems(t, good+strings.TrimPrefix(strings.Replace(good, "name: a", "name: b", 1), "identities:\n")+none, connectors.Options{Host: host.Config{Keys: newKeyring(t)}},
		"connectors.yaml:3:5: identities[1]: is the second issuer: one serves the documents of the gateway")
	wantProblems(t, good+`secrets:
  - type: connector
    url: https://store.test
    auth: {type: oauth_jwt_bearer, config: {token_url: "https://sts.test", client_auth: none, assertion: "{{ identity('a', 'sts') }}"}}
    read: {path: "/{name}", from: "json:/value"}
`+none, connectors.Options{Host: host.Config{Keys: newKeyring(t)}},
		"connectors.yaml:6:95: secrets[0].auth.config.assertion: names identity('a', 'sts'), and no host may get its token: …")

	set := loadGood(t, good+strings.Replace(none, "{type: none}", `{type: jwt, config: {private_key: "{{ get_key('issuer') }}", algorithm: ES256, claims: {sub: x}}}`, 1), connectors.Options{Host: host.Config{Keys: newKeyring(t), Clock: time.Now}})
	client := http.Client{Transport: set.Connectors[0].Upstream().Transport(nil)}
	_, err := client.Get("https://api.test/") //nolint:bodyclose // there is none
	if !errors.Is(err, host.ErrKeyRefused) {
		t.Errorf("a connector uses the key of the issuer: %v", err)
	}
}
