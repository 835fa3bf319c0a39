package demo

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	grantClientCredentials = "client_credentials"                          // RFC 6749 section 4.4
	grantJWTBearer         = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523 section 2.1

	maxForm = 64 << 10 // bytes
)

// A TokenEndpoint is an OAuth 2.0 token endpoint (RFC 6749 section 3.2) for one client. It is safe for concurrent use.
type TokenEndpoint struct {
	// clientID and clientSecret authenticate the client for grantClientCredentials, in the form or by HTTP Basic.
	clientID, clientSecret string
	// assertions verifies those of grantJWTBearer.
	assertions *verifier
	now        func() time.Time

	mu        sync.Mutex
	tokens    map[string]issued
	exchanges int
}

type issued struct {
	subject string
	expiry  time.Time
}

func newTokenEndpoint(k Keys, address string, now func() time.Time) *TokenEndpoint {
	assertions := &verifier{algorithm: "RS256", key: &k.RSA.PublicKey, issuer: k.ClientID, audience: address, now: now, expiries: map[string]time.Time{}}
	return &TokenEndpoint{clientID: k.ClientID, clientSecret: k.ClientSecret, assertions: assertions, now: now, tokens: map[string]issued{}}
}

// Exchanges returns the number of tokens issued so far.
func (e *TokenEndpoint) Exchanges() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exchanges
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

// A refusal is an error response (RFC 6749 section 5.2).
type refusal struct {
	status int
	code   string
	// reason is the error_description. It contains nothing from the request.
	reason string
	// challenge is the value of WWW-Authenticate, or "".
	challenge string
}

func badRequest(code, reason string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, reason: reason}
}

func invalidRequest(reason string) *refusal { return badRequest("invalid_request", reason) }

// ServeHTTP answers a token request.
func (e *TokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	form, rejection := readForm(w, r)
	subject := ""
	if rejection == nil {
		subject, rejection = e.grant(r, form)
	}
	scope := form.Get("scope")
	if rejection == nil && scope != "" && !scopeSyntax.MatchString(scope) {
		rejection = badRequest("invalid_scope", "scope is not a list of names with single spaces")
	}
	if rejection != nil {
		rejection.write(w)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int64  `json:"expires_in"`
		Scope       string `json:"scope,omitempty"`
	}{e.issue(subject), "Bearer", int64(tokenLifetime / time.Second), scope})
}

// scopeSyntax matches a scope (RFC 6749 section 3.3).
var scopeSyntax = regexp.MustCompile(`^[!#-\[\]-~]+( [!#-\[\]-~]+)*$`)

// readForm reads the body. Parameters in the URL, which end up in logs, are refused (RFC 6749 section 2.3.1).
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, *refusal) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &refusal{status: http.StatusMethodNotAllowed, code: "invalid_request", reason: "only POST is served"}
	}
	if r.URL.RawQuery != "" {
		return nil, invalidRequest("parameters belong into the body")
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return nil, invalidRequest("the content type is not application/x-www-form-urlencoded")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, invalidRequest("the body is not a form, or too large")
	}
	for _, values := range r.PostForm {
		if len(values) > 1 { // RFC 6749 section 3.2
			return nil, invalidRequest("a parameter is there twice")
		}
	}
	return r.PostForm, nil
}

// grant checks the client's credentials or assertion, and returns the subject of its token.
func (e *TokenEndpoint) grant(r *http.Request, form url.Values) (string, *refusal) {
	switch form.Get("grant_type") {
	case "":
		return "", invalidRequest("there is no grant_type")
	case grantClientCredentials:
		return e.clientID, e.authenticate(r, form)
	case grantJWTBearer:
		return e.assertion(r, form)
	}
	return "", badRequest("unsupported_grant_type", "the grant is not served here")
}

// assertion checks the assertion (RFC 7523 section 3) and returns its sub. The client need not authenticate, but if it does, its
// credentials must be correct (RFC 7521 section 4.1).
func (e *TokenEndpoint) assertion(r *http.Request, form url.Values) (string, *refusal) {
	if r.Header.Get("Authorization") != "" || form.Has("client_secret") {
		if rejection := e.authenticate(r, form); rejection != nil {
			return "", rejection
		}
	}
	assertion := form.Get("assertion")
	if assertion == "" {
		return "", invalidRequest("there is no assertion")
	}
	subject, err := e.assertions.verify(assertion)
	if err != nil {
		return "", badRequest("invalid_grant", "the assertion is refused: "+err.Error())
	}
	return subject, nil
}

// authenticate checks the client's ID and secret, in the form or by HTTP Basic (RFC 6749 section 2.3.1).
func (e *TokenEndpoint) authenticate(r *http.Request, form url.Values) *refusal {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	rejection := &refusal{status: http.StatusUnauthorized, code: "invalid_client", reason: "the client is unknown, or its secret is wrong"}
	if r.Header.Get("Authorization") != "" {
		if form.Has("client_secret") {
			return invalidRequest("the client authenticates in two ways")
		}
		rejection.challenge = `Basic realm="token"`
		rawID, rawSecret, _ := r.BasicAuth() // in OAuth, unlike elsewhere, both are form-encoded before they are joined
		var errID, errSecret error
		id, errID = url.QueryUnescape(rawID)
		secret, errSecret = url.QueryUnescape(rawSecret)
		if errID != nil || errSecret != nil || form.Has("client_id") && form.Get("client_id") != id {
			return rejection
		}
	}
	idMatches := equal(id, e.clientID)
	if secretMatches := equal(secret, e.clientSecret); !idMatches || !secretMatches {
		return rejection
	}
	return nil
}

