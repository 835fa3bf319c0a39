package demo

import (
	"crypto"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	grantClientCredentials = "client_credentials"                          // RFC 6749 section 4.4
	grantJWTBearer         = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523 section 2.1
)

// A TokenEndpoint is an OAuth 2.0 token endpoint (RFC 6749 section 3.2) for one client, which sends its secret in the form, or an
// assertion. It is safe for concurrent use.
type TokenEndpoint struct {
	keys       Keys
	assertions verifier
	now        func() time.Time

	mu     sync.Mutex
	tokens map[string]issued
}

type issued struct {
	subject string
	expiry  time.Time
}

func newTokenEndpoint(k Keys, address string, now func() time.Time) *TokenEndpoint {
	assertions := newVerifier(jwt.SigningMethodRS256, k.publicRSA, address, now, jwt.WithIssuer(k.ClientID))
	return &TokenEndpoint{keys: k, assertions: assertions, now: now, tokens: map[string]issued{}}
}

// Exchanges returns the number of tokens issued so far.
func (e *TokenEndpoint) Exchanges() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.tokens)
}

// subject returns the subject of a token: the client, or the sub of the assertion.
func (e *TokenEndpoint) subject(token string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.tokens[token]
	if !ok || !e.now().Before(t.expiry) {
		return "", errors.New("it is unknown or expired")
	}
	return t.subject, nil
}

// ServeHTTP answers a token request. Errors have the codes of RFC 6749 section 5.2.
func (e *TokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code, description string) {
		writeJSON(w, status, map[string]string{"error": code, "error_description": description})
	}
	subject := e.keys.ClientID
	switch r.PostFormValue("grant_type") {
	case grantClientCredentials:
		if r.PostFormValue("client_id") != subject || !hmac.Equal([]byte(r.PostFormValue("client_secret")), []byte(e.keys.ClientSecret)) {
			refuse(http.StatusUnauthorized, "invalid_client", "the client is unknown, or its secret is wrong")
			return
		}
	case grantJWTBearer:
		var err error
		if subject, err = e.assertions.verify(r.PostFormValue("assertion")); err != nil {
			refuse(http.StatusBadRequest, "invalid_grant", "the assertion is refused: "+err.Error())
			return
		}
	default:
		refuse(http.StatusBadRequest, "unsupported_grant_type", "the grant is not served here")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"access_token": e.issue(subject), "token_type": "Bearer", "expires_in": tokenLifetime / time.Second,
	})
}

func (e *TokenEndpoint) issue(subject string) string {
	token := randomText(32)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens[token] = issued{subject: subject, expiry: e.now().Add(tokenLifetime)}
	return token
}

// writeJSON writes a response that no cache keeps. document must have no values that JSON cannot represent.
func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // an error means that the client is gone
}

// A verifier verifies JWTs for an audience.
type verifier struct {
	key    crypto.PublicKey
	parser *jwt.Parser
}

// newVerifier returns a verifier of tokens with this algorithm only, so that an RSA public key cannot be used as an HMAC secret.
func newVerifier(algorithm jwt.SigningMethod, key crypto.PublicKey, audience string, now func() time.Time, more ...jwt.ParserOption) verifier {
	return verifier{key: key, parser: jwt.NewParser(append(more, jwt.WithValidMethods([]string{algorithm.Alg()}), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithStrictDecoding(), jwt.WithTimeFunc(now))...)}
}

// verify returns the sub of a token that is valid now.
func (v verifier) verify(token string) (subject string, err error) {
	claims := jwt.RegisteredClaims{}
	_, err = v.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return v.key, nil })
	return claims.Subject, err
}
