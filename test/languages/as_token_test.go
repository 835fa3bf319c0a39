package languages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

const (
	canary   = "canary-Zk7Qw2mXr9Lt"
	tokenURL = "https://login.test/token"
	apiURL   = "https://api.test/v1/orders"
)

// internet is a token endpoint and an API, without a network.
type internet struct {
	answer   string       // the body that the token endpoint returns
	status   int          // the status that the token endpoint returns
	forms    []url.Values // the forms that the token endpoint received
	received []string     // the Authorization headers that the API received
}

// RoundTrip implements http.RoundTripper.
func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.URL.String() {
	case tokenURL:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, err
		}
		n.forms = append(n.forms, form)
		answer := strings.ReplaceAll(n.answer, "TOKEN", fmt.Sprintf("token-%d", len(n.forms)))
		return respond(r, n.status, answer), nil
	case apiURL:
		n.received = append(n.received, r.Header.Get("Authorization"))
		return respond(r, http.StatusOK, "{}"), nil
	}
	return nil, fmt.Errorf("nobody answers at %s", r.URL)
}

func respond(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    io.NopCloser(strings.NewReader(body)),
		Request: r,
	}
}

// setup is a host with the plugin, a fake internet and a clock that the test sets.
type setup struct {
	host *host.Host
	net  *internet
	now  time.Time
	log  bytes.Buffer
}

func newSetup(t *testing.T, wasm []byte) *setup {
	t.Helper()
	s := &setup{net: &internet{status: http.StatusOK}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	s.host, err = host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"crm": canary},
		Plugins: []host.Plugin{{Name: "as_token.wasm", Wasm: wasm}},
		Base:    s.net,
		Clock:   func() time.Time { return s.now },
		Logger:  slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug - 4})),
	})
	if err != nil {
		t.Fatalf("load the plugin: %v", err)
	}
	t.Cleanup(func() {
		if err := s.host.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	return s
}

func (s *setup) connect(t *testing.T, clientID string) (*host.Connector, error) {
	t.Helper()
	return s.host.NewConnector(t.Context(), host.ConnectorConfig{
		Name:    "crm",
		Origins: []string{"https://api.test"},
		Auth: host.Auth{Type: "as_token", Config: map[string]any{
			"client_id":     clientID,
			"client_secret": "{{ get_secret('crm') }}",
			"token_url":     tokenURL,
		}},
	})
}

func (s *setup) client(t *testing.T, clientID string) *http.Client {
	t.Helper()
	connector, err := s.connect(t, clientID)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return &http.Client{Transport: connector.Transport(nil)}
}

func get(t *testing.T, client *http.Client) error {
	t.Helper()
	request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, apiURL, nil))(t)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// TestASToken runs all tests of the plugin. It compiles the plugin only once, because that takes seconds.
func TestASToken(t *testing.T) {
	wasm := read(t, compile(t, "assembly/token.ts"))
	for name, test := range map[string]func(*testing.T, []byte){
		"module is small and imports nothing beyond the contract": testModule,
		"describe":                            testDescribe,
		"validate":                            testValidate,
		"token is requested, cached and sent": testTokenIsCached,
		"token that is not cached":            testTokenThatIsNotCached,
		"token endpoint refuses":              testTokenEndpointRefuses,
		"token of another type":               testTokenOfAnotherType,
	} {
		t.Run(name, func(t *testing.T) { test(t, wasm) })
	}
}

func testModule(t *testing.T, wasm []byte) {
	if len(wasm) > 12<<10 {
		t.Errorf("the module has %d bytes, want 12 kB at most", len(wasm))
	}
	checkImports(t, wasm)
}

func testDescribe(t *testing.T, wasm []byte) {
	s := newSetup(t, wasm)
	plugins := s.host.Plugins()
	got := plugins[len(plugins)-1]
	if got.Type != "as_token" || got.BuiltIn || len(got.Fields) != 3 {
		t.Errorf("the last plugin is %q with %d fields, want as_token with 3", got.Type, len(got.Fields))
	}
	// The summary is not ASCII, so that its length in UTF-16 differs from its length in bytes.
	if want := "A bearer token, by AssemblyScript – not Go."; got.Summary != want {
		t.Errorf("the summary is %q, want %q", got.Summary, want)
	}
}

