package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"

	"github.com/keywright/keywright/host"
)

// python is the interpreter of Debian, which has the packages that apt installs.
const python = "/usr/bin/python3"

// verification is a request for testdata/verify.py.
type verification struct {
	Method       string            `json:"method"`
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body"`
	ClientSecret string            `json:"client_secret"`
	TokenSecret  string            `json:"token_secret"`
	PublicKey    string            `json:"public_key"`

	config map[string]any
}

// verdict is an answer of testdata/verify.py.
type verdict struct {
	Valid  bool              `json:"valid"`
	Params map[string]string `json:"params"`
	Error  string            `json:"error"`
}

// verify verifies requests with oauthlib, all in one process, and returns the verdicts in the same order.
func verify(t *testing.T, requests []verification) []verdict {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), python, "-c", "import oauthlib, jwt, cryptography").CombinedOutput(); err != nil {
		t.Fatalf("%s cannot import oauthlib: install the packages python3-oauthlib and python3-jwt: %v\n%s", python, err, output)
	}
	var input bytes.Buffer
	for _, request := range requests {
		line := testworld.Must(json.Marshal(request))(t)
		input.Write(append(line, '\n'))
	}
	command := exec.CommandContext(t.Context(), python, "testdata/verify.py")
	command.Stdin, command.Stderr = &input, os.Stderr
	output := testworld.Must(command.Output())(t)
	var verdicts []verdict
	for line := range bytes.Lines(output) {
		var v verdict
		testworld.Check(t, json.Unmarshal(line, &v))
		verdicts = append(verdicts, v)
	}
	if len(verdicts) != len(requests) {
		t.Fatalf("%d verdicts for %d requests", len(verdicts), len(requests))
	}
	return verdicts
}

// sender sends requests through the compiled module, in a host with its own clock and random bytes. Harnesses are not made
// for so many requests: they search memory for the credentials of each.
type sender struct {
	t       *testing.T
	host    *host.Host
	secrets host.MapSecrets
	sent    *http.Request
	body    string
}

