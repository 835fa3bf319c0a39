// Command suite signs the requests of AWS's signing test suite, and compares the signatures. Its argument is the directory
// tests/aws-signing-test-suite/v4 of a checkout of github.com/awslabs/aws-c-auth. Run it in the module test/aws:
//
//	go run ./suite DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keywright/keywright/test/aws"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: suite DIR")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks each case in its two forms.
func run(ctx context.Context, dir string) error {
	cases, err := filepath.Glob(filepath.Join(dir, "*", "context.json"))
	if err != nil || len(cases) == 0 {
		return fmt.Errorf("there is no case in %s (%w)", dir, err)
	}
	w, err := aws.New(ctx, "awssigv4")
	if err != nil {
		return err
	}
	defer w.Close()
	var failures []error
	for _, file := range cases {
		for _, in := range []string{"header", "query"} {
			if err := check(ctx, w, filepath.Dir(file), in); err != nil {
				failures = append(failures, fmt.Errorf("%s, %s: %w", filepath.Base(filepath.Dir(file)), in, err))
			}
		}
	}
	fmt.Printf("%d signatures, %d are different\n", 2*len(cases), len(failures))
	return errors.Join(failures...)
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

func check(ctx context.Context, w *aws.World, dir, in string) error {
	document, err := os.ReadFile(filepath.Join(dir, "context.json"))
	if err != nil {
		return err
	}
	var s settings
	if err := json.Unmarshal(document, &s); err != nil {
		return err
	}
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
	request, err := read(ctx, filepath.Join(dir, "request.txt"))
	if err != nil {
		return err
	}
	want, err := read(ctx, filepath.Join(dir, in+"-signed-request.txt"))
	if err != nil {
		return err
	}
	got, err := w.Sign(request, "aws_sigv4", config)
	if err != nil {
		return err
	}
	for name := range want.Header {
		if a, b := fmt.Sprint(got.Header.Values(name)), fmt.Sprint(want.Header.Values(name)); name != "Content-Length" && a != b {
			return fmt.Errorf("%s is\n%s, not\n%s", name, a, b)
		}
	}
	if a, b := got.URL.Query().Encode(), want.URL.Query().Encode(); a != b {
		return fmt.Errorf("the query is\n%s, not\n%s", a, b)
	}
	return nil
}

// read reads a request of the suite. Its path is not encoded.
func read(ctx context.Context, file string) (*http.Request, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	head, body, _ := strings.Cut(string(text), "\n\n")
	lines := strings.Split(strings.TrimRight(head, "\n"), "\n")
	method, target, _ := strings.Cut(strings.TrimSuffix(lines[0], " HTTP/1.1"), " ")
	r, err := http.NewRequestWithContext(ctx, method, "https://example.amazonaws.com/", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
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
			return nil, fmt.Errorf("the host is %s", value)
		} else if last != "Host" {
			r.Header.Add(last, value)
		}
	}
	return r, nil
}
