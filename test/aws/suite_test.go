package aws

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
