package demo

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"
)

// Grants that a TokenEndpoint knows.
const (
	GrantClientCredentials = "client_credentials"                          // RFC 6749 section 4.4
	GrantJWTBearer         = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523 section 2.1
)

const (
	maxForm    = 64 << 10 // bytes
	tokenBytes = 32       // of randomness in an access token
)

// TokenEndpoint is an OAuth 2.0 token endpoint, RFC 6749 section 3.2, for one client. It serves whatever path it is
// mounted at. It is safe for concurrent use; its fields are set before.
type TokenEndpoint struct {
	ClientID, ClientSecret string        // for GrantClientCredentials, in the form or by HTTP Basic; an empty secret fits nothing
	Assertions             *Verifier     // for GrantJWTBearer; nil refuses the grant
	Lifetime               time.Duration // of the tokens: expires_in is its whole seconds
	Now                    func() time.Time
	Rand                   io.Reader // a bad one makes guessable tokens

	mu        sync.Mutex
	tokens    map[string]issued
	exchanges int
}

type issued struct {
	subject string
	expiry  time.Time
}

// Exchanges is the number of tokens issued so far.
func (e *TokenEndpoint) Exchanges() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exchanges
}

// Subject returns whom a token was issued for: the client, or the sub of the assertion. It is false for a token that
// was not issued here, is expired, or was revoked.
func (e *TokenEndpoint) Subject(token string) (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.tokens[token]
	if !ok || !e.Now().Before(t.expiry) {
		return "", false
	}
	return t.subject, true
}

// RevokeAll makes every token issued so far invalid, as servers do when they lose their sessions.
func (e *TokenEndpoint) RevokeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens = nil
}

// refusal is an error answer, RFC 6749 section 5.2.
type refusal struct {
	status    int
	code      string
	reason    string // becomes error_description; holds nothing of what was sent
	challenge string // becomes WWW-Authenticate
}

func invalidRequest(reason string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "invalid_request", reason: reason}
}

// ServeHTTP answers a token request.
func (e *TokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	form, refused := readForm(w, r)
	if refused != nil {
		refused.write(w)
		return
	}
	subject, refused := e.grant(r, form)
	if refused != nil {
		refused.write(w)
		return
	}
	scope := form.Get("scope")
	if scope != "" && !scopeSyntax.MatchString(scope) {
		(&refusal{status: http.StatusBadRequest, code: "invalid_scope", reason: "scope is not a list of names with single spaces"}).write(w)
		return
	}
	token, err := e.issue(subject)
	if err != nil {
		(&refusal{status: http.StatusInternalServerError, code: "server_error", reason: "there is no randomness"}).write(w)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int64  `json:"expires_in"`
		Scope       string `json:"scope,omitempty"`
	}{token, "Bearer", int64(e.Lifetime / time.Second), scope})
}

// scopeSyntax is that of RFC 6749 section 3.3.
var scopeSyntax = regexp.MustCompile(`^[!#-\[\]-~]+( [!#-\[\]-~]+)*$`)

// readForm takes the parameters from the body, and only there: in the URL they would end up in logs (RFC 6749
// section 2.3.1).
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

// grant checks what the client shows, and gives the subject of the token that it is to get.
func (e *TokenEndpoint) grant(r *http.Request, form url.Values) (string, *refusal) {
	switch form.Get("grant_type") {
	case "":
		return "", invalidRequest("there is no grant_type")
	case GrantClientCredentials:
		return e.ClientID, e.authenticate(r, form)
	case GrantJWTBearer:
		if e.Assertions != nil {
			return e.assertion(r, form)
		}
	}
	return "", &refusal{status: http.StatusBadRequest, code: "unsupported_grant_type", reason: "the grant is not served here"}
}

// assertion checks the assertion, RFC 7523 section 3. The client need not authenticate, but if it does, it has to be right
// (RFC 7521 section 4.1).
func (e *TokenEndpoint) assertion(r *http.Request, form url.Values) (string, *refusal) {
	if r.Header.Get("Authorization") != "" || form.Has("client_secret") {
		if refused := e.authenticate(r, form); refused != nil {
			return "", refused
		}
	}
	assertion := form.Get("assertion")
	if assertion == "" {
		return "", invalidRequest("there is no assertion")
	}
	claims, err := e.Assertions.Verify(assertion)
	if err != nil {
		return "", &refusal{status: http.StatusBadRequest, code: "invalid_grant", reason: "the assertion is refused: " + err.Error()}
	}
	subject, err := claims.GetSubject()
	if err != nil || subject == "" {
		return "", &refusal{status: http.StatusBadRequest, code: "invalid_grant", reason: "the assertion is refused: there is no sub"}
	}
	return subject, nil
}

// authenticate checks the client's id and secret, in the form or by HTTP Basic, RFC 6749 section 2.3.1.
func (e *TokenEndpoint) authenticate(r *http.Request, form url.Values) *refusal {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	refused := &refusal{status: http.StatusUnauthorized, code: "invalid_client", reason: "the client is unknown, or its secret is wrong"}
	if r.Header.Get("Authorization") != "" {
		if form.Has("client_secret") {
			return invalidRequest("the client authenticates in two ways")
		}
		refused.challenge = `Basic realm="token"`
		var ok bool
		if id, secret, ok = basicClient(r); !ok || form.Has("client_id") && form.Get("client_id") != id {
			return refused
		}
	}
	known := equal(id, e.ClientID)
	if right := equal(secret, e.ClientSecret); !known || !right || e.ClientSecret == "" {
		return refused
	}
	return nil
}

// basicClient reads the header. Unlike elsewhere, OAuth encodes id and secret as a form does before it joins them.
func basicClient(r *http.Request) (id, secret string, ok bool) {
	rawID, rawSecret, ok := r.BasicAuth()
	if !ok {
		return "", "", false
	}
	id, idErr := url.QueryUnescape(rawID)
	secret, secretErr := url.QueryUnescape(rawSecret)
	return id, secret, idErr == nil && secretErr == nil
}

// equal compares in a time that tells nothing of either text, not even its length.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// issue makes a token and remembers it.
func (e *TokenEndpoint) issue(subject string) (string, error) {
	random := make([]byte, tokenBytes)
	if _, err := io.ReadFull(e.Rand, random); err != nil {
		return "", err
	}
	token := base64.RawURLEncoding.EncodeToString(random)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	maps.DeleteFunc(e.tokens, func(_ string, t issued) bool { return !now.Before(t.expiry) })
	if e.tokens == nil {
		e.tokens = map[string]issued{}
	}
	e.tokens[token] = issued{subject: subject, expiry: now.Add(e.Lifetime.Truncate(time.Second))}
	e.exchanges++
	return token, nil
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

// writeJSON answers with a document that has no values JSON could not hold.
func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client is gone, if this fails
}
