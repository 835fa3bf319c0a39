package signatures

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// shapes are configurations of the type jws, by the product that asks for them: the judge, the algorithm and further fields.
var shapes = map[string]struct {
	judge, algorithm, payload string
	config                    map[string]any
}{
	"truelayer": {"truelayer", "ES512", `{method} {path}\nIdempotency-Key: {header:Idempotency-Key}\n{body}`, map[string]any{
		"jwt_headers": map[string]any{"kid": "k1", "tl_version": "2", "tl_headers": "Idempotency-Key"},
	}},
	"revolut": {"jws", "PS256", "{body}", map[string]any{
		"jwt_headers": map[string]any{"kid": "k1", "typ": "JOSE", "http://openbanking.org.uk/tan": "acme.test"}, "crit": "http://openbanking.org.uk/tan",
	}},
	"ebanx": {"jws", "RS256", "{body}", map[string]any{"jwt_headers": map[string]any{"kid": "k1"}, "b64": false}},
	"plain": {"jws", "RS256", "{body}", map[string]any{}},
}

const jwsHeader = "X-Jws-Signature"

// sign sends a body through a connector of a shape, with the key of a name.
func sign(t *testing.T, w *signer, shape, key, body string) signed {
	t.Helper()
	s := shapes[shape]
	config := map[string]any{"private_key": "{{ get_secret('" + key + "') }}", "algorithm": s.algorithm, "payload": s.payload, "key": jwsHeader}
	for name, value := range s.config {
		config[name] = value
	}
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.test/v3/payments", strings.NewReader(body)))(t)
	r.Header.Set("Idempotency-Key", "i-1")
	signature := w.send("jws", config, r)
	signature.Header, signature.Raw = jwsHeader, s.config["b64"] == false
	return signature
}

// truelayer-signing verifies what TrueLayer asks for, and jose the other shapes. Both refuse another body.
func TestDetachedJWS(t *testing.T) {
	var requests []signed
	for shape, s := range shapes {
		private, public := keyPair(t, s.algorithm)
		w := newSigner(t, "jws", host.MapSecrets{"key": private})
		for i := range 25 {
			signature := sign(t, w, shape, "key", fmt.Sprintf(`{"amount":%d,"to":"%s"}`, i, strings.Repeat("é", i)))
			signature.Judge, signature.Key = s.judge, public
			changed := signature
			changed.Body = append([]byte(" "), signature.Body...)
			requests = append(requests, signature, changed)
		}
	}
	for i, verdict := range verify(t, requests) {
		if (verdict == "valid") != (i%2 == 0) {
			t.Errorf("%s: requests[%d] = %+v", verdict, i, requests[i])
		}
	}
}

// No verifier that trusts the key of the JWTs of a host takes a body with its JWS for a token, whatever body a caller sends, as it takes the
// host's JWTs (threats.md 427).
func TestClaimsAsBodies(t *testing.T) {
	var requests []signed
	bodies := testworld.ClaimsAsBodies("me", "https://login.test")
	for shape, s := range shapes {
		trusted, public := keyPair(t, s.algorithm)
		own, _ := keyPair(t, s.algorithm)
		w := newSigner(t, "jws", host.MapSecrets{"trusted": trusted, "own": own, "copy": trusted + "\n"}, "jwt")
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/", nil))(t)
		issued := w.send("jwt", map[string]any{"private_key": "{{ get_secret('trusted') }}", "algorithm": s.algorithm, "claims": map[string]any{"sub": "ann"}}, r)
		_, issued.Token, _ = strings.Cut(issued.Headers.Get("Authorization"), " ")
		key, err := jwt.ParseECPublicKeyFromPEM([]byte(public))
		var verifies any = key
		if err != nil {
			verifies = testworld.Must(jwt.ParseRSAPublicKeyFromPEM([]byte(public)))(t)
		}
		parse := func(token string) error {
			_, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return verifies, nil })
			return err
		}
		testworld.Check(t, parse(issued.Token))
		for _, body := range bodies {
			signature := sign(t, w, shape, "own", body)
			for _, token := range testworld.JWTOf(signature.Headers.Get(jwsHeader), body) {
				if parse(token) == nil {
					t.Errorf("%s: golang-jwt takes %s", shape, body)
				}
			}
			for _, judge := range []string{"jose", "jsonwebtoken"} {
				for _, raw := range []bool{false, true} {
					signature.Judge, signature.Key, signature.Raw = judge, public, raw
					requests = append(requests, signature)
				}
			}
		}
		for _, secret := range []string{"trusted", "copy"} { // by its name, and by its thumbprint
			refuses(t, w, secret, s.algorithm)
		}
		for _, judge := range []string{"jose", "jsonwebtoken"} {
			issued.Judge, issued.Key = judge, public
			requests = append(requests, issued)
		}
	}
	all := append(verify(t, requests), verdicts(t, requests, "/usr/bin/python3", "verify.py")...)
	for i, verdict := range all {
		if r := requests[i%len(requests)]; (verdict == "valid") != (r.Token != "") {
			t.Errorf("%s: requests[%d] = %+v", verdict, i, r)
		}
	}
}

// refuses checks that a key that signs JWTs in the host signs no JWS.
func refuses(t *testing.T, w *signer, secret, algorithm string) {
	t.Helper()
	c, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "bank", Origins: []string{"https://api.test"}, Auth: []host.Auth{{
		Type: "jws", Config: map[string]any{"private_key": "{{ get_secret('" + secret + "') }}", "algorithm": algorithm, "key": jwsHeader},
	}}})
	if err == nil {
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.test/", strings.NewReader(`{"sub":"admin"}`)))(t)
		_, err = c.Transport(w).RoundTrip(r) //nolint:bodyclose // there is none
	}
	if err == nil || !strings.Contains(err.Error(), "signs JWS and is a key of connector") {
		t.Errorf("%s: err = %v, want a refusal", secret, err)
	}
}
