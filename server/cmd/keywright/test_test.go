package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

const testedConnectors = `
connectors:
  - name: orders
    url: $API
    method: [GET, POST]
    paths: ["/*"]
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
  - name: wrong
    url: $API
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: $API/wrong}}
  - name: signed
    url: $API
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: $API/token}}
  - name: basic
    url: $API
    paths: ["/*"]
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: $API/basic}}
`

// testedGateway returns the URL of a gateway for callers, and that for operators, who need the token.
func testedGateway(t *testing.T, token string) (callers, operators string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wrong":
			http.Error(w, `{"error":"invalid_client","error_description":"no such client"}`, http.StatusUnauthorized)
		case "/basic":
			if _, _, ok := r.BasicAuth(); !ok {
				http.Error(w, `{"error":"invalid_client"}`, http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, `{"access_token":"an-access-token-of-basic","token_type":"Bearer","expires_in":60}`)
		case "/token":
			http.Error(w, `{"error":"server_error"}`, http.StatusServiceUnavailable)
		case "/refused":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case "/echo":
			_, _ = io.WriteString(w, r.Header.Get("X-Key"))
		case "/stream":
			_, _ = io.WriteString(w, "data: a\n\n")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "data: b\n\n")
		case "/binary":
			_, _ = w.Write([]byte{0, 0xff, 0x80, '\n'})
		case "/body":
			_, _ = io.Copy(w, r.Body)
		case "/ok":
			_, _ = io.WriteString(w, "{}\n")
		}
	}))
	t.Cleanup(api.Close)
	clock := testworld.NewClock(time.Now())
	set, err := connectors.Read(t.Context(), "connectors.yaml", []byte(strings.ReplaceAll(testedConnectors, "$API", api.URL)), connectors.Options{
		Host: host.Config{Clock: clock.Now, Secrets: host.MapSecrets{"key": "hunter2hunter2"}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}},
	})
	testworld.Check(t, err)
	t.Cleanup(func() { _ = set.Close(context.WithoutCancel(t.Context())) })
	g := gateway.New(gateway.Config{Clock: clock.Now})
	g.Use(gateway.Setup{Connectors: set.Connectors})
	atCallers := httptest.NewServer(g.Handler())
	t.Cleanup(atCallers.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/connectors/{permalink}/test", func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		g.Test().ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /denied/api/v1/connectors/{permalink}/test", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this session is not of an operator: its claim role is not ops", http.StatusForbidden)
	})
	atOperators := httptest.NewServer(mux)
	t.Cleanup(atOperators.Close)
	return atCallers.URL, atOperators.URL
}

// keywright test writes what a caller gets, byte by byte: status, headers and body.
func TestTestMatchesCallers(t *testing.T) {
	callers, operators := testedGateway(t, "")
	const trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	for _, c := range []struct {
		name, connector, path, body string
		code                        int
	}{
		{"success", "orders", "ok", "", exitOK},
		{"a body", "orders", "body", "\xff\x00", exitOK},
		{"the API's 401", "orders", "refused", "", exitOK},
		{"a problem of the token endpoint", "signed", "", "", exitFailure},
		{"an echo", "orders", "echo", "", exitFailure},
		{"a stream", "orders", "stream", "", exitOK},
		{"an empty body", "orders", "empty", "", exitOK},
		{"a binary body", "orders", "binary", "", exitOK},
		{"no such path", "orders", "a/b", "", exitFailure},
	} {
		method, args := http.MethodGet, []string{"test", "--admin", operators, "-i", "-H", "Traceparent: " + trace, c.connector, c.path}
		if c.body != "" {
			file := testworld.File(t, "body", c.body)
			method, args = http.MethodPost, append(args, "-d", "@"+file)
		}
		request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(callers+"/connectors/"+c.connector+"/"+c.path, "/"), strings.NewReader(c.body))
		testworld.Check(t, err)
		request.Header.Set("Traceparent", trace)
		response := testworld.Must(http.DefaultTransport.RoundTrip(request))(t)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		testworld.Check(t, err)
		code, stdout, errs := keywright(t.Context(), args...)
		if code != c.code {
			t.Errorf("%s: exit %d, %s", c.name, code, errs)
		}
		wanted := &strings.Builder{}
		a := newApp(nil, wanted, io.Discard, os.Getenv)
		response.Body = io.NopCloser(strings.NewReader(string(body)))
		testworld.Check(t, a.writeResponse(response, true))
		if got, want := timeless(stdout), timeless(wanted.String()); got != want {
			t.Errorf("%s: the caller got\n%s\nthe operator\n%s", c.name, want, got)
		}
		if strings.Contains(stdout+errs, "hunter2") {
			t.Errorf("%s: the secret is in the output", c.name)
		}
	}
}

