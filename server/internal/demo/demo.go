// Package demo implements a token endpoint and an API that check the requests they receive, like those of other
// companies, for `keywright demo` and for tests. It shares no code with the host, so that it checks independently.
package demo

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// tokenLifetime is the lifetime of access tokens, which plugins assume, too.
const tokenLifetime = time.Hour

// Keys holds the credentials of one run, which connectors use and servers check.
type Keys struct {
	// ClientID is also the iss of assertions.
	ClientID, ClientSecret, APIKey string
	// RSA signs assertions with RS256, and EC JWTs for the API with ES256. Both are in PEM.
	RSA, EC             string
	publicRSA, publicEC crypto.PublicKey
}

// NewKeys generates Keys. Those of RSA are the same for one process.
func NewKeys() (k Keys, err error) {
	k = Keys{ClientID: "demo-client", ClientSecret: randomText(24), APIKey: randomText(24)}
	if k.RSA, k.publicRSA, err = testworld.NewKey("RS256"); err == nil {
		k.EC, k.publicEC, err = testworld.NewKey("ES256")
	}
	return k, err
}

func randomText(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // which never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// Servers holds a running token endpoint and API. Each listens on its own port of 127.0.0.1, with plain HTTP.
type Servers struct {
	// TokenURL is the URL of the token endpoint. It is also the audience of assertions.
	TokenURL string
	// APIURL is the root of the API, without a slash at the end. It is also the audience of its JWTs.
	APIURL   string
	Endpoint *TokenEndpoint
	API      *API

	servers []*http.Server
}

// Start starts both servers, with the clock now. The caller must close them.
func Start(ctx context.Context, k Keys, now func() time.Time) (*Servers, error) {
	tokens, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	api, err := listen(ctx)
	if err != nil {
		return nil, errors.Join(err, tokens.Close())
	}
	s := &Servers{TokenURL: "http://" + tokens.Addr().String() + "/token", APIURL: "http://" + api.Addr().String()}
	s.Endpoint = newTokenEndpoint(k, s.TokenURL, now)
	s.API = newAPI(k, s.Endpoint, s.APIURL, now)
	s.serve(tokens, s.Endpoint)
	s.serve(api, s.API)
	return s, nil
}

func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

func (s *Servers) serve(listener net.Listener, handler http.Handler) {
	silence := log.New(io.Discard, "", 0) // of errors about clients that went away
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: silence}
	s.servers = append(s.servers, server)
	go func() { _ = server.Serve(listener) }() // returns http.ErrServerClosed; other errors show in the clients
}

// Close stops both servers, and cuts off their requests.
func (s *Servers) Close() error {
	return errors.Join(s.servers[0].Close(), s.servers[1].Close())
}

// Paths of an [API], each with the credential that it requires, and the names of API keys.
const (
	PathNone         = "/none"           // no credential
	PathAPIKeyHeader = "/api-key-header" // the header APIKeyHeader
	PathAPIKeyQuery  = "/api-key-query"  // the query parameter APIKeyParameter
	PathBearer       = "/bearer"         // Authorization: Bearer, with a token of the token endpoint
	PathJWT          = "/jwt"            // Authorization: Bearer, with a JWT

	APIKeyHeader    = "X-Api-Key"
	APIKeyParameter = "api_key"
)

const maxRecords = 1024

// An API is an external API that checks a different kind of credential at each path. The response is JSON with the member "ok". An
// API is safe for concurrent use.
type API struct {
	key    string
	tokens *TokenEndpoint
	jwt    verifier

	mu       sync.Mutex
	received []Received
}

func newAPI(k Keys, tokens *TokenEndpoint, address string, now func() time.Time) *API {
	return &API{key: k.APIKey, tokens: tokens, jwt: newVerifier(jwt.SigningMethodES256, k.publicEC, address, now)}
}

// Received is a request that an [API] received, with masked credentials.
type Received struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Headers and Query are sorted by name.
	Headers []Field `json:"headers"`
	Query   []Field `json:"query,omitempty"`
	// JWT is the decoded JWT in the Authorization header, or nil if there was none.
	JWT *Decoded `json:"jwt,omitempty"`
	// Status is the status of the response.
	Status int `json:"status"`
}

