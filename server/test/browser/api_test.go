package browser

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// api is an API over TLS that requires the credential of each path: /header, /query, /token, /jwt and /assertion. It echoes the
// credential in a header of each response, and below /echo in the body.
//
// It is also a proxy in front of the token endpoint, so that it knows all secrets that were sent.
type api struct {
	*httptest.Server
	t      *testing.T
	auth   *authServer
	jwtKey *ecdsa.PublicKey

	canaries *testworld.Canaries

	mu       sync.Mutex
	requests []*http.Request // requests to the API, without those to the token endpoint
	secrets  []string        // texts that only the gateway, the API and the authorization server may see
}

// An answer is the API's response to a request with a credential.
type answer struct {
	Path  string `json:"path"`
	By    string `json:"by"`    // owner of the credential: a client or a subject
	Email string `json:"email"` // the user's address, from the gateway
	Echo  string `json:"echo,omitempty"`
}

func newAPI(t *testing.T, auth *authServer, jwtKey *ecdsa.PublicKey, canaries *testworld.Canaries) *api {
	a := &api{t: t, auth: auth, jwtKey: jwtKey, canaries: canaries}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /oauth/token", a.exchange)
	mux.HandleFunc("/", a.serve)
	a.Server = httptest.NewTLSServer(mux)
	t.Cleanup(a.Close)
	return a
}

// count returns the number of requests that the API received.
func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// last returns the last request that the API received.
func (a *api) last() *http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.requests) == 0 {
		a.t.Fatal("no request has reached the API")
	}
	return a.requests[len(a.requests)-1]
}

// isSecret hides texts, and the parts of a JWT but its header, which many JWTs share.
func (a *api) isSecret(texts ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range texts {
		if text == "" || slices.Contains(a.secrets, text) {
			continue
		}
		a.secrets = append(a.secrets, text)
		if parts := strings.Split(text, "."); len(parts) == 3 {
			a.canaries.Hide("the claims of a JWT", parts[1])
			a.canaries.Hide("the signature of a JWT", parts[2])
		}
		a.canaries.Hide("a secret", text)
	}
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.Clone(context.Background()))
	a.mu.Unlock()
	path, echo, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/echo/")
	credential, by := a.check(path, r)
	if by == "" {
		http.Error(w, "who is this?", http.StatusUnauthorized)
		return
	}
	a.isSecret(credential)
	said := answer{Path: path, By: by, Email: r.Header.Get("X-User-Email")}
	switch echo {
	case "plain":
		said.Echo = credential
	case "base64":
		said.Echo = base64.StdEncoding.EncodeToString([]byte("you sent " + credential))
	}
	w.Header().Set("X-Credential", credential)
	w.Header().Set("Set-Cookie", "credential="+credential)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // an error shows in the browser
}

// check returns the credential of a request and its owner. An empty owner means that the credential is not valid.
func (a *api) check(path string, r *http.Request) (credential, by string) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch path {
	case "header":
		if credential = r.Header.Get("X-Api-Key"); credential == headerKey {
			return credential, "key"
		}
	case "query":
		if credential = r.URL.Query().Get("api_key"); credential == queryKey {
			return credential, "key"
		}
	case "jwt":
		var claims jwt.RegisteredClaims
		_, err := jwt.ParseWithClaims(bearer, &claims, func(*jwt.Token) (any, error) { return a.jwtKey, nil },
			jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience("api"), jwt.WithExpirationRequired())
		if err == nil {
			return bearer, claims.Subject
		}
	case "token", "assertion":
		caller := a.introspect(r)
		if path == "token" {
			return bearer, caller.ClientID
		}
		return bearer, caller.Subject
	}
	return "", ""
}

// introspect asks the authorization server for the owner of an access token.
func (a *api) introspect(r *http.Request) (caller authCaller) {
	asked := testworld.Must(http.NewRequestWithContext(r.Context(), http.MethodGet, a.auth.APIURL, nil))(a.t)
	asked.Header.Set("Authorization", r.Header.Get("Authorization"))
	status, body := a.ask(asked)
	if status == http.StatusOK {
		testworld.Check(a.t, json.Unmarshal(body, &caller))
	}
	return caller
}

// exchange forwards a request to the token endpoint.
func (a *api) exchange(w http.ResponseWriter, r *http.Request) {
	body := testworld.Must(io.ReadAll(r.Body))(a.t)
	asked := testworld.Must(http.NewRequestWithContext(r.Context(), http.MethodPost, a.auth.TokenURL, bytes.NewReader(body)))(a.t)
	asked.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	status, said := a.ask(asked)
	form, _ := url.ParseQuery(string(body))
	var token struct {
		AccessToken string `json:"access_token"`
	}
	testworld.Check(a.t, json.Unmarshal(said, &token))
	a.isSecret(form.Get("client_secret"), form.Get("assertion"), token.AccessToken)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(said)
}

// ask sends a request to the authorization server.
func (a *api) ask(r *http.Request) (status int, body []byte) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.auth.Roots}, DisableKeepAlives: true}
	response, err := transport.RoundTrip(r)
	if err != nil {
		a.t.Error(err)
		return 0, nil
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		a.t.Error(err)
	}
	return response.StatusCode, body
}
