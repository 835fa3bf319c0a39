//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// paymentAccounts returns the accounts of banks and card schemes whose requests, or token requests, a private key signs.
func paymentAccounts(t *testing.T) map[string]account {
	t.Helper()
	pkcs1, _, public := keys(t)
	const consumer, id = "dOQKvjx1n5v!4ba7", "0oar95zt9zIpYuz6A0h7"
	const okta, netSuite = "https://acme.okta.com/oauth2/v1/token", "https://1234567-sb1.suitetalk.api.netsuite.com/services/rest/auth/oauth2/v1/token"
	return map[string]account{
		"mastercard": {
			secrets: map[string]string{"mastercard-consumer-key": consumer, "mastercard-key": pkcs1},
			api: request("POST https://api.mastercard.com/locations/atms/searches", func(r *http.Request) error {
				return mastercard(public, consumer, r)
			}),
		},
		"revolut-business": revolutBusiness(public, pkcs1),
		"ebay-finances": {
			secrets: map[string]string{"ebay-finances-client": "PRD-0123", "ebay-finances-refresh-token": "v^1.1#i^1", "ebay-finances-jwe": "eyJ6aXAiOiJERUYifQ.a.b.c.d", "ebay-finances-key": pkcs8(t, ed25519Key("k"))},
			set:     map[string]string{"EBAY_GB": "EBAY_DE", "your-app-id": id},
			api: tokens("https://api.ebay.com/identity/v1/oauth2/token", strings.Replace(answer, "Bearer", "User Access Token", 1),
				request("GET https://apiz.ebay.com/sell/finances/v1/seller_funds_summary", bearing(apiToken), sends("X-EBAY-C-MARKETPLACE-ID", "EBAY_DE"), sends("x-ebay-signature-key", "eyJ6aXAiOiJERUYifQ.a.b.c.d"), ebay),
				signedIn(id, "PRD-0123"), posts("grant_type", "refresh_token", "refresh_token", "v^1.1#i^1")),
		},
		"kraken": {
			secrets: map[string]string{"kraken-key": "Ln3sDq2R", "kraken-secret": base64.StdEncoding.EncodeToString([]byte(krakenSecret))},
			api:     request("POST https://api.kraken.com/0/private/Balance", sends("API-Key", "Ln3sDq2R"), kraken),
		},
		"kucoin": {
			secrets: map[string]string{"kucoin-key": "5f8c1b2a", "kucoin-secret": kuCoinSecret, "kucoin-passphrase": "horse-battery"}, set: one("your-key-version", "3"),
			api: request("GET https://api.kucoin.com/api/v1/accounts", sends("KC-API-KEY", "5f8c1b2a"), sends("KC-API-KEY-VERSION", "3"), kuCoin),
		},
		"okta-client-credentials": {
			secrets: one("okta-client-credentials", pkcs1), set: map[string]string{"your-org": "acme", "your-client-id": id, "your-key-id": "O4OGPyWoWKDZ"},
			api: tokens(okta, answer, request("GET https://acme.okta.com/api/v1/users", bearing(apiToken)), func(r *http.Request) error {
				return clientAssertion(r, public, "RS256", "O4OGPyWoWKDZ", map[string]any{"iss": id, "sub": id, "aud": okta}, "grant_type", "client_credentials", "scope", "okta.users.read")
			}),
		},
		"netsuite-client-credentials": {
			secrets: one("netsuite-client-credentials", pkcs1),
			set:     map[string]string{"your-account-id": "1234567-sb1", "your-client-id": id, "your-certificate-id": "custcertificate_1"},
			api: tokens(netSuite, answer, request("GET https://1234567-sb1.suitetalk.api.netsuite.com/services/rest/record/v1/metadata-catalog", bearing(apiToken)), func(r *http.Request) error {
				return clientAssertion(r, public, "PS256", "custcertificate_1", map[string]any{"iss": id, "aud": netSuite, "scope": "rest_webservices"}, "grant_type", "client_credentials")
			}),
		},
		"truelayer": {
			secrets: map[string]string{"truelayer-client": "5e1c9a3b", "truelayer-key": ecText(t, p521Key)}, set: map[string]string{"your-client-id": "acme-a1b2c3", "your-key-id": "45fc75cf"},
			api: tokens("https://auth.truelayer.com/connect/token", answer,
				request("POST https://api.truelayer.com/test-signature", bearing(apiToken), func(r *http.Request) error { return trueLayer(t, r) }),
				posts("grant_type", "client_credentials", "client_id", "acme-a1b2c3", "client_secret", "5e1c9a3b", "scope", "payments")),
		},
	}
}