func testValidate(t *testing.T, wasm []byte) {
	s := newSetup(t, wasm)
	if _, err := s.connect(t, "{{ get_variable('id') }}"); err != nil {
		t.Errorf("a template as client_id: %v, want no error", err)
	}
	_, err := s.connect(t, "zoë")
	var problems *host.ConfigError
	if !errors.As(err, &problems) {
		t.Fatalf("got the error %v, want a host.ConfigError", err)
	}
	want := []host.Problem{{Path: "auth.config.client_id", Message: "only printable ASCII, RFC 6749 A.1"}}
	if diff := cmp.Diff(want, problems.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func testTokenIsCached(t *testing.T, wasm []byte) {
	s := newSetup(t, wasm)
	s.net.answer = `{"access_token":"TOKEN","token_type":"Bearer","expires_in":3600}`
	clientID := `crm "north" \ 1` // must be escaped in JSON
	client := s.client(t, clientID)

	start := s.now
	for _, age := range []time.Duration{0, 3539 * time.Second, 3540 * time.Second} {
		s.now = start.Add(age)
		if err := get(t, client); err != nil {
			t.Fatalf("after %v: %v", age, err)
		}
	}

	if diff := cmp.Diff([]string{"Bearer token-1", "Bearer token-1", "Bearer token-2"}, s.net.received); diff != "" {
		t.Errorf("what the API received (-want +got):\n%s", diff)
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID}, "client_secret": {canary}}
	if diff := cmp.Diff([]url.Values{form, form}, s.net.forms); diff != "" {
		t.Errorf("what the token endpoint was sent (-want +got):\n%s", diff)
	}
	for _, secret := range []string{canary, "token-1", "token-2"} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func testTokenThatIsNotCached(t *testing.T, wasm []byte) {
	for name, answer := range map[string]string{
		"no expires_in":       `{"access_token":"TOKEN"}`,
		"expires_in 60":       `{"access_token":"TOKEN","expires_in":60}`,
		"expires_in negative": `{"access_token":"TOKEN","expires_in":-5}`, // threats.md 33
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, wasm)
			s.net.answer = answer
			client := s.client(t, "crm")
			for range 2 {
				testworld.Check(t, get(t, client))
			}
			if diff := cmp.Diff([]string{"Bearer token-1", "Bearer token-2"}, s.net.received); diff != "" {
				t.Errorf("what the API received (-want +got):\n%s", diff)
			}
		})
	}
}

func testTokenEndpointRefuses(t *testing.T, wasm []byte) {
	s := newSetup(t, wasm)
	s.net.status, s.net.answer = http.StatusUnauthorized, `{"error":"invalid_client","error_description":"`+canary+`"}`

	err := get(t, s.client(t, "crm"))
	var failed *host.Error
	if !errors.As(err, &failed) || failed.Connector != "crm" || failed.AuthType != "as_token" || failed.Stage != host.StageToken {
		t.Errorf("got the error %v, want a host.Error of connector crm, type as_token, at stage token", err)
	}
	var answer *host.TokenError
	if !errors.As(err, &answer) || answer.Status != http.StatusUnauthorized || answer.Code != "invalid_client" {
		t.Errorf("got the error %v, want a host.TokenError with 401 invalid_client", err)
	}
	if len(s.net.received) != 0 {
		t.Errorf("the API received %d requests, want none", len(s.net.received))
	}
	// The secret that the endpoint returned in its error appears nowhere (threats.md 20).
	if err != nil && strings.Contains(err.Error(), canary) || strings.Contains(s.log.String(), canary) {
		t.Error("the error or the log holds the secret that the endpoint echoed")
	}
}

func testTokenOfAnotherType(t *testing.T, wasm []byte) {
	s := newSetup(t, wasm)
	s.net.answer = `{"access_token":"TOKEN","token_type":"mac","expires_in":3600}`

	err := get(t, s.client(t, "crm"))
	if want := "the token is of no use as a bearer token"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want %q", err, want)
	}
	if len(s.net.received) != 0 {
		t.Errorf("the API received %d requests, want none", len(s.net.received))
	}
}
