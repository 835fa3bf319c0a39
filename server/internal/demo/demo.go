// Package demo implements a token endpoint and an API that check the requests they receive, like those of other
// companies, for `keywright demo` and for tests. It shares no code with the host, so that it checks independently.
package demo

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// tokenLifetime is the lifetime of access tokens, which plugins assume, too.
const tokenLifetime = time.Hour

// Keys holds the credentials of one run, which connectors use and servers check.
type Keys struct {
	// ClientID is also the iss of assertions.
	ClientID, ClientSecret, APIKey string
	// RSA signs assertions with RS256.
	RSA *rsa.PrivateKey
	// EC is a P-256 key that signs JWTs for the API with ES256.
	EC *ecdsa.PrivateKey
}

// NewKeys generates Keys.
func NewKeys() (Keys, error) {
	rsaKey, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, errEC := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	k := Keys{ClientID: "demo-client", ClientSecret: randomText(24), APIKey: randomText(24), RSA: rsaKey, EC: ecKey}
	return k, errors.Join(errRSA, errEC)
}

func randomText(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // which never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// PEM returns the RSA and the EC private key as PEM, PKCS#8.
func (k Keys) PEM() (rsa, ec string) {
	encode := func(key crypto.PrivateKey) string {
		der, _ := x509.MarshalPKCS8PrivateKey(key) // the keys are of known types
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	return encode(k.RSA), encode(k.EC)
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
	done    sync.WaitGroup
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
	endpoint := http.NewServeMux()
	endpoint.Handle("/token", s.Endpoint)
	s.serve(tokens, endpoint)
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
	s.done.Go(func() { _ = server.Serve(listener) }) // returns http.ErrServerClosed; other errors show in the clients
}

// Close stops both servers. Requests that have not ended after a second are cut off.
func (s *Servers) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			errs = append(errs, server.Close())
		}
	}
	s.done.Wait()
	return errors.Join(errs...)
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

const maxRecords, maxBody = 1024, 1 << 20

// An API is an external API that checks a different kind of credential at each path. A request must have the credential of its
// path once, and no other. The response is JSON with the member "ok". An API is safe for concurrent use.
type API struct {
	key    string
	tokens *TokenEndpoint
	jwt    *verifier

	mu       sync.Mutex
	received []Received
}

func newAPI(k Keys, tokens *TokenEndpoint, address string, now func() time.Time) *API {
	return &API{key: k.APIKey, tokens: tokens, jwt: &verifier{algorithm: "ES256", key: &k.EC.PublicKey, audience: address, now: now, expiries: map[string]time.Time{}}}
}

// Received is a request that an [API] received, with masked credentials.
type Received struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Headers are sorted by name.
	Headers []Field `json:"headers"`
	// Query has the parameters in the order of the URL.
	Query []Field `json:"query,omitempty"`
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

type answer struct {
	status    int
	challenge string
	body      body
}

type body struct {
	OK   bool   `json:"ok"`
	Path string `json:"path"`
	// Subject is the subject of the credential.
	Subject string `json:"subject,omitempty"`
	Error   string `json:"error,omitempty"`
}

func refuse(status int, challenge, reason string) answer {
	return answer{status: status, challenge: challenge, body: body{Error: reason}}
}

// ServeHTTP checks a request and records it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxBody)) // the body is not checked, and may be incomplete
	reply := a.check(r)
	reply.body.Path = r.URL.Path
	a.record(r, reply.status)
	w.Header().Set("Cache-Control", "no-store")
	if reply.challenge != "" {
		w.Header().Set("WWW-Authenticate", reply.challenge)
	}
	writeJSON(w, reply.status, reply.body)
}

