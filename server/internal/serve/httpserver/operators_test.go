package httpserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

// startAt runs the servers at an address for operators, until the test ends. It returns the URL of operators, by an address of this
// machine.
func startAt(t *testing.T, c httpserver.Config, admin string) string {
	t.Helper()
	c.Admin = admin
	_, operators := startWith(t, c)
	return strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(operators)
}

// answered is an answer whose body has been read.
type answered struct{ *http.Response }

// get sends a request to operators, and returns the answer with its body.
func get(t *testing.T, client *http.Client, method, url string, header ...string) (answered, string) {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	response := testworld.Must(client.Do(r))(t)
	defer response.Body.Close()
	body := testworld.Must(io.ReadAll(response.Body))(t)
	return answered{response}, string(body)
}

// knows is a login that knows operators by a header.
func knows(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Operator") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// threats.md 156: without a login, no other machine can reach the operators' listener.
func TestOperatorsOfOtherMachinesLogIn(t *testing.T) {
	for admin, open := range map[string]bool{
		"127.0.0.1:0": false, "127.1.2.3:0": false, "localhost:0": false, "0.0.0.0:0": true, ":0": true, "[::]:0": true,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := httpserver.Run(ctx, httpserver.Config{
			Listen: "127.0.0.1:0", Admin: admin, Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler),
			Started: func(string, string) { cancel() },
		})
		if !open && err != nil || open && (err == nil || !strings.Contains(err.Error(), "on "+admin+": operators from other machines have to log in: name a file with a token in --admin-token-file, or listen on 127.0.0.1")) {
			t.Errorf("%s: the error is %v", admin, err)
		}
		cancel()
	}
}

// threats.md 156: behind a login, who has not logged in learns no more than whether the process is there and ready.
func TestOpenPathsWithLogin(t *testing.T) {
	var log bytes.Buffer
	at := startAt(t, httpserver.Config{
		Handler: http.NotFoundHandler(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Login: knows,
		Ready: func() error { return nil }, Notice: func() string { return "a notice" },
		Operate: map[string]http.Handler{"GET /metrics": http.NotFoundHandler(), "POST /connectors/{permalink}/test": http.NotFoundHandler()},
	}, "0.0.0.0:0")
	if !strings.Contains(log.String(), "operators use plain HTTP, and whoever is on the way to them can read their token") {
		t.Errorf("the log has %q", log.String())
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if answer, body := get(t, http.DefaultClient, http.MethodGet, at+path); answer.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d %q, want 200 %q", path, answer.StatusCode, body, want)
		}
	}
	for _, path := range []string{"/", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/trace", "/healthz/", "//healthz", "/connectors/a/test"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions} {
			if answer, _ := get(t, http.DefaultClient, method, at+path); answer.StatusCode != http.StatusUnauthorized && answer.Request.URL.Path != "/healthz" {
				t.Errorf("%s %s: %d, want 401", method, path, answer.StatusCode)
			}
		}
	}
	if answer, _ := get(t, http.DefaultClient, http.MethodGet, at+"/debug/pprof/", "X-Operator", "yes"); answer.StatusCode != http.StatusOK {
		t.Errorf("an operator is answered %d", answer.StatusCode)
	}
	if answer, _ := get(t, http.DefaultClient, http.MethodGet, at+"/healthz", "Host", "gateway.example.com"); answer.StatusCode != http.StatusOK {
		t.Errorf("by the name of the gateway: %d", answer.StatusCode)
	}
	down := startAt(t, httpserver.Config{
		Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler), Login: knows, Ready: func() error { return errors.New("details") },
	}, "127.0.0.1:0")
	if answer, body := get(t, http.DefaultClient, http.MethodGet, down+"/readyz"); answer.StatusCode != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("/readyz: %d %q", answer.StatusCode, body)
	}
}

