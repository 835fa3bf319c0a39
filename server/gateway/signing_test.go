package gateway_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// These tests use examples/acme_hmac, a plugin that signs the body (threats.md 59 and 60).

// signing returns a change to a connector that signs its requests, with a limit for bodies in bytes.
func signing(t *testing.T, limit int64) change {
	t.Helper()
	top := testworld.Must(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/keywright/keywright").Output())(t)
	wasm, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(top)), "examples", "acme_hmac", "acme_hmac.wasm"))
	if err != nil {
		t.Fatalf("%v: make plugins compiles it", err)
	}
	return func(o *options, d *gateway.Definition) {
		o.Plugins = []host.Plugin{{Name: "acme_hmac.wasm", Wasm: wasm}}
		d.Methods, d.Paths, d.Limits.RequestBytes = []string{"GET", "POST"}, []string{"/**"}, limit
		d.Auth = []host.Auth{{Type: "acme_hmac", Config: map[string]any{"key_id": "north-1", "secret": "{{ get_secret('key') }}"}}}
	}
}

// verified reports whether a request has a valid signature.
func verified(r *http.Request, body []byte) bool {
	rest, ours := strings.CutPrefix(r.Header.Get("Authorization"), "ACME-HMAC-SHA256 key=north-1, time=")
	at, signature, _ := strings.Cut(rest, ", signature=")
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%s\n%s\n%s\n%x", r.Method, r.URL.RequestURI(), at, sha256.Sum256(body))
	return ours && signature == hex.EncodeToString(mac.Sum(nil))
}

func signingWorld(t *testing.T, limit int64) *world {
	t.Helper()
	w := newWorld(t, signing(t, limit))
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		body := w.bodies[len(w.bodies)-1]
		w.mu.Unlock()
		if !verified(r, []byte(body)) {
			rw.WriteHeader(http.StatusForbidden)
		}
	}
	return w
}

// streamed hides the length of a request's body from net/http, so that it is sent in chunks.
func streamed(r *http.Request) *http.Request {
	r.Body, r.GetBody, r.ContentLength = io.NopCloser(io.MultiReader(r.Body)), nil, -1
	return r
}

func TestSignedRequestsWithABody(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	const limit = 9 << 20 // more than the host's default
	large := strings.Repeat("0123456789abcdef", 1<<16)
	w := signingWorld(t, limit)
	for name, c := range map[string]struct {
		method string
		length int
		chunks bool
		status int
	}{
		"GET":                        {"GET", 0, false, 200},
		"POST, empty":                {"POST", 0, false, 200},
		"POST, empty, in chunks":     {"POST", 0, true, 200},
		"POST, short":                {"POST", 20, false, 200},
		"POST, short, in chunks":     {"POST", 20, true, 200},
		"POST, 1 MiB":                {"POST", 1 << 20, false, 200},
		"POST, 1 MiB, in chunks":     {"POST", 1 << 20, true, 200},
		"POST, the limit":            {"POST", limit, false, 200},
		"POST, the limit, in chunks": {"POST", limit, true, 200},
		"POST, over it, in chunks":   {"POST", limit + 1, true, 413},
	} {
		t.Run(name, func(t *testing.T) {
			w.mu.Lock()
			w.got, w.bodies = nil, nil
			w.mu.Unlock()
			body := strings.Repeat(large, 10)[:c.length]
			r := w.request(c.method, "/connectors/weather/orders", body)
			if c.chunks {
				r = streamed(r)
			}
			got := w.do(r)
			if got.status != c.status || c.status == 413 && got.kind != "body-too-large" {
				t.Fatalf("the caller got %d %s: %s", got.status, got.kind, got.body)
			}
			if c.status == 413 {
				if w.received() > 0 {
					t.Error("the API received a request")
				}
				return
			}
			if sent := w.last(); w.bodies[0] != body || sent.ContentLength != int64(c.length) || len(sent.TransferEncoding) > 0 {
				t.Errorf("the API received %d bytes, with the length %d and the encoding %q", len(w.bodies[0]), sent.ContentLength, sent.TransferEncoding)
			}
		})
	}
	w.server.Close() // waits for all handlers
	w.api.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	for end := time.Now().Add(time.Minute); ; { // net/http may close a request's body after the answer
		open := openBelow(t, dir)
		if len(open) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v are open", open)
		}
	}
}

// threats.md 59: the file of a kept body is closed if the gateway does not send the signed request.
func TestUnsentBodyClosed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	w := newWorld(t, signing(t, 1<<20), func(o *options, d *gateway.Definition) {
		d.URL, d.TLS = "https://api.example", &host.TLS{CA: testworld.NewAuthority(t).PEM()}
		o.Base = testworld.Answer(nil) // takes the place of the transport with tls
	})
	if got := w.do(w.request("POST", "/connectors/weather/orders", strings.Repeat("x", 1<<18))); got.kind != "authentication-failed" {
		t.Fatalf("the caller got %d %s", got.status, got.body)
	}
	if open := openBelow(t, dir); len(open) > 0 {
		t.Errorf("%v are open", open)
	}
}

