package browser

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
	// tokenLife is the lifetime of an access token. The expires_in of an answer may be a second less, because fosite rounds.
	tokenLife = time.Hour
	// maxAssertionLife is the maximum time between an assertion's iat and exp.
	maxAssertionLife = 5 * time.Minute
)

// authExchange is a request to the token endpoint, and its result.
type authExchange struct {
	GrantType string
	// ClientID is the client ID in the request, authenticated or not.
	ClientID string
	// Scope is the requested scope.
	Scope string
	// Algorithm is the alg of the assertion, or "" without an assertion.
	Algorithm string
	// Status is the HTTP status of the answer.
	Status int
	// Error is the error code of RFC 6749 section 5.2, or "" if the request succeeded.
	Error string
}

// authCaller is the owner of an access token. The API returns it as JSON.
type authCaller struct {
	// ClientID is set for a token from the client credentials grant.
	ClientID string `json:"client_id"`
	// Subject is set for a token from the JWT bearer grant.
	Subject string   `json:"subject"`
	Scopes  []string `json:"scopes"`
	// Audience is the audience that was requested.
	Audience []string `json:"audience"`
}

// An authServer is a real OAuth 2.0 authorization server, made from ory/fosite, and an API that accepts only its access tokens. Both are
// served over TLS on loopback. It does not use Keywright, so a client that gets a token follows the protocols as an independent
// implementation understands them. It is safe for concurrent use.
//
// The server supports three grants. The client credentials grant (RFC 6749 section 4.4) and the password grant (section 4.3)
// require client authentication. The JWT bearer grant (RFC 7523 section 2.1) does not, as section 3.1 allows. Its assertions
// must have iss, sub, aud (the token endpoint), iat, exp and an unused jti. They are valid for at most maxAssertionLife, and
// must be signed with a key that is registered for their issuer and subject.
type authServer struct {
	// TokenURL is the URL of the token endpoint, and the audience of assertions.
	TokenURL string
	// APIURL is the URL of the API. It answers a valid bearer token with 200 and a authCaller, and everything else with 401.
	APIURL string
	// Roots has the certificate of the server.
	Roots *x509.CertPool

	provider fosite.OAuth2Provider

	// mu is held while a request is answered, and guards all below. The locks of fosite's store are not exported.
	mu        sync.Mutex
	store     *storage.MemoryStore
	exchanges []authExchange
	calls     int
}

// newAuthServer starts a server that stops when the test ends.
func newAuthServer(t testing.TB) *authServer {
	t.Helper()
	s := &authServer{store: storage.NewMemoryStore()}

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
		AccessTokenLifespan:                 tokenLife,
		GlobalSecret:                        []byte(rand.Text() + rand.Text()),
		HashCost:                            bcrypt.MinCost,
		ScopeStrategy:                       fosite.ExactScopeStrategy,
		GrantTypeJWTBearerCanSkipClientAuth: true,
		GrantTypeJWTBearerMaxDuration:       maxAssertionLife,
	}
	s.provider = compose.Compose(config, s.store, compose.NewOAuth2HMACStrategy(config),
		compose.OAuth2ClientCredentialsGrantFactory,
		compose.OAuth2ResourceOwnerPasswordCredentialsFactory, //nolint:staticcheck // the grant is discouraged, and still in use
		compose.RFC7523AssertionGrantFactory,
		compose.OAuth2TokenIntrospectionFactory,
	)
	return s
}

// authAudiences are the audiences that clients may request.
var authAudiences = []string{"https://api.example.com"}

// RegisterClient registers a confidential client that may use the client credentials grant and the password grant with these scopes.
func (s *authServer) RegisterClient(t testing.TB, id, secret string, scopes ...string) {
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
		GrantTypes: []string{"client_credentials", "password"},
		Scopes:     scopes,
		Audience:   authAudiences,
	}
}

// RegisterKeyClient registers a client that authenticates with an assertion that it signs with an algorithm (RFC 7523 section
// 2.2), and with nothing else.
func (s *authServer) RegisterKeyClient(id, kid, algorithm string, public crypto.PublicKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Clients[id] = &fosite.DefaultOpenIDConnectClient{
		DefaultClient:                     &fosite.DefaultClient{ID: id, GrantTypes: []string{"client_credentials"}},
		JSONWebKeys:                       &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: kid, Use: "sig", Algorithm: algorithm}}},
		TokenEndpointAuthMethod:           "private_key_jwt",
		TokenEndpointAuthSigningAlgorithm: algorithm,
	}
}

// RegisterUser registers a user for the password grant.
func (s *authServer) RegisterUser(name, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Users[name] = storage.MemoryUserRelation{Username: name, Password: password}
}

// RegisterKey registers a key for verifying assertions of an issuer and subject. The key is an *rsa.PublicKey,
// *ecdsa.PublicKey or ed25519.PublicKey. The server verifies an assertion without a kid with every key of its issuer and
// subject.
func (s *authServer) RegisterKey(issuer, subject, kid string, public crypto.PublicKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, ok := s.store.IssuerPublicKeys[issuer]
	if !ok {
		keys = storage.IssuerPublicKeys{Issuer: issuer, KeysBySub: map[string]storage.SubjectPublicKeys{}}
		s.store.IssuerPublicKeys[issuer] = keys
	}
	keysOfSubject, ok := keys.KeysBySub[subject]
	if !ok {
		keysOfSubject = storage.SubjectPublicKeys{Subject: subject, Keys: map[string]storage.PublicKeyScopes{}}
		keys.KeysBySub[subject] = keysOfSubject
	}
	keysOfSubject.Keys[kid] = storage.PublicKeyScopes{Key: &jose.JSONWebKey{Key: public, KeyID: kid, Use: "sig"}}
}

// Exchanges returns the requests to the token endpoint so far, in the order of the answers.
func (s *authServer) Exchanges() []authExchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.exchanges)
}

// Calls returns the number of requests to the API so far, with a valid token or without.
func (s *authServer) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *authServer) serveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := r.Context()
	request, err := s.provider.NewAccessRequest(ctx, r, &fosite.DefaultSession{})
	var response fosite.AccessResponder
	if err == nil {
		// fosite leaves granting the scopes to the server. NewAccessRequest has checked that they are allowed.
		for _, scope := range request.GetRequestedScopes() {
			request.GrantScope(scope)
		}
		for _, audience := range request.GetRequestedAudience() {
			request.GrantAudience(audience)
		}
		response, err = s.provider.NewAccessResponse(ctx, request)
	}

	exchange := authExchange{
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
		s.provider.WriteAccessError(ctx, w, request, err)
	} else {
		s.provider.WriteAccessResponse(ctx, w, request, response)
	}
	s.exchanges = append(s.exchanges, exchange)
}

// serveAPI serves the API. It accepts the token in the Authorization header only. fosite would accept it in the query, too.
func (s *authServer) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
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
	// If the write fails, the client reports it.
	_ = json.NewEncoder(w).Encode(authCaller{
		ClientID: request.GetClient().GetID(),
		Subject:  request.GetSession().GetSubject(),
		Scopes:   request.GetGrantedScopes(),
		Audience: request.GetGrantedAudience(),
	})
}

func algorithmOf(assertion string) string {
	token, err := jwt.ParseSigned(assertion)
	if err != nil {
		return ""
	}
	return token.Headers[0].Algorithm
}