// timeless returns an answer without its times: those in Server-Timing, and Date, which net/http adds if there is none.
func timeless(text string) string {
	return times.ReplaceAllString(text, "$1")
}

var times = regexp.MustCompile(`(?m)^(Server-Timing): .*\n|^Date: .*\n`)

// keywright test shows the stages, the request and the exchanges, masked, and the cause, and writes them as JSON for machines.
func TestTestOutput(t *testing.T) {
	_, operators := testedGateway(t, "")
	code, stdout, errs := keywright(t.Context(), "test", "--admin", operators, "signed")
	for _, part := range []string{
		"request  ", "token  ", "ms  failed\n", "the request to the API, which was not sent\n  GET http", "Bearer <token>",
		"the request to the token endpoint\n  POST http", "client_secret={{ get_secret('key') }}", "the answer 503 Service Unavailable, after", "authentication-failed: connector \"signed\"",
		"a caller gets 502 Bad Gateway; request ",
	} {
		if !strings.Contains(errs, part) {
			t.Errorf("no %q in:\n%s", part, errs)
		}
	}
	if code != exitFailure || !strings.HasPrefix(stdout, `{"type":"urn:keywright:problem:authentication-failed"`) {
		t.Errorf("exit %d, %s", code, stdout)
	}
	code, stdout, errs = keywright(t.Context(), "test", "--admin", operators, "--json", "orders", "/ok")
	var result trial.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK || result.Status != http.StatusOK || string(result.Body) != "{}\n" || errs != "" {
		t.Errorf("exit %d, %v, %s %s", code, err, stdout, errs)
	}
}

// keywright test says what to do when no test is run.
func TestRefusedTests(t *testing.T) {
	const token = "the-token-of-operators"
	_, operators := testedGateway(t, token)
	file := testworld.File(t, "token", token+"\n")
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a misspelt connector": {[]string{"--admin", operators, "--token-file", file, "ordrs"}, exitFailure, `connector "ordrs": there is no such connector; did you mean "orders"?`},
		"no token":             {[]string{"--admin", operators, "orders"}, exitFailure, "operators to log in: give the token of its --admin-token-file, or a session token with its --admin-claim, with --token-file"},
		"with the token":       {[]string{"--admin", operators, "--token-file", file, "orders", "/ok"}, exitOK, "a caller gets 200 OK"},
		"another's session":    {[]string{"--admin", operators + "/denied", "orders"}, exitFailure, "the gateway answered 403: this session is not of an operator: its claim role is not ops"},
		"no gateway":           {[]string{"--admin", nobody.URL, "orders"}, exitFailure, "no gateway answers at " + nobody.URL},
		"another server":       {[]string{"--admin", operators + "/elsewhere", "orders"}, exitFailure, "is --admin the address for operators?"},
		"no URL":               {[]string{"--admin", "127.0.0.1:8081", "orders"}, exitUsage, "--admin wants a URL"},
		"plain http":           {[]string{"--admin", "http://gateway.test:8081", "--token-file", file, "orders"}, exitUsage, "could read the token: use https"},
		"no file":              {[]string{"--admin", operators, "--token-file", file + "x", "orders"}, exitFailure, "--token-file: "},
		"a file":               {[]string{"-c", "connectors.yaml", "orders"}, exitUsage, "test asks the gateway that runs; it takes --admin URL, not -c"},
		"no connector":         {nil, exitUsage, "without CONNECTOR"},
	} {
		code, _, errs := keywright(t.Context(), append([]string{"test"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Contains(errs, token) {
			t.Errorf("%s: Sprint = %s", name, fmt.Sprint(code, " ", errs))
		}
	}
}

// keywright test reaches a gateway whose certificate is of an authority that the system does not know, if a file has it.
func TestTestOfAGatewayWithItsOwnAuthority(t *testing.T) {
	_, plain := testedGateway(t, "")
	target := testworld.Must(url.Parse(plain))(t)
	authority := testworld.NewAuthority(t)
	secure := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}, MinVersion: tls.VersionTLS12}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"with the authority": {[]string{"--ca-file", testworld.File(t, "ca.pem", authority.PEM())}, exitOK, "a caller gets 200 OK"},
		"without":            {nil, exitFailure, "if its authority is your own, name its certificate with --ca-file"},
		"another authority":  {[]string{"--ca-file", testworld.File(t, "other.pem", testworld.NewAuthority(t).PEM())}, exitFailure, "is refused"},
		"no certificate":     {[]string{"--ca-file", testworld.File(t, "none.pem", "hello")}, exitFailure, "none.pem has no certificate in PEM"},
		"no such file":       {[]string{"--ca-file", filepath.Join(t.TempDir(), "x")}, exitFailure, "--ca-file: "},
	} {
		exitsWith(t, c.code, c.want, append([]string{"test", "--admin", secure.URL, "orders", "/ok"}, c.args...)...)
	}
}