// openBelow returns the open files of this process in a directory, including removed ones.
func openBelow(t *testing.T, dir string) (open []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(all) == 0 {
		t.Fatalf("the process has no open files in /proc/self/fd: %v", err)
	}
	for _, descriptor := range all {
		if target, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(target, dir) {
			open = append(open, target)
		}
	}
	return open
}

// threats.md 42 and 60: no part of a malformed or too large body is sent.
func TestSignedRequestsWithABadBody(t *testing.T) {
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"chunk without a size":       {"Transfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n", 400},
		"chunk longer than its size": {"Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n", 400},
		"over the limit":             {"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", 413},
		"length over the limit":      {"Content-Length: 11\r\n\r\nhello world", 413},
		"length that is asked about": {"Content-Length: 11\r\nExpect: 100-continue\r\n\r\n", 413},
	} {
		w := signingWorld(t, 10)
		address := strings.TrimPrefix(w.server.URL, "http://")
		got := exchange(t, address, "POST /connectors/weather/a HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n"+c.raw, 1, true)
		if len(got) != 1 || got[0] != c.status || w.received() > 0 {
			t.Errorf("%s: the caller got %v, the API received %d requests", name, got, w.received())
		}
	}
}

// A caller that waits for 100 Continue gets it before the request is sent to the API.
func TestSignedBodyRequested(t *testing.T) {
	w := signingWorld(t, 0)
	address := strings.TrimPrefix(w.server.URL, "http://")
	conn := testworld.Must(net.Dial("tcp", address))(t)
	defer conn.Close()
	testworld.Check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, _ = io.WriteString(conn, "POST /connectors/weather/a HTTP/1.1\r\nHost: "+address+"\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	from := bufio.NewReader(conn)
	if line, err := from.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100 ") || err != nil {
		t.Fatalf("the caller got %q, %v", line, err)
	}
	_, _ = io.WriteString(conn, "hello")
	if _, err := from.ReadString('\n'); err != nil { // the empty line after 100 Continue
		t.Fatal(err)
	}
	response := testworld.Must(http.ReadResponse(from, nil))(t)
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK || w.last().Header.Get("Expect") != "" {
		t.Errorf("the answer is %d", response.StatusCode)
	}
}

// inABubble runs a test in a synctest bubble. Its API is a function, because nothing in a bubble may wait for a network.
func inABubble(t *testing.T, do func(t *testing.T, handler http.Handler, sent *int, events *[]gateway.Event)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sent, events := 0, []gateway.Event(nil)
		o, d := &options{}, gateway.Definition{Name: "Weather", Permalink: "weather", URL: "http://api.test/v1", Timeout: time.Second}
		signing(t, 0)(o, &d)
		h := testworld.Must(host.New(t.Context(), host.Config{Secrets: host.MapSecrets{"key": secret}, Egress: host.Egress{AllowHTTP: true}, Plugins: o.Plugins}))(t)
		defer func() { _ = h.Close(context.Background()) }()
		c := testworld.Must(gateway.NewConnector(t.Context(), h, d))(t)
		g := gateway.New(gateway.Config{
			Observe: func(e gateway.Event) { events = append(events, e) },
			Base: testworld.Answer(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				if sent++; err != nil || !verified(r, body) {
					return nil, errors.New("not signed")
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			}),
		})
		g.Use(gateway.Setup{Connectors: []*gateway.Connector{c}})
		do(t, g.Handler(), &sent, &events)
	})
}

func post(ctx context.Context, body io.Reader) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/connectors/weather/orders", body)
}

// The connector's timeout limits the API and the token endpoint, but not the caller that sends a body to be signed. The server
// limits the caller's time.
func TestSlowSignedBodyTime(t *testing.T) {
	inABubble(t, func(t *testing.T, handler http.Handler, _ *int, _ *[]gateway.Event) {
		body, sender := io.Pipe()
		go func() {
			for range 10 {
				<-time.After(20 * time.Second) // in the bubble's time
				_, _ = io.WriteString(sender, "a piece of it")
			}
			_ = sender.Close()
		}()
		recorder := httptest.NewRecorder()
		if handler.ServeHTTP(recorder, post(t.Context(), body)); recorder.Code != http.StatusOK {
			t.Errorf("the caller got %d %s", recorder.Code, recorder.Body)
		}
	})
}

// threats.md 49 and 59: if a caller leaves in the middle of a body, the request ends, and does not count as a failure.
func TestACallerWhoLeavesASignedBody(t *testing.T) {
	inABubble(t, func(t *testing.T, handler http.Handler, sent *int, events *[]gateway.Event) {
		ctx, leave := context.WithCancel(t.Context())
		body, sender := io.Pipe()
		go func() {
			_, _ = io.WriteString(sender, "a piece of it")
			leave()
			_ = sender.CloseWithError(io.ErrUnexpectedEOF) // the error of net/http's server
		}()
		handler.ServeHTTP(httptest.NewRecorder(), post(ctx, body))
		if len(*events) != 1 || (*events)[0].Status != 499 || (*events)[0].Problem != "caller-gone" || *sent > 0 {
			t.Errorf("operators are told %+v, the API was asked %d times", *events, *sent)
		}
	})
}