func newSender(t *testing.T) *sender {
	t.Helper()
	wasm, err := os.ReadFile("oauth1.wasm")
	if err != nil {
		t.Fatalf("%v: `go run ./tools/plugin build plugins/oauth1` builds it", err)
	}
	s := &sender{t: t, secrets: host.MapSecrets{}}
	s.host, err = host.New(t.Context(), host.Config{
		Secrets: s.secrets, BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{{Name: "oauth1.wasm", Wasm: wasm}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.host.Close(context.Background()) })
	return s
}

// RoundTrip implements http.RoundTripper, for the API.
func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent, s.body = r, ""
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.body = string(body)
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// send sends a request with a configuration, and returns it as the API sees it.
func (s *sender) send(config map[string]any, r *http.Request) verification {
	s.t.Helper()
	connector := testworld.Must(s.host.NewConnector(s.t.Context(), host.ConnectorConfig{
		Name: "api", Origins: []string{r.URL.Scheme + "://" + r.URL.Host}, Auth: []host.Auth{{Type: "oauth1", Config: config}},
	}))(s.t)
	response, err := connector.Transport(s).RoundTrip(r)
	if err != nil {
		s.t.Fatalf("%s with %v: %v", r.URL, config, err)
	}
	_ = response.Body.Close()
	v := verification{
		Method: s.sent.Method, URL: s.sent.URL.String(), Headers: map[string]string{}, Body: s.body,
		ClientSecret: s.secrets["consumer"], TokenSecret: s.secrets["token"], config: config,
	}
	for name := range s.sent.Header {
		v.Headers[name] = s.sent.Header.Get(name)
	}
	return v
}

// text returns a random text of at most n characters.
func text(random *randv2.Rand, n int) string {
	const characters = "abcXYZ019-._~ +/=&%?:@!$'()*,;\"\\<>|#äß€😀"
	runes := []rune(characters)
	var b strings.Builder
	for range random.IntN(n + 1) {
		b.WriteRune(runes[random.IntN(len(runes))])
	}
	return b.String()
}

// parameters returns random parameters of a query or a form, encoded in one of the ways in which that is done.
func parameters(random *randv2.Rand) string {
	var all []string
	for range random.IntN(5) {
		name, value := url.QueryEscape("p"+text(random, 6)), url.QueryEscape(text(random, 12))
		if random.IntN(2) == 0 {
			name, value = strings.ReplaceAll(name, "+", "%20"), strings.ToLower(strings.ReplaceAll(value, "+", "%20"))
		}
		all = append(all, name+"="+value)
		if random.IntN(4) == 0 {
			all = append(all, name+"="+url.QueryEscape(text(random, 3))) // the same name again
		}
	}
	return strings.Join(all, "&")
}

// request returns a random request, and whether it may have a form.
func request(t *testing.T, random *randv2.Rand) (r *http.Request, form bool) {
	t.Helper()
	hosts := []string{"api.test", "API.test:443", "api.test:8443", "192.0.2.1:8080", "[2001:db8::1]"}
	path := "/p" + strings.TrimRight(text(random, 12), ";") // oauthlib drops such a semicolon
	target := &url.URL{Scheme: "https", Host: hosts[random.IntN(len(hosts))], Path: path, RawQuery: parameters(random)}
	methods := []string{"GET", "DELETE", "POST", "PUT", "PATCH"}
	method := methods[random.IntN(len(methods))]
	body, kind := "", ""
	if method != "GET" && method != "DELETE" {
		body, kind = parameters(random), "application/x-www-form-urlencoded"
		if form = random.IntN(3) > 0; !form {
			body, kind = `{"a": "`+strings.Repeat("b", random.IntN(50))+`"}`, "application/json"
		}
	}
	r = testworld.Must(http.NewRequestWithContext(t.Context(), method, target.String(), strings.NewReader(body)))(t)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if random.IntN(2) == 0 {
		r.GetBody = nil
	}
	return r, form
}

// configuration returns a random configuration. Values of the parameters have no percent signs, because oauthlib decodes
// those in the query and in forms twice.
func configuration(random *randv2.Rand, form bool) map[string]any {
	plain := func(n int) string { return "x" + strings.ReplaceAll(text(random, n), "%", "") }
	methods := []string{"HMAC-SHA1", "HMAC-SHA256", "RSA-SHA1", "PLAINTEXT"}
	method := methods[random.IntN(len(methods))]
	config := map[string]any{"consumer_key": plain(10), "signature_method": method}
	secrets := "consumer_secret token_secret"
	switch method {
	case "RSA-SHA1":
		config["private_key"], secrets = "{{ get_secret('key') }}", ""
	case "PLAINTEXT":
		secrets = "plaintext_consumer_secret plaintext_token_secret"
	default:
		config["body_hash"] = random.IntN(2) == 0
	}
	consumer, token, _ := strings.Cut(secrets, " ")
	if secrets != "" {
		config[consumer] = "{{ get_secret('consumer') }}"
	}
	if random.IntN(4) > 0 {
		config["token"] = plain(10)
		if secrets != "" {
			config[token] = "{{ get_secret('token') }}"
		}
	}
	places := []string{"header", "query", "form"}
	if !form {
		places = places[:2]
	}
	if place := places[random.IntN(len(places))]; method != "PLAINTEXT" {
		config["in"] = place
		if place == "form" {
			delete(config, "body_hash")
		}
	}
	if place, found := config["in"]; (!found || place == "header") && random.IntN(2) == 0 {
		config["realm"] = "a realm"
	}
	if random.IntN(2) == 0 {
		config["version"] = ""
	}
	return config
}

// An independent server accepts 2,000 random requests, of every signature method and in every place, and refuses each if
// something of it has changed.
func TestIndependentServer(t *testing.T) {
	const count = 2000
	s := newSender(t)
	key := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	private := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	public := testworld.Must(x509.MarshalPKIXPublicKey(key.Public()))(t)
	s.secrets["key"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	random := randv2.New(randv2.NewPCG(1, 2))
	var requests []verification
	for range count {
		s.secrets["consumer"], s.secrets["token"] = "s"+text(random, 20), "t"+text(random, 20)
		r, form := request(t, random)
		v := s.send(configuration(random, form), r)
		v.PublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
		requests = append(requests, v, tampered(random, v))
	}
	failed, results := 0, map[string]int{}
	for i, v := range verify(t, requests) {
		request := requests[i]
		if i%2 == 0 {
			results[fmt.Sprint(request.config["signature_method"], " ", request.config["in"])]++
		}
		if valid := i%2 == 0; v.Valid == valid && v.Error == "" || !valid && request.config["signature_method"] == "PLAINTEXT" {
			continue
		}
		if failed++; failed <= 10 {
			t.Errorf("the verdict on request %d is %+v:\n%+v", i, v, request)
		}
	}
	t.Logf("%d of %d verdicts are wrong; requests: %v", failed, 2*count, results)
}

// tampered returns a copy of a request with a new nonce, or with a change of the method, the URL or the form.
func tampered(random *randv2.Rand, v verification) verification {
	separator := "?"
	if strings.Contains(v.URL, "?") {
		separator = "&"
	}
	switch random.IntN(3) {
	case 0:
		v.Method = "OPTIONS"
	case 1:
		v.URL += separator + "added=1"
	case 2:
		if !strings.HasPrefix(v.Headers["Content-Type"], "application/x-www-form-urlencoded") {
			v.URL += separator + "added" + "="
			break
		}
		v.Body = strings.TrimPrefix(v.Body+"&added=1", "&")
	}
	return v
}