// Field is a header or a query parameter.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Decoded is a JWT without its signature. It need not be valid.
type Decoded struct {
	Header json.RawMessage `json:"header"`
	Claims json.RawMessage `json:"claims"`
}

// Received returns the last 1024 requests, the oldest first.
func (a *API) Received() []Received {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.received)
}

// ServeHTTP checks a request and records it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		OK   bool   `json:"ok"`
		Path string `json:"path"`
		// Subject is the subject of the credential.
		Subject string `json:"subject,omitempty"`
		Error   string `json:"error,omitempty"`
	}{Path: r.URL.Path}
	status := http.StatusOK
	subject, err := a.check(r)
	switch {
	case errors.Is(err, errPath):
		status, answer.Error = http.StatusNotFound, err.Error()
	case err != nil:
		status, answer.Error = http.StatusUnauthorized, "the credential is refused: "+err.Error()
		w.Header().Set("WWW-Authenticate", `ApiKey realm="api", Bearer realm="api"`) // RFC 9110 requires a challenge with each 401
	default:
		answer.OK, answer.Subject = true, subject
	}
	a.record(r, status)
	writeJSON(w, status, answer)
}

var errPath = errors.New("there is no such path")

// check checks the credential that the path requires, and returns its subject.
func (a *API) check(r *http.Request) (subject string, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		token = "" // which no path accepts
	}
	key := r.Header.Get(APIKeyHeader)
	switch r.URL.Path {
	case PathNone:
		return "", nil
	case PathBearer:
		return a.tokens.subject(token)
	case PathJWT:
		return a.jwt.verify(token)
	case PathAPIKeyQuery:
		key = r.URL.Query().Get(APIKeyParameter)
		fallthrough
	case PathAPIKeyHeader:
		if !hmac.Equal([]byte(key), []byte(a.key)) {
			return "", errors.New("the API key is wrong")
		}
		return "", nil
	}
	return "", errPath
}

// record appends a masked copy of a request to a.received.
func (a *API) record(r *http.Request, status int) {
	one := Received{Method: r.Method, Path: r.URL.Path, Headers: a.fields(r.Header), Query: a.fields(r.URL.Query()), Status: status}
	if _, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		one.JWT = decode(token)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = append(a.received, one)
	if len(a.received) > maxRecords {
		a.received = a.received[1:]
	}
}

// fields returns headers or parameters. It masks what is a credential by its name, or contains the API key. Authorization keeps
// its scheme.
func (a *API) fields(values map[string][]string) []Field {
	var fields []Field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			scheme, rest, ok := strings.Cut(value, " ")
			switch {
			case name == "Authorization" && ok:
				value = scheme + " " + mask(rest)
			case name == "Authorization", name == APIKeyHeader, name == APIKeyParameter, strings.Contains(value, a.key):
				value = mask(value)
			}
			fields = append(fields, Field{name, value})
		}
	}
	return fields
}

// mask returns the first four characters of a credential and its length in characters. If it has fewer than 16 characters, mask
// returns only the length, because four characters would reveal too much.
func mask(credential string) string {
	const prefixLen, enough = 4, 16
	length := utf8.RuneCountInString(credential)
	if length < enough {
		return fmt.Sprintf("… (%d characters)", length)
	}
	return fmt.Sprintf("%s… (%d characters)", string([]rune(credential)[:prefixLen]), length)
}

// decode returns the header and claims of a JWT, without verifying it. It returns nil if token is not a JWT.
func decode(token string) *Decoded {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	header, headerErr := base64.RawURLEncoding.DecodeString(parts[0])
	claims, claimsErr := base64.RawURLEncoding.DecodeString(parts[1])
	if headerErr != nil || claimsErr != nil || !json.Valid(header) || !json.Valid(claims) {
		return nil
	}
	return &Decoded{Header: header, Claims: claims}
}
