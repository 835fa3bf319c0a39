// Package server runs a real OAuth 2.0 authorization server on loopback, made from ory/fosite, and an API that
// accepts nothing but its access tokens, both over TLS. Nothing in it knows of Keywright: whoever gets a token here
// has spoken the protocols as somebody else reads them.
//
// It serves two grants. Client credentials (RFC 6749 section 4.4) requires client authentication. JWT bearer
// assertions (RFC 7523 section 2.1) are taken without, as section 3.1 allows; they must carry iss, sub, aud (the
// token endpoint), iat, exp and an unused jti, may live for MaxAssertionLife, and must be signed with a key that was
// registered for their issuer and subject.
package server

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v3"
	"github.com/go-jose/go-jose/v3/jwt"
	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/storage"
	"golang.org/x/crypto/bcrypt"
)

const (
	// TokenLife is how long an access token of the server is good: the expires_in of its answers, give or take the
	// second that fosite rounds away.
	TokenLife = time.Hour
	// MaxAssertionLife is how far an assertion's exp may lie after its iat.
	MaxAssertionLife = 5 * time.Minute
)

// Exchange is one request that reached the token endpoint, and what came of it.
type Exchange struct {
	GrantType string
	ClientID  string // as sent, whether or not it was authenticated
	Scope     string // as asked for
	Algorithm string // of the assertion's header; "" without an assertion
	Status    int    // of the HTTP answer
	Error     string // RFC 6749 section 5.2; "" when a token was given
}

// Caller is who an accepted access token speaks for. The API answers with it, as JSON.
type Caller struct {
	ClientID string   `json:"client_id"` // of a client credentials token
	Subject  string   `json:"subject"`   // of a JWT bearer token
	Scopes   []string `json:"scopes"`
}

// Server is an authorization server and an API that trusts it. It is safe for concurrent use.
type Server struct {
	TokenURL string         // the token endpoint, and the audience that assertions must name
	APIURL   string         // answers 200 and a Caller to a good bearer token, 401 to everything else
	Roots    *x509.CertPool // what the server's certificate is to be checked against

	provider fosite.OAuth2Provider

	// mu guards the store against registration while requests are served, for fosite keeps its locks to itself.
	mu    sync.RWMutex
	store *storage.MemoryStore

	seenMu    sync.Mutex // guards what follows
	exchanges []Exchange
	calls     int
}

// New starts a server that stops when the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{store: storage.NewMemoryStore()}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.serveToken)
	mux.HandleFunc("/api", s.serveAPI)
	listener := httptest.NewTLSServer(mux)
	t.Cleanup(listener.Close)
	s.TokenURL = listener.URL + "/token"
	s.APIURL = listener.URL + "/api"
	s.Roots = x509.NewCertPool()
	s.Roots.AddCert(listener.Certificate())

	config := &fosite.Config{
		TokenURL:                            s.TokenURL,
		AccessTokenLifespan:                 TokenLife,
		GlobalSecret:                        []byte(rand.Text() + rand.Text()),
		HashCost:                            bcrypt.MinCost,
		ScopeStrategy:                       fosite.ExactScopeStrategy,
		GrantTypeJWTBearerCanSkipClientAuth: true,
		GrantTypeJWTBearerMaxDuration:       MaxAssertionLife,
	}
	s.provider = compose.Compose(config, s.store, compose.NewOAuth2HMACStrategy(config),
		compose.OAuth2ClientCredentialsGrantFactory,
		compose.RFC7523AssertionGrantFactory,
		compose.OAuth2TokenIntrospectionFactory,
	)
	return s
}

// RegisterClient makes a confidential client that may use the client credentials grant with these scopes.
func (s *Server) RegisterClient(t testing.TB, id, secret string, scopes ...string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.MinCost)
	if err != nil {
		t.Fatalf("hash the secret of client %q: %v", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Clients[id] = &fosite.DefaultClient{
		ID:         id,
		Secret:     hash,
		GrantTypes: []string{"client_credentials"},
		Scopes:     scopes,
	}
}

// RegisterKey lets assertions of this issuer about this subject be signed with the private half of public: an
// *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey. An assertion whose header names no kid is tried with every
// key of its issuer and subject.
func (s *Server) RegisterKey(issuer, subject, kid string, public crypto.PublicKey, scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, ok := s.store.IssuerPublicKeys[issuer]
	if !ok {
		keys = storage.IssuerPublicKeys{Issuer: issuer, KeysBySub: map[string]storage.SubjectPublicKeys{}}
		s.store.IssuerPublicKeys[issuer] = keys
	}
	of, ok := keys.KeysBySub[subject]
	if !ok {
		of = storage.SubjectPublicKeys{Subject: subject, Keys: map[string]storage.PublicKeyScopes{}}
		keys.KeysBySub[subject] = of
	}
	of.Keys[kid] = storage.PublicKeyScopes{
		Key:    &jose.JSONWebKey{Key: public, KeyID: kid, Use: "sig"},
		Scopes: scopes,
	}
}

// Exchanges returns what reached the token endpoint so far, in the order of the answers.
func (s *Server) Exchanges() []Exchange {
	s.seenMu.Lock()
	defer s.seenMu.Unlock()
	return slices.Clone(s.exchanges)
}

// Calls counts the requests that reached the API so far, with a good token or without.
func (s *Server) Calls() int {
	s.seenMu.Lock()
	defer s.seenMu.Unlock()
	return s.calls
}

func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	defer s.mu.RUnlock()

	ctx := r.Context()
	request, err := s.provider.NewAccessRequest(ctx, r, &fosite.DefaultSession{})
	var response fosite.AccessResponder
	if err == nil {
		// fosite leaves it to the server to say yes: what was asked for, NewAccessRequest has checked.
		for _, scope := range request.GetRequestedScopes() {
			request.GrantScope(scope)
		}
		response, err = s.provider.NewAccessResponse(ctx, request)
	}

	exchange := Exchange{
		GrantType: r.PostForm.Get("grant_type"),
		ClientID:  r.PostForm.Get("client_id"),
		Scope:     r.PostForm.Get("scope"),
		Algorithm: algorithmOf(r.PostForm.Get("assertion")),
		Status:    http.StatusOK,
	}
	if id, _, ok := r.BasicAuth(); ok {
		exchange.ClientID = id
	}
	if err != nil {
		refusal := fosite.ErrorToRFC6749Error(err)
		exchange.Status, exchange.Error = refusal.CodeField, refusal.ErrorField
	}
	// Recorded before the answer goes out, so that who has the answer finds the exchange.
	s.seenMu.Lock()
	s.exchanges = append(s.exchanges, exchange)
	s.seenMu.Unlock()

	if err != nil {
		s.provider.WriteAccessError(ctx, w, request, err)
		return
	}
	s.provider.WriteAccessResponse(ctx, w, request, response)
}

// serveAPI takes the token from the Authorization header only, though fosite would also look into the query.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	defer s.mu.RUnlock()

	s.seenMu.Lock()
	s.calls++
	s.seenMu.Unlock()

	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return
	}
	session := &fosite.DefaultSession{}
	_, request, err := s.provider.IntrospectToken(r.Context(), token, fosite.AccessToken, session)
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "the bearer token is not active", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A write that fails shows in the client.
	_ = json.NewEncoder(w).Encode(Caller{
		ClientID: request.GetClient().GetID(),
		Subject:  request.GetSession().GetSubject(),
		Scopes:   request.GetGrantedScopes(),
	})
}

func algorithmOf(assertion string) string {
	token, err := jwt.ParseSigned(assertion)
	if err != nil {
		return ""
	}
	return token.Headers[0].Algorithm
}