// equal reports whether a and b are equal, in a time that does not depend on their content or on how they differ.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func (e *TokenEndpoint) issue(subject string) string {
	token := randomText(32)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	maps.DeleteFunc(e.tokens, func(_ string, t issued) bool { return !now.Before(t.expiry) })
	e.tokens[token] = issued{subject: subject, expiry: now.Add(tokenLifetime)}
	e.exchanges++
	return token
}

func (f *refusal) write(w http.ResponseWriter) {
	if f.challenge != "" {
		w.Header().Set("WWW-Authenticate", f.challenge)
	}
	writeJSON(w, f.status, struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{f.code, f.reason})
}

// writeJSON writes a response. document must have no values that JSON cannot represent.
func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // an error means that the client is gone
}

// maxLifetime limits the time from iat to exp that a verifier accepts.
const maxLifetime = 5 * time.Minute

// A verifier verifies JWTs like a careful server (RFC 8725). It is safe for concurrent use.
type verifier struct {
	// algorithm is the only alg of tokens, so that an RSA public key cannot be used as an HMAC secret.
	algorithm string
	key       crypto.PublicKey
	// issuer is the iss of assertions, which need a sub. If it is empty, neither is required.
	issuer   string
	audience string
	now      func() time.Time

	mu sync.Mutex
	// expiries maps each jti to the exp of its token.
	expiries map[string]time.Time
}

// verify returns the sub of a token for this audience that is valid now, with exp and iat at most maxLifetime apart. A
// token with a jti is accepted once. Errors name the wrong claims without their values.
func (v *verifier) verify(token string) (subject string, err error) {
	options := []jwt.ParserOption{
		jwt.WithStrictDecoding(), jwt.WithTimeFunc(v.now), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithAudience(v.audience),
	}
	if v.issuer != "" {
		options = append(options, jwt.WithIssuer(v.issuer))
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.NewParser(options...).ParseWithClaims(token, claims, v.keyOf); err != nil {
		return "", reason(err)
	}
	expiry, _ := claims.GetExpirationTime() // the parser has checked that it is there, and that both are times
	switch issuedAt, _ := claims.GetIssuedAt(); {
	case issuedAt == nil:
		return "", errors.New("there is no iat")
	case expiry.Sub(issuedAt.Time) > maxLifetime:
		return "", fmt.Errorf("it lives longer than %s", maxLifetime)
	}
	subject, err = claims.GetSubject()
	if err != nil || subject == "" && v.issuer != "" {
		return "", errors.New("there is no sub, or it is not a text")
	}
	return subject, v.once(claims, expiry.Time)
}

func (v *verifier) keyOf(token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errCrit // RFC 7515 section 4.1.11: no extension is supported
	}
	if token.Method.Alg() != v.algorithm {
		return nil, errAlgorithm
	}
	return v.key, nil
}

var errCrit, errAlgorithm = errors.New("the header has crit"), errors.New("its algorithm is not allowed")

// once stores the token's jti until the token expires, and returns an error if it was used before.
func (v *verifier) once(claims jwt.MapClaims, expiry time.Time) error {
	value, ok := claims["jti"]
	if !ok {
		return nil
	}
	id, ok := value.(string)
	if !ok || id == "" {
		return errors.New("jti is not a text")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	maps.DeleteFunc(v.expiries, func(_ string, expiry time.Time) bool { return !now.Before(expiry) })
	if _, ok := v.expiries[id]; ok {
		return errors.New("jti was used before")
	}
	v.expiries[id] = expiry
	return nil
}

// reason replaces an error of the library, because some of these quote the token.
func reason(err error) error {
	for _, r := range []struct {
		is   error
		text string
	}{
		{errCrit, errCrit.Error()},
		{errAlgorithm, errAlgorithm.Error()},
		{jwt.ErrTokenMalformed, "it is not a JWT"},
		{jwt.ErrTokenSignatureInvalid, "its signature is wrong"},
		{jwt.ErrTokenRequiredClaimMissing, "exp, aud or iss is missing"},
		{jwt.ErrTokenInvalidAudience, "aud is not this server"},
		{jwt.ErrTokenInvalidIssuer, "iss is unknown"},
		{jwt.ErrTokenExpired, "it is expired"},
		{jwt.ErrTokenUsedBeforeIssued, "iat is in the future"},
		{jwt.ErrTokenNotValidYet, "nbf is in the future"},
		{jwt.ErrInvalidType, "a claim has the wrong type"},
	} {
		if errors.Is(err, r.is) {
			return errors.New(r.text)
		}
	}
	return errors.New("it cannot be checked")
}
