// Package signatures tests the auth types http_signature, hmac and jws against implementations by others, which are npm packages.
package signatures

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// signed is a request as the API receives it, and what its verifier knows.
type signed struct {
	// Judge is the package that verifies.
	Judge   string      `json:"judge"`
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers http.Header `json:"headers"`
	Body    []byte      `json:"body"`
	// Algorithm is that of RFC 9421.
	Algorithm string `json:"algorithm"`
	// Key is a public key in PEM, or a secret: for http-message-signatures in base64.
	Key string `json:"key"`
	// Header is the name of the header with a JWS, and Raw reports whether its payload is not encoded. Token is a JWT.
	Header string `json:"header,omitempty"`
	Raw    bool   `json:"raw,omitempty"`
	Token  string `json:"token,omitempty"`
}

// verify returns the verdicts on requests of packages for Node. It runs one process for all of them.
func verify(t *testing.T, requests []signed) []string {
	t.Helper()
	return verdicts(t, requests, "node", "verify.mjs")
}

// verdicts returns the verdicts of a command on requests.
func verdicts(t *testing.T, requests []signed, command ...string) []string {
	t.Helper()
	var input bytes.Buffer
	for _, r := range requests {
		line := testworld.Must(json.Marshal(r))(t)
		input.Write(append(line, '\n'))
	}
	judge := exec.CommandContext(t.Context(), command[0], command[1:]...)
	judge.Stdin, judge.Stderr = &input, os.Stderr
	output, err := judge.Output()
	if err != nil {
		t.Fatalf("%s does not run (make deps installs what it needs): %v", command, err)
	}
	var all []string
	for line := range bytes.Lines(output) {
		var verdict string
		testworld.Check(t, json.Unmarshal(line, &verdict))
		all = append(all, verdict)
	}
	if len(all) != len(requests) {
		t.Fatalf("%d verdicts on %d requests", len(all), len(requests))
	}
	return all
}

// keyPair returns a new key for an algorithm of RFC 9421: the configuration's key, and what verifies.
func keyPair(t *testing.T, algorithm string) (private, public string) {
	t.Helper()
	var signer crypto.Signer
	var err error
	switch algorithm {
	case "hmac-sha256":
		secret := make([]byte, 64)
		_, _ = rand.Read(secret) // never fails
		text := base64.StdEncoding.EncodeToString(secret)
		return text, text
	case "ed25519":
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa-p256-sha256":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES512":
		signer, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ecdsa-p384-sha384":
		signer, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	default:
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	testworld.Check(t, err)
	pkcs8 := testworld.Must(x509.MarshalPKCS8PrivateKey(signer))(t)
	spki := testworld.Must(x509.MarshalPKIXPublicKey(signer.Public()))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}))
}

// signer is a host with one plugin, and the API.
type signer struct {
	t    *testing.T
	host *host.Host
	// received is the last request that the API received.
	received signed
}

// newSigner returns a host with compiled plugins, for which a token endpoint issues a token. Its time is in the past: the verifiers use
// their own clock.
func newSigner(t *testing.T, module string, secrets host.MapSecrets, more ...string) *signer {
	t.Helper()
	var plugins []host.Plugin
	for _, module := range append(more, module) {
		wasm, err := os.ReadFile("../../plugins/" + module + "/" + module + ".wasm")
		if err != nil {
			t.Fatalf("%v: make plugins builds it", err)
		}
		plugins = append(plugins, host.Plugin{Name: module, Wasm: wasm})
	}
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: secrets, BuiltIns: []host.Plugin{}, Plugins: plugins,
		Clock: func() time.Time { return time.Unix(1_767_323_045, 0) },
		Base:  testworld.Respond(http.StatusOK, `{"access_token":"a-bound-token-0123456789","token_type":"DPoP","expires_in":300}`, "Content-Type", "application/json"),
	}))(t)
	t.Cleanup(func() { _ = h.Close(context.WithoutCancel(t.Context())) })
	return &signer{t: t, host: h}
}

