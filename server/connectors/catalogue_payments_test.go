//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// paymentAccounts returns the accounts of banks and card schemes whose requests, or token requests, a private key signs.
func paymentAccounts(t *testing.T) map[string]account {
	t.Helper()
	pkcs1, _, public := keys(t)
	const consumer = "dOQKvjx1n5v!4ba7"
	return map[string]account{
		"mastercard": {
			secrets: map[string]string{"mastercard-consumer-key": consumer, "mastercard-key": pkcs1},
			api: request("POST https://api.mastercard.com/locations/atms/searches", func(r *http.Request) error {
				return mastercard(public, consumer, r)
			}),
		},
		"revolut-business": revolutBusiness(public, pkcs1),
	}
}

// mastercard checks a signature of OAuth 1.0a with RSA-SHA256, which covers the SHA-256 of the body.
func mastercard(public *rsa.PublicKey, consumer string, r *http.Request) error {
	p := parameters(r, "OAuth")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	for name, value := range p {
		if p[name], err = url.PathUnescape(value); err != nil {
			return err
		}
	}
	sum, signature := sha256.Sum256(body), p["oauth_signature"]
	if p["oauth_consumer_key"] != consumer || p["oauth_signature_method"] != "RSA-SHA256" || p["oauth_nonce"] == "" || p["oauth_body_hash"] != base64.StdEncoding.EncodeToString(sum[:]) {
		return fmt.Errorf("parameters = %v", p)
	}
	delete(p, "oauth_signature")
	var terms []string
	for name, value := range p {
		terms = append(terms, percentEncoded(name)+"="+percentEncoded(value))
	}
	for name, values := range r.URL.Query() {
		terms = append(terms, percentEncoded(name)+"="+percentEncoded(values[0]))
	}
	slices.Sort(terms)
	return verifyRSA(public, r.Method+"&"+percentEncoded("https://"+r.Host+r.URL.Path)+"&"+percentEncoded(strings.Join(terms, "&")), signature)
}

// revolutBusiness returns an account whose client authenticates with a JWT. Its issuer is the host of the redirect URI, and its subject the client.
func revolutBusiness(public *rsa.PublicKey, key string) account {
	c := consents{
		authorize: "https://business.revolut.com/app-confirm", token: "https://b2b.revolut.com/api/1.0/auth/token", query: []string{"scope", "READ"},
		answer: `{"access_token":"` + apiToken + `","token_type":"bearer","expires_in":2399,"refresh_token":"` + refreshToken + `"}`,
		target: "GET https://b2b.revolut.com/api/1.0/accounts", set: []string{"gateway.your-company.example", "gateway.acme.example"},
	}
	a := c.account("revolut-business")
	a.secrets = one("revolut-business", key)
	api := a.api
	a.api = func(w http.ResponseWriter, r *http.Request) {
		check := func(r *http.Request) error {
			if err := c.checkToken(r, ""); err != nil {
				return err
			}
			_, claims, err := verifyJWT(r.PostForm.Get("client_assertion"), "RS256", public)
			want := map[string]any{"iss": "gateway.acme.example", "sub": clientID, "aud": "https://revolut.com"}
			maps.DeleteFunc(want, func(name string, value any) bool { return claims[name] == value })
			if err != nil || len(want) > 0 || r.PostForm.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
				return fmt.Errorf("form = %v, want %v in the claims %v, %w", r.PostForm, want, claims, err)
			}
			return nil
		}
		tokens(c.token, c.answer, api, check)(w, r)
	}
	return a
}