// keywright test says that a refusal is remembered, and how to ask anew. threats.md 241: within a second of the answer, that does not ask.
func TestTestOfARememberedRefusal(t *testing.T) {
	_, operators := testedGateway(t, "")
	const just = "the token endpoint was not asked: it answered 401 (invalid_client) less than 1 s ago, and requests of callers ask it again in 1 s; --ask-anew asks it at most once a second: try again in 1 s\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "the answer 401 Unauthorized"},
		{nil, just},
		{[]string{"--ask-anew"}, just},
	} {
		_, _, errs := keywright(t.Context(), append([]string{"test", "--admin", operators, "wrong"}, c.args...)...)
		if !strings.Contains(errs, c.want) || !strings.Contains(errs, "The client id or its secret is wrong") {
			t.Errorf("%q says\n%s", c.args, errs)
		}
	}
}

// keywright test says right after the stage that failed what to do, and how to see an error_description that is masked.
func TestTestRemedies(t *testing.T) {
	const masked = "  error_description is masked: --error-description shows what the endpoint says\n"
	for _, asked := range []bool{false, true} {
		_, operators := testedGateway(t, "")
		args := []string{"test", "--admin", operators, "wrong"}
		if asked {
			args = append(args, "--error-description")
		}
		_, _, errs := keywright(t.Context(), args...)
		if !regexp.MustCompile(`ms  failed\nThe client id or its secret is wrong`).MatchString(errs) || strings.Count(errs, "The client id") != 1 {
			t.Errorf("the remedy is not after what failed:\n%s", errs)
		}
		if strings.Contains(errs, masked) == asked || strings.Contains(errs, "the endpoint's error_description: no such client") != asked {
			t.Errorf("asked for it %t, the error_description shows as\n%s", asked, errs)
		}
	}
	_, operators := testedGateway(t, "")
	if _, _, errs := keywright(t.Context(), "test", "--admin", operators, "orders", "/refused"); strings.Count(errs, "ms\nThe API does not take the credential") != 1 {
		t.Errorf("the API refused the request:\n%s", errs)
	}
}

// keywright test finds the client_auth that a token endpoint takes, once the operator agrees, and says which line to write.
func TestTestClientAuths(t *testing.T) {
	_, operators := testedGateway(t, "")
	both := []string{"test", "--admin", operators, "--client-auth", "both"}
	exitsWith(t, exitFailure, "may count as a failed login, and some lock a client after a few. Try? [y/N] keywright: nothing was tried: answer y, or give --yes", append(both, "basic", "/ok")...)
	var out, errs strings.Builder
	if code := run(t.Context(), append(both, "basic", "/ok"), strings.NewReader("y\n"), &out, &errs, noEnvironment); code != exitOK || out.String() != "{}\n" {
		t.Errorf("exit %d, %s", code, out.String())
	}
	for _, line := range []string{
		"\nclient_auth: client_secret_post  refused, with 400 invalid_client\n",
		"\nclient_auth: client_secret_basic  not refused: write this line into auth.config of the connector\n",
	} {
		if !strings.Contains(errs.String(), line) {
			t.Errorf("no %q in\n%s", line, errs.String())
		}
	}
	if text := out.String() + errs.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "an-access-token") {
		t.Errorf("a credential is in\n%s", text)
	}
	exitsWith(t, exitFailure, "client_auth: client_secret_basic  refused, with 401 invalid_client\nNo client_auth helps: the client id or its secret is wrong.\n", append(both, "--yes", "wrong")...)
	exitsWith(t, exitFailure, "client_auth: client_secret_post  not refused\na caller", append(both, "--yes", "signed")...) // a 503 says nothing of the client
	exitsWith(t, exitOK, "The auth type of the connector has no client_auth.", append(both, "--yes", "orders", "/ok")...)
	exitsWith(t, exitUsage, "--client-auth is both", append(both[:3], "--client-auth", "basic", "basic")...)
	exitsWith(t, exitUsage, "--yes goes with --client-auth both", append(both[:3], "--yes", "basic")...)
}