func (a *API) check(r *http.Request) answer {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refuse(http.StatusBadRequest, "", "the query is malformed")
	}
	expected, verify := "", func(string) answer { return answer{status: http.StatusOK, body: body{OK: true}} }
	switch r.URL.Path {
	case PathNone:
	case PathAPIKeyHeader:
		expected, verify = APIKeyHeader, a.checkKey
	case PathAPIKeyQuery:
		expected, verify = APIKeyParameter, a.checkKey
	case PathBearer:
		expected, verify = "Authorization", bearer(a.tokens.subject)
	case PathJWT:
		expected, verify = "Authorization", bearer(a.jwt.verify)
	default:
		return refuse(http.StatusNotFound, "", "there is no such path")
	}
	found := credentials(r.Header, query)
	for name, values := range found {
		switch {
		case name != expected:
			return refuse(http.StatusBadRequest, "", "there is a credential in "+name+", which is not for this path")
		case len(values) > 1:
			return refuse(http.StatusBadRequest, "", name+" is there twice")
		}
	}
	if expected == "" {
		return verify("")
	}
	if len(found) == 0 { // RFC 9110 requires a challenge with each 401
		challenge := map[bool]string{true: bearerChallenge, false: keyChallenge}[expected == "Authorization"]
		return refuse(http.StatusUnauthorized, challenge, "there is no credential in "+expected)
	}
	return verify(found[expected][0])
}

// credentialNames lists the headers that may contain credentials.
var credentialNames = []string{"Authorization", "Proxy-Authorization", "Cookie", APIKeyHeader}

// credentials returns the values that may be credentials, by the name of the header or parameter.
func credentials(header http.Header, query url.Values) map[string][]string {
	found := map[string][]string{APIKeyParameter: query[APIKeyParameter]}
	for _, name := range credentialNames {
		found[name] = header[name]
	}
	maps.DeleteFunc(found, func(_ string, values []string) bool { return len(values) == 0 })
	return found
}

const keyChallenge, bearerChallenge = `ApiKey realm="api"`, `Bearer realm="api"`

func (a *API) checkKey(key string) answer {
	if !equal(key, a.key) {
		return refuse(http.StatusUnauthorized, keyChallenge, "the API key is wrong")
	}
	return answer{status: http.StatusOK, body: body{OK: true}}
}

// bearer returns a check of an Authorization header (RFC 6750 section 2.1) that calls check with the token.
func bearer(check func(token string) (subject string, err error)) func(string) answer {
	return func(value string) answer {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return refuse(http.StatusUnauthorized, bearerChallenge, "Authorization is not Bearer with a token")
		}
		subject, err := check(token)
		if err != nil {
			return refuse(http.StatusUnauthorized, bearerChallenge+`, error="invalid_token"`, "the token is refused: "+err.Error())
		}
		return answer{status: http.StatusOK, body: body{OK: true, Subject: subject}}
	}
}

// record appends a masked copy of a request to a.received.
func (a *API) record(r *http.Request, status int) {
	one := Received{Method: r.Method, Path: r.URL.Path, Query: a.maskQuery(r.URL.RawQuery), Status: status}
	for name, values := range r.Header {
		for _, value := range values {
			one.Headers = append(one.Headers, Field{name, a.mask(name, value)})
		}
	}
	slices.SortStableFunc(one.Headers, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	if _, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		one.JWT = decode(token)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received = append(a.received, one)
	if len(a.received) > maxRecords {
		a.received = slices.Delete(a.received, 0, len(a.received)-maxRecords)
	}
}

func (a *API) maskQuery(raw string) []Field {
	var fields []Field
	for pair := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' }) {
		name, value, _ := strings.Cut(pair, "=")
		fields = append(fields, Field{unescape(name), a.mask(unescape(name), unescape(value))})
	}
	return fields
}

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// mask masks what is a credential by its name, or contains the API key. Authorization keeps its scheme.
func (a *API) mask(name, value string) string {
	if name == "Authorization" || name == "Proxy-Authorization" {
		if scheme, rest, ok := strings.Cut(value, " "); ok {
			return scheme + " " + Mask(rest)
		}
	}
	if name == APIKeyParameter || slices.Contains(credentialNames, name) || strings.Contains(value, a.key) {
		return Mask(value)
	}
	return value
}

// Mask returns the first four characters of a credential and its length in characters. If it has fewer than 16 characters, Mask
// returns only the length, because four characters would reveal too much.
func Mask(credential string) string {
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