// clientAssertion checks the JWT with which a client authenticates (RFC 7523): its key ID, if that is not "", and its claims. The form has
// further members, in pairs.
func clientAssertion(r *http.Request, public *rsa.PublicKey, algorithm, keyID string, claims map[string]any, form ...string) error {
	header, got, err := verifyJWT(r.PostFormValue("client_assertion"), algorithm, public)
	claims = maps.Clone(claims)
	maps.DeleteFunc(claims, func(name string, value any) bool { return got[name] == value })
	form = append(form, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	for pair := range slices.Chunk(form, 2) {
		if r.PostFormValue(pair[0]) != pair[1] {
			return fmt.Errorf("form = %v, want %s = %s", r.PostForm, pair[0], pair[1])
		}
	}
	if err != nil || len(claims) > 0 || keyID != "" && header["kid"] != keyID {
		return fmt.Errorf("header = %v, want %v in the claims %v, %w", header, claims, got, err)
	}
	return nil
}

const krakenSecret, kuCoinSecret = "the decoded secret of Kraken", "9b2c7d1e-3f4a"

// kraken checks an HMAC over the path, and a digest of the number and the form that has it.
func kraken(r *http.Request) error {
	number := r.PostForm.Get("nonce")
	sum := sha256.Sum256([]byte(number + r.PostForm.Encode()))
	m := hmac.New(sha512.New, []byte(krakenSecret))
	m.Write([]byte(r.URL.Path + string(sum[:])))
	if got, want := r.Header.Get("API-Sign"), base64.StdEncoding.EncodeToString(m.Sum(nil)); number == "" || got != want {
		return fmt.Errorf("form = %v, API-Sign = %q, want %q", r.PostForm, got, want)
	}
	return nil
}

// kuCoin checks HMACs over the request and over the passphrase.
func kuCoin(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"KC-API-SIGN": r.Header.Get("KC-API-TIMESTAMP") + r.Method + r.RequestURI + string(body), "KC-API-PASSPHRASE": "horse-battery"} {
		if got, want := r.Header.Get(name), base64.StdEncoding.EncodeToString(mac([]byte(kuCoinSecret), text)); got != want {
			return fmt.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	return nil
}

// trueLayer checks a detached JWS with ES512 over the method, the path, the header Idempotency-Key and the body, as lines.
func trueLayer(t *testing.T, r *http.Request) error {
	t.Helper()
	parts := strings.Split(r.Header.Get("Tl-Signature"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil || len(parts) != 3 || parts[1] != "" {
		return fmt.Errorf("Tl-Signature = %q, want one without its payload, %w", parts, err)
	}
	header := map[string]any{}
	text, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err := errors.Join(err, json.Unmarshal(text, &header)); err != nil {
		return err
	}
	want := map[string]any{"alg": "ES512", "kid": "45fc75cf", "tl_version": "2", "tl_headers": "Idempotency-Key"}
	if !maps.Equal(header, want) || r.Header.Get("Idempotency-Key") == "" {
		return fmt.Errorf("header = %v, want %v", header, want)
	}
	payload := r.Method + " " + r.URL.Path + "\nIdempotency-Key: " + r.Header.Get("Idempotency-Key") + "\n" + string(body)
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	return jose.SigningMethodES512.Verify(parts[0]+"."+base64.RawURLEncoding.EncodeToString([]byte(payload)), signature, &testworld.Must(p521Key())(t).PublicKey)
}

// ebayInput matches Signature-Input, to which eBay's own verifier takes a key ID beside the time
// (github.com/eBay/digital-signature-verification-ebay-api).
var ebayInput = regexp.MustCompile(`^sig1=(\("x-ebay-signature-key" "@method" "@path" "@authority"\);created=([0-9]+)(?:;keyid="[^"]+")?)$`)

// ebay checks a signature of RFC 9421 over the key, the method, the path and the host.
func ebay(r *http.Request) error {
	input := ebayInput.FindStringSubmatch(r.Header.Get("Signature-Input"))
	if input == nil {
		return fmt.Errorf("Signature-Input = %q", r.Header.Get("Signature-Input"))
	}
	if created, _ := strconv.ParseInt(input[2], 10, 64); time.Since(time.Unix(created, 0)).Abs() > time.Minute {
		return fmt.Errorf("created = %d, want now", created)
	}
	text := fmt.Sprintf("\"x-ebay-signature-key\": %s\n\"@method\": %s\n\"@path\": %s\n\"@authority\": %s\n\"@signature-params\": %s",
		r.Header.Get("X-Ebay-Signature-Key"), r.Method, r.URL.Path, r.Host, input[1])
	encoded := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Signature"), "sig1=:"), ":")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	public, _ := ed25519Key("k").Public().(ed25519.PublicKey)
	if err != nil || !ed25519.Verify(public, []byte(text), signature) {
		return fmt.Errorf("Signature = %q does not verify, %w", r.Header.Get("Signature"), err)
	}
	return nil
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
			return clientAssertion(r, public, "RS256", "", map[string]any{"iss": "gateway.acme.example", "sub": clientID, "aud": "https://revolut.com"})
		}
		tokens(c.token, c.answer, api, check)(w, r)
	}
	return a
}