// threats.md 157: where other machines reach it, the operators' listener has the TLS of callers.
func TestOperatorsHaveTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	var log bytes.Buffer
	c := httpserver.Config{
		Handler: http.NotFoundHandler(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Login: knows,
		TLS: &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12},
	}
	for admin, want := range map[string]string{"0.0.0.0:0": "https://", "127.0.0.1:0": "http://"} {
		at := startAt(t, c, admin)
		if answer, _ := get(t, server.Client(), http.MethodGet, at+"/healthz"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(at, want) {
			t.Errorf("%s: %s is answered %d", admin, at, answer.StatusCode)
		}
	}
	if strings.Contains(log.String(), "plain HTTP") {
		t.Errorf("the log has %q", log.String())
	}
}

// threats.md 46: a page of another origin makes an operator's browser do nothing, with or without a login. A person who follows a
// link of such a page decides.
func TestPagesOfOtherOrigins(t *testing.T) {
	reached := 0
	c := httpserver.Config{
		Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler),
		Operate: map[string]http.Handler{"/page": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })},
	}
	alone := startAt(t, c, "127.0.0.1:0")
	c.Login = knows
	behind := startAt(t, c, "127.0.0.1:0")
	own := strings.TrimPrefix(alone, "http://")
	for name, r := range map[string]struct {
		method string
		header []string
		status int
	}{
		"own page":                      {http.MethodPost, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"own page without a referrer":   {http.MethodPost, []string{"Sec-Fetch-Site", "same-origin", "Origin", "null"}, 200},
		"own page of an old browser":    {http.MethodPost, []string{"Origin", alone}, 200},
		"curl":                          {http.MethodPost, nil, 200},
		"form of another site":          {http.MethodPost, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		"form of another port":          {http.MethodPost, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, 403},
		"form of a frame":               {http.MethodPost, []string{"Origin", "null"}, 403},
		"form that navigates":           {http.MethodPost, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		"own page, with TLS":            {http.MethodPost, []string{"Origin", "https://" + own}, 403},
		"script of another site":        {http.MethodGet, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, 403},
		"frame of another site":         {http.MethodGet, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		"reading of another site":       {http.MethodGet, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://evil.example"}, 403},
		"preflight":                     {http.MethodOptions, []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 403},
		"value of Sec-Fetch-Site to be": {http.MethodGet, []string{"Sec-Fetch-Site", "new"}, 403},
	} {
		for at, login := range map[string][]string{alone: nil, behind: {"X-Operator", "yes"}} {
			if strings.Contains(name, "old browser") && at == behind {
				continue
			}
			reached = 0
			answer, _ := get(t, http.DefaultClient, r.method, at+"/page", append(login, r.header...)...)
			if answer.StatusCode != r.status || (reached == 1) != (r.status == 200) {
				t.Errorf("%s: %d, want %d, and the page was reached %d times", name, answer.StatusCode, r.status, reached)
			}
			if answer.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: the answer may be read", name)
			}
		}
	}

	reached = 0
	linked := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	answer, body := get(t, http.DefaultClient, http.MethodGet, alone+"/page?q=of-the-link", linked...)
	if answer.StatusCode != http.StatusForbidden || !strings.Contains(body, `<a href="">`) || strings.Contains(body, "of-the-link") || reached > 0 {
		t.Errorf("a link of another page is answered %d with %s, and the page was reached %d times", answer.StatusCode, body, reached)
	}
	answer, _ = get(t, http.DefaultClient, http.MethodGet, alone+"/page")
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "same-origin",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// A page whose name leads here has the origin of its own name.
	rebound := []string{"Host", "rebound.evil.example", "Origin", "http://rebound.evil.example", "Sec-Fetch-Site", "same-origin"}
	if answer, _ := get(t, http.DefaultClient, http.MethodGet, alone+"/page", rebound...); answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("without a login, a page with a name for this address is answered %d", answer.StatusCode)
	}
	if answer, _ := get(t, http.DefaultClient, http.MethodGet, behind+"/page", rebound...); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("behind a login, a page with a name for this address is answered %d", answer.StatusCode)
	}
}