// RoundTrip implements http.RoundTripper, as the API.
func (w *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	w.received = signed{Method: r.Method, URL: r.URL.String(), Headers: r.Header.Clone(), Body: []byte{}}
	if r.Body != nil {
		var err error
		if w.received.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.ContentLength > 0 {
		w.received.Headers.Set("Content-Length", fmt.Sprint(r.ContentLength)) // as net/http sends it
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// send sends a request through a new connector, and returns it as the API receives it.
func (w *signer) send(authType string, config map[string]any, r *http.Request) signed {
	w.t.Helper()
	return w.sendWith(r, host.Auth{Type: authType, Config: config})
}

// sendWith is like send, for a list of authentications.
func (w *signer) sendWith(r *http.Request, auths ...host.Auth) signed {
	w.t.Helper()
	connector := testworld.Must(w.host.NewConnector(w.t.Context(), host.ConnectorConfig{
		Name: "api", Origins: []string{"https://" + r.URL.Host}, Auth: auths,
	}))(w.t)
	response, err := connector.Transport(w).RoundTrip(r)
	if err != nil {
		w.t.Fatalf("%s %s, %v: err = %v", r.Method, r.URL, auths, err)
	}
	_ = response.Body.Close()
	return w.received
}

// request returns a random request. Its URL has no part that the URL standard of browsers, which the verifiers use, writes in
// another way.
func request(t *testing.T, random *randv2.Rand) *http.Request {
	t.Helper()
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	target := "https://" + pick("api.test", "www.example.com", "api.test:8443") + pick("/", "/v1/a%2Fb/%C3%BC", "/a;x=1/@b:c", "/%7euser/$&+,=")
	var query []string
	for _, name := range []string{"id", "q", "fa%C3%A7ade%22%3A%20"} {
		if random.IntN(3) > 0 {
			query = append(query, name+pick("", "=", "=1", "=a+b%20c", "=%C3%BC/?:@", "=a%0Ab", "=x=y", "=%2A-._"))
		}
	}
	if len(query) > 0 {
		target += "?" + strings.Join(query, "&")
	}
	method := pick(http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch)
	var body io.Reader
	if text := make([]byte, random.IntN(3)*random.IntN(200)); method != http.MethodGet && len(text) > 0 {
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		body = bytes.NewReader(text)
	}
	r := testworld.Must(http.NewRequestWithContext(t.Context(), method, target, body))(t)
	for _, name := range []string{"Date", "X-One", "Content-Type"} {
		for range random.IntN(3) {
			r.Header.Add(name, pick("", "1", "a, b", "text/plain; charset=\"utf-8\"", "Fri, 02 Jan 2026 03:04:05 GMT", "  blanks  "))
		}
	}
	return r
}

// components returns random components of a request, each once.
func components(r *http.Request, random *randv2.Rand) (list string) {
	all := []string{"@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query", "content-digest", `"signature-agent"`}
	for name := range r.Header {
		all = append(all, strings.ToLower(name))
	}
	for parameter := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if name, _, _ := strings.Cut(parameter, "="); name != "" {
			all = append(all, `"@query-param";name="`+name+`"`)
		}
	}
	if r.ContentLength > 0 {
		all = append(all, "content-length")
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, name := range all[:random.IntN(len(all)+1)] {
		if name == `"signature-agent"` && random.IntN(2) == 0 {
			name += `;key="agent2"`
		}
		list += " " + name
	}
	return "(" + strings.TrimPrefix(list, " ") + ")"
}

// parameters sets random fields of a configuration.
func parameters(config map[string]any, random *randv2.Rand) {
	for field, values := range map[string][]any{
		"created": {true, false}, "alg": {true, false}, "expires_seconds": {3_000_000_000}, "nonce": {"random", "once", `a "b" \c`},
		"tag": {"app"}, "keyid": {"k", `a "b" \c`}, "label": {"sig1", "*a-b.c_1"}, "content_digest": {"sha-256", "sha-512"},
	} {
		if random.IntN(2) == 0 {
			config[field] = values[random.IntN(len(values))]
		}
	}
	if strings.Contains(config["components"].(string), "signature-agent") {
		config["signature_agent"] = "https://bot.example/keys"
	}
}

// The package http-message-signatures verifies 2,000 random requests, with each algorithm, and refuses those that were changed.
func TestHTTPMessageSignatures(t *testing.T) {
	algorithms := []string{"hmac-sha256", "ed25519", "ecdsa-p256-sha256", "ecdsa-p384-sha384", "rsa-pss-sha512", "rsa-v1_5-sha256"}
	secrets, public := host.MapSecrets{}, map[string]string{}
	for _, algorithm := range algorithms {
		secrets[algorithm], public[algorithm] = keyPair(t, algorithm)
	}
	w := newSigner(t, "httpsignature", secrets)
	random := randv2.New(randv2.NewPCG(9421, 9530))
	var requests []signed
	for i := range 2000 {
		algorithm := algorithms[i%len(algorithms)]
		r := request(t, random)
		config := map[string]any{"private_key": "{{ get_secret('" + algorithm + "') }}", "algorithm": algorithm, "components": components(r, random)}
		if algorithm == "hmac-sha256" {
			config["private_key"] = "{{ base64_decode(get_secret('hmac-sha256')) }}"
		}
		parameters(config, random)
		sent := w.send("http_signature", config, r)
		sent.Judge, sent.Algorithm, sent.Key = "http-message-signatures", algorithm, public[algorithm]
		changed := sent
		changed.Headers = sent.Headers.Clone()
		changed.Headers.Set("Signature-Input", sent.Headers.Get("Signature-Input")+";more")
		requests = append(requests, sent, changed)
	}
	for i, verdict := range verify(t, requests) {
		if want := []string{"valid", "the signature does not verify"}[i%2]; verdict != want {
			t.Fatalf("%s: requests[i] = %+v", verdict, requests[i])
		}
	}
}

// The package web-bot-auth verifies requests, and that their keyid is the thumbprint of the key.
func TestWebBotAuth(t *testing.T) {
	private, public := keyPair(t, "ed25519")
	w := newSigner(t, "httpsignature", host.MapSecrets{"key": private})
	random := randv2.New(randv2.NewPCG(9421, 1))
	var requests []signed
	for i := range 100 {
		config := map[string]any{
			"private_key": "{{ get_secret('key') }}", "algorithm": "ed25519", "components": "@authority",
			"expires_seconds": 3_000_000_000, "nonce": "random", "tag": "web-bot-auth", "alg": i%4 < 2,
		}
		if i%2 == 0 {
			config["components"], config["signature_agent"] = "@authority signature-agent", "https://bot.example"
		}
		sent := w.send("http_signature", config, request(t, random))
		sent.Judge, sent.Key = "web-bot-auth", public
		requests = append(requests, sent)
	}
	requests[99].Headers.Set("Signature-Input", requests[98].Headers.Get("Signature-Input"))
	verdicts := verify(t, requests)
	if verdicts[99] == "valid" {
		t.Error("a signature for another request is valid")
	}
	for i, verdict := range verdicts[:99] {
		if verdict != "valid" {
			t.Fatalf("%s: requests[i] = %+v", verdict, requests[i])
		}
	}
}

// The package hawk verifies requests of the type hmac, and the hash of their body, with the configuration that its documentation has.
func TestHawk(t *testing.T) {
	const key = "werxhqb98rpaxn39848xrunpaw3489ruxnpa98w4rxn"
	w := newSigner(t, "signature", host.MapSecrets{"hawk-key": key})
	random := randv2.New(randv2.NewPCG(2104, 1))
	var requests []signed
	for range 200 {
		r := request(t, random)
		r.Header.Set("Content-Type", "Text/Plain")
		sent := w.send("hmac", map[string]any{
			"secret":   "{{ get_secret('hawk-key') }}",
			"parts":    map[string]any{"payload": `hawk.1.payload\n{header:content-type|lower}\n{body}\n`},
			"message":  `hawk.1.header\n{timestamp}\n{nonce}\n{method}\n{target}\n{hostname}\n{port}\n{payload|sha256|base64}\n\n`,
			"encoding": "base64", "key": "Authorization",
			"value": `Hawk id="dh37fgj492je", ts="{timestamp}", nonce="{nonce}", hash="{payload|sha256|base64}", mac="{signature}"`,
		}, r)
		sent.Judge, sent.Key = "hawk", key
		requests = append(requests, sent)
	}
	requests[199].Method = "HEAD"
	verdicts := verify(t, requests)
	if verdicts[199] == "valid" {
		t.Error("a signature for another method is valid")
	}
	for i, verdict := range verdicts[:199] {
		if verdict != "valid" {
			t.Fatalf("%s: requests[i] = %+v", verdict, requests[i])
		}
	}
}
