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
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	// grants is the number of grants, each of a client of its own and for a connector of its own.
	grants       = 5
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
	// redeemed counts the redemptions, which the provider has answered with tokens, and reused those that it has taken for theft.
	redeemed, reused int
	// faults describes each event that must not happen.
	faults []string
	// owners has the number of the grant of each token.
	owners map[string]int
	// seconds are the lifetimes of access tokens, of which a plugin uses all but the last minute. 0 is a minute.
	seconds [grants]int
	// decided has the times at which the last token requests of the grants arrived that were answered.
	decided [grants]time.Time
	// answered has the last answer that decides to each refresh token. flying has the deadlines of the requests of each grant that may be on
	// their way. sent has the tokens that were sent, and not answered with 503 since. again counts the times that one of them came again.
	answered map[string]answered
	flying   [grants]map[*http.Request]time.Time
	sent     map[string]bool
	again    int
	// gone are the times at which a node was killed or stopped.
	gone []time.Time
	// unkept is set if the provider has redeemed a token of a grant since its last consent, and the answer was not kept, as far as the judge
	// can know. consents counts the consents.
	unkept   [grants]bool
	consents [grants]int
}

// answered is an answer: when its request arrived, and when it was sent.
type answered struct{ arrived, at time.Time }

// kept reports whether the node that got an answer must have kept it: it was not killed or stopped between its request and a second
// after the answer. Requests that arrive later are from other nodes.
func (j *judge) kept(a answered) bool {
	for _, gone := range j.gone {
		if a.arrived.Before(gone.Add(100*time.Millisecond)) && a.at.After(gone.Add(-time.Second)) {
			return false
		}
	}
	return true
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{t: t, sent: map[string]bool{}, owners: map[string]int{}, answered: map[string]answered{}}
	for i := range j.flying {
		j.flying[i] = map[*http.Request]time.Time{}
	}
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

func clientOf(grant int) string {
	if owners[grant].policy == stays {
		return fmt.Sprint("stays", grant)
	}
	return fmt.Sprint("client", grant)
}

// startProvider starts oidc-provider and returns its issuer.
func startProvider(t *testing.T, authority *testworld.Authority, clients []map[string]any) string {
	t.Helper()
	certificate := authority.Server()
	key := testworld.Must(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))(t)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	config := testworld.Must(json.Marshal(map[string]any{
		"key": text("PRIVATE KEY", key), "cert": text("CERTIFICATE", certificate.Certificate[0]), "ca": authority.PEM(), "clients": clients, "issuers": map[string]any{"keys": []any{}},
	}))(t)
	command := exec.Command("node", "server.mjs")
	command.Dir = "../../../test/oidcprovider"
	command.Stdin = bytes.NewReader(config)
	var errs bytes.Buffer
	command.Stderr = &errs
	out := testworld.Must(command.StdoutPipe())(t)
	testworld.Check(t, command.Start())
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
	response := testworld.Must(j.provider.Get(j.issuer + "/grant?client=" + clientOf(grant)))(j.t)
	defer response.Body.Close()
	var answer struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.RefreshToken == "" {
		j.t.Fatalf("no consent: %d, %v", response.StatusCode, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.consents[grant]++; j.consents[grant] > 1 && (owners[grant].policy == stays || owners[grant].policy == rotates && !j.unkept[grant]) {
		j.faults = append(j.faults, "a grant is lost, and no answer was")
	}
	j.unkept[grant] = false
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
	arrived := time.Now()
	j.mu.Lock()
	doing := j.mode
	grant, known := j.owners[token]
	if known {
		j.arrives(r, grant, token)
	}
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.flying[grant], r)
	}()
	switch {
	case !known:
		j.fault("a token request has a refresh token that nobody has issued")
		return
	case doing == refuses:
		j.mu.Lock()
		j.sent[token] = false // which proves that it was not redeemed
		j.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case doing == hangs:
		<-r.Context().Done()
		return
	}
	answer, status := j.redeem(body)
	text := j.issued(answer, grant)
	if status == http.StatusBadRequest { // the provider takes it for theft
		text = answer
		j.mu.Lock()
		j.reused++
		j.mu.Unlock()
	}
	if text == nil {
		j.fault("the provider answers %d: %s", status, answer)
	}
	if text != nil && doing != cuts {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if _, err := w.Write(text); err == nil && r.Context().Err() == nil { // a short answer is written to a buffer, also if nobody reads it
			j.mu.Lock()
			defer j.mu.Unlock()
			j.decided[grant] = arrived
			if owners[grant].policy != stays {
				j.answered[token] = answered{arrived, time.Now()}
			}
			return
		}
	}
	j.mu.Lock()
	j.unkept[grant] = true
	j.mu.Unlock()
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// arrives judges a request with a token when it arrives. A request is on its way until it ends, or the deadline of its node: two thirds of
// the lease.
func (j *judge) arrives(r *http.Request, grant int, token string) {
	now := time.Now()
	for _, deadline := range j.flying[grant] {
		if now.Before(deadline) {
			j.faults = append(j.faults, "two requests with tokens of a grant are on their way")
		}
	}
	j.flying[grant][r] = now.Add(lease * 2 / 3)
	if a, ok := j.answered[token]; ok {
		if j.kept(a) {
			j.faults = append(j.faults, "a refresh token was sent again after an answer")
		}
		j.unkept[grant] = true
	}
	switch policy := owners[grant].policy; {
	case j.sent[token] && policy == never:
		j.faults = append(j.faults, "a refresh token that is never sent again was sent again")
	case j.sent[token] && policy == rotates:
		j.again++
	}
	j.sent[token] = true
}

// goes notes that a node was killed or stopped just now, so that it may not keep what it was answered.
func (j *judge) goes() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone = append(j.gone, time.Now())
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

// issued records the tokens of an answer. It returns the answer with the lifetime of an access token. One of a minute is too short to be
// cached, so that each request redeems.
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
	members["expires_in"] = max(60, j.seconds[grant])
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
