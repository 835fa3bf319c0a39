// Package aws compares the plugins that sign requests for AWS with implementations of others.
package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// The cases of AWS's own signing test suite, in the header and in the query. testdata/v4 holds the files of
// tests/aws-signing-test-suite/v4 of github.com/awslabs/aws-c-auth at 495329c2433034bd8fd53fc6ba9e0202d3fac876, except the files
// with what comes before a signature.
func TestTheSigningTestSuiteOfAWS(t *testing.T) {
	cases, err := filepath.Glob("testdata/v4/*")
	if err != nil || len(cases) != 38 {
		t.Fatalf("there are %d cases, want 38 (%v)", len(cases), err)
	}
	w := testworld.Must(New(t.Context(), "awssigv4"))(t)
	defer w.Close()
	for _, dir := range cases {
		for _, in := range []string{"header", "query"} {
			t.Run(filepath.Base(dir)+"/"+in, func(t *testing.T) { compare(t, w, dir, in) })
		}
	}
}

// settings is a context.json.
type settings struct {
	Credentials struct {
		ID     string `json:"access_key_id"`
		Secret string `json:"secret_access_key"`
		Token  string `json:"token"`
	} `json:"credentials"`
	Expires   int       `json:"expiration_in_seconds"`
	Normalize bool      `json:"normalize"`
	Region    string    `json:"region"`
	Service   string    `json:"service"`
	SignBody  bool      `json:"sign_body"`
	Omit      bool      `json:"omit_session_token"`
	Timestamp time.Time `json:"timestamp"`
}

func compare(t *testing.T, w *Account, dir, in string) {
	document := testworld.Must(os.ReadFile(filepath.Join(dir, "context.json")))(t)
	var s settings
	testworld.Check(t, json.Unmarshal(document, &s))
	w.SetTime(s.Timestamp)
	w.SetSecret("key", s.Credentials.Secret)
	config := map[string]any{
		"access_key_id": s.Credentials.ID, "secret_access_key": "{{ get_secret('key') }}", "region": s.Region, "service": s.Service, "in": in,
		"expires_seconds": s.Expires, "normalize_path": s.Normalize, "content_sha256_header": s.SignBody,
		"double_encode_path": false, // the paths of the suite are not encoded yet
	}
	if s.Credentials.Token != "" {
		w.SetSecret("token", s.Credentials.Token)
		config["session_token"], config["sign_session_token"] = "{{ get_secret('token') }}", !s.Omit
	}
	request, want := read(t, filepath.Join(dir, "request.txt")), read(t, filepath.Join(dir, in+"-signed-request.txt"))
	got := testworld.Must(w.Sign(request, "aws_sigv4", config))(t)
	got.Header.Del("Content-Length")
	want.Header.Del("Content-Length")
	if a, b := fmt.Sprint(got.Header), fmt.Sprint(want.Header); a != b {
		t.Errorf("the headers are\n%s, not\n%s", a, b)
	}
	if a, b := got.URL.Query().Encode(), want.URL.Query().Encode(); a != b {
		t.Errorf("the query is\n%s, not\n%s", a, b)
	}
}

// read reads a request of the suite. Its path is not encoded.
func read(t *testing.T, file string) *http.Request {
	text := testworld.Must(os.ReadFile(file))(t)
	head, body, _ := strings.Cut(string(text), "\n\n")
	lines := strings.Split(strings.TrimRight(head, "\n"), "\n")
	method, target, _ := strings.Cut(strings.TrimSuffix(lines[0], " HTTP/1.1"), " ")
	r := testworld.Must(http.NewRequestWithContext(t.Context(), method, "https://example.amazonaws.com/", strings.NewReader(body)))(t)
	path, query, _ := strings.Cut(target, "?")
	r.URL = &url.URL{Scheme: "https", Host: r.URL.Host, Path: path, RawQuery: query}
	last := ""
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, " ") { // net/http sends no line folding, and a recipient reads it as a space (RFC 9112 section 5.2)
			values := r.Header[last]
			values[len(values)-1] += " " + strings.TrimSpace(line)
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if last = http.CanonicalHeaderKey(name); last == "Host" && strings.TrimSpace(value) != r.URL.Host {
			t.Fatalf("the host is %s", value)
		} else if last != "Host" {
			r.Header.Add(last, value)
		}
	}
	return r
}

// Account is a host with one of the plugins. Requests to the API and to STS go nowhere; they are recorded.
type Account struct {
	host *host.Host

	mu      sync.Mutex
	now     time.Time
	secrets host.MapSecrets
	// Exchanged is the last request to STS, and Answer is the answer to it.
	Exchanged *http.Request
	Body      []byte
	Answer    string
}

// New returns a world with the plugin in a directory of plugins.
func New(ctx context.Context, plugin string) (*Account, error) {
	wasm, err := os.ReadFile(filepath.Join("../../plugins", plugin, plugin+".wasm"))
	if err != nil {
		return nil, err
	}
	w := &Account{secrets: host.MapSecrets{}}
	w.host, err = host.New(ctx, host.Config{
		Secrets:  w,
		BuiltIns: []host.Plugin{},
		Plugins:  []host.Plugin{{Name: plugin, Wasm: wasm}},
		Base:     roundTripper(w.exchange),
		Clock:    w.time,
	})
	return w, err
}

// Secret implements [host.Secrets].
func (w *Account) Secret(ctx context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secrets.Secret(ctx, name)
}

// SetSecret sets a secret.
func (w *Account) SetSecret(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[name] = value
}

// SetTime sets the host's time.
func (w *Account) SetTime(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
}

func (w *Account) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Sign returns a request as the API gets it.
func (w *Account) Sign(r *http.Request, authType string, config map[string]any) (*http.Request, error) {
	connector, err := w.host.NewConnector(r.Context(), host.ConnectorConfig{
		Name: fmt.Sprint(config), Origins: []string{r.URL.Scheme + "://" + r.URL.Host}, Auth: []host.Auth{{Type: authType, Config: config}},
	})
	if err != nil {
		return nil, err
	}
	return connector.Authenticate(r)
}

// Close closes the host.
func (w *Account) Close() error { return w.host.Close(context.Background()) }

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// exchange answers for STS.
func (w *Account) exchange(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Exchanged, w.Body = r, body
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(w.Answer)), Request: r}, nil
}
