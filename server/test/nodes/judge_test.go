// Package nodes tests several processes of keywright serve that share a store of state, while they and what they depend on fail.
package nodes

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	// grants is the number of grants, each of a client of its own and for a connector of its own.
	grants       = 3
	clientSecret = "s3cr3t-of-the-client-0123456789"
)

// mode says how the judge treats token requests.
type mode int

const (
	forwards mode = iota
	// cuts forwards a request, and cuts the connection in place of the answer.
	cuts
	// refuses answers 503 and forwards nothing.
	refuses
	// hangs forwards nothing and never answers.
	hangs
)

// judge is oidc-provider behind a server that knows each refresh token that was sent, and the API of the tokens.
// The provider revokes a grant if one of its refresh tokens is used twice.
type judge struct {
	testworld.Canaries // what must not be in the database

	t        *testing.T
	issuer   string
	provider http.Client
	login    *httptest.Server
	api      *httptest.Server

	mu   sync.Mutex
	mode mode
	// redeemed counts the redemptions, which the provider has answered with tokens.
	redeemed int
	// faults describes each event that must not happen.
	faults []string
	// sent has the refresh tokens that were sent. owners has the number of the grant of each token.
	sent   map[string]bool
	owners map[string]int
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{t: t, sent: map[string]bool{}, owners: map[string]int{}}
	authority := testworld.NewAuthority(t)
	j.provider.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
	var clients []map[string]any
	for i := range grants {
		clients = append(clients, map[string]any{
			"client_id": clientOf(i), "client_secret": clientSecret, "token_endpoint_auth_method": "client_secret_post",
			"grant_types": []string{"refresh_token", "authorization_code"}, "redirect_uris": []string{"https://client.example/callback"},
		})
	}
	j.issuer = startProvider(t, authority, clients)
	j.login = httptest.NewServer(http.HandlerFunc(j.token))
	t.Cleanup(j.login.Close)
	j.api = httptest.NewServer(http.HandlerFunc(j.serve))
	t.Cleanup(j.api.Close)
	return j
}

func clientOf(grant int) string { return fmt.Sprint("client", grant) }

// startProvider starts oidc-provider and returns its issuer.
func startProvider(t *testing.T, authority *testworld.Authority, clients []map[string]any) string {
	t.Helper()
	certificate := authority.Server()
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	config, err := json.Marshal(map[string]any{
		"key": text("PRIVATE KEY", key), "cert": text("CERTIFICATE", certificate.Certificate[0]), "ca": authority.PEM(), "clients": clients, "issuers": map[string]any{"keys": []any{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("node", "server.mjs")
	command.Dir = "../../../test/oidcprovider"
	command.Stdin = bytes.NewReader(config)
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	var line strings.Builder
	for one := make([]byte, 1); ; {
		if _, err := out.Read(one); err != nil {
			t.Fatalf("the provider does not start: %s", errs.String())
		}
		if one[0] == '\n' {
			return line.String()
		}
		line.Write(one)
	}
}

// setMode sets what happens to token requests from now on.
func (j *judge) setMode(m mode) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mode = m
}

// fault records something that must not happen.
func (j *judge) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// consent returns the refresh token of a new consent.
func (j *judge) consent(grant int) string {
	j.t.Helper()
	response, err := j.provider.Get(j.issuer + "/grant?client=" + clientOf(grant))
	if err != nil {
		j.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.RefreshToken == "" {
		j.t.Fatalf("no consent: %d, %v", response.StatusCode, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owners[j.Hide("a refresh token of a consent", answer.RefreshToken)] = grant
	return answer.RefreshToken
}

// token is the token endpoint.
func (j *judge) token(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the request was cut, and so was not redeemed
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		j.fault("a token request is no form")
		return
	}
	token := form.Get("refresh_token")
	j.mu.Lock()
	doing := j.mode
	grant, known := j.owners[token]
	j.mu.Unlock()
	switch {
	case !known:
		j.fault("a token request has a refresh token that nobody has issued")
		return
	case doing == refuses:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case doing == hangs:
		<-r.Context().Done()
		return
	}
	j.mu.Lock()
	if j.sent[token] {
		j.faults = append(j.faults, "a refresh token was sent twice")
	}
	j.sent[token] = true
	j.mu.Unlock()
	answer, status := j.redeem(body)
	if text := j.issued(answer, grant); text != nil && status == http.StatusOK && doing != cuts {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
		return
	}
	if status != http.StatusOK {
		j.fault("the provider answers %d: %s", status, answer)
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// redeem sends a token request to the provider, also if the sender has gone.
func (j *judge) redeem(body []byte) (answer []byte, status int) {
	response, err := j.provider.Post(j.issuer+"/token", "application/x-www-form-urlencoded", bytes.NewReader(body))
	if err != nil {
		return []byte(err.Error()), 0
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return []byte(err.Error()), 0
	}
	return answer, response.StatusCode
}

// issued records the tokens of an answer. It returns the answer with an access token that is too short to be cached, so that
// each request redeems.
func (j *judge) issued(answer []byte, grant int) []byte {
	var members map[string]any
	if json.Unmarshal(answer, &members) != nil {
		return nil
	}
	access, _ := members["access_token"].(string)
	refresh, _ := members["refresh_token"].(string)
	if access == "" || refresh == "" {
		return nil
	}
	members["expires_in"] = 60
	text, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.redeemed++
	j.owners[j.Hide("a refresh token", refresh)], j.owners[j.Hide("an access token", access)] = grant, grant
	return text
}

// serve is the API. A request has a token of the grant that its path names.
func (j *judge) serve(w http.ResponseWriter, r *http.Request) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	j.mu.Lock()
	grant, known := j.owners[token]
	j.mu.Unlock()
	switch {
	case !found || !known:
		j.fault("the API got a request without a credential, or with one that nobody has issued")
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path != "/"+connectorOf(grant):
		j.fault("the API got a request with the credential of another grant")
		w.WriteHeader(http.StatusForbidden)
	}
}

func connectorOf(grant int) string { return fmt.Sprint("orders-of-grant-", grant) }
