package secretstore_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// echo returns a text that a hostile server could send: the token and the body of the request.
func echo(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return r.Header.Get("X-Vault-Token") + " " + string(body)
}

// hijack sends raw bytes as the response.
func hijack(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}

// A trouble is an answer that no request expects. It gets a text that a hostile server could send, with the token and the body of the
// request.
type trouble struct {
	answer func(w http.ResponseWriter, echo string)
	want   string
}

// says returns an answer with the echo, quoted, in place of %s.
func says(status int, format string) func(w http.ResponseWriter, echo string) {
	return func(w http.ResponseWriter, echo string) {
		w.WriteHeader(status)
		quoted, _ := json.Marshal(echo)
		_, _ = io.WriteString(w, strings.ReplaceAll(format, "%s", string(quoted)))
	}
}

// leads returns a redirect to a path of the server, or to another host, with the echo in it.
func leads(status int, to string) func(w http.ResponseWriter, echo string) {
	return func(w http.ResponseWriter, echo string) {
		w.Header().Set("Location", to+"?echo="+url.QueryEscape(echo))
		w.WriteHeader(status)
	}
}

// raw returns an answer of these bytes, with the echo in place of %s.
func raw(format string) func(w http.ResponseWriter, echo string) {
	return func(w http.ResponseWriter, echo string) { hijack(w, strings.ReplaceAll(format, "%s", echo)) }
}

const (
	notItsAPI   = "the answer is not as its API has it"
	notHTTP     = "does not speak HTTP as it should"
	notFollowed = "a redirect, which is not followed"
)

// troubles has answers to any request: to log in, to read a secret, to describe a key, or to sign.
var troubles = map[string]trouble{
	"sealed":                     {says(503, `{"errors":[%s]}`), "it answered 503: it is sealed"},
	"internal error":             {says(500, `{"errors":[%s]}`), "it answered 500"},
	"too many requests":          {says(429, `{"errors":[%s]}`), "it answered 429: it is a standby, or has had too many requests"},
	"a status without meaning":   {says(299, `{"errors":[%s]}`), "it answered 299"},
	"nothing with 200":           {says(200, ""), notItsAPI},
	"nothing with 204":           {says(204, ""), "it answered 204"},
	"HTML":                       {says(200, "<html>%s"), "does the address lead to Vault or OpenBao?"},
	"half a document":            {says(200, `{"data":{"signature":"vault:v1:AAAA"`), notItsAPI},
	"a name twice":               {says(200, `{"auth":{},"auth":{},"data":{},"data":{}}`), notItsAPI},
	"a list":                     {says(200, `[]`), notItsAPI},
	"other types":                {says(200, `{"auth":[%s],"data":[%s]}`), notItsAPI},
	"nested without end":         {says(200, `{"data":`+strings.Repeat("[", 1<<20)), notItsAPI},
	"not UTF-8":                  {says(200, "{\"data\":{\"signature\":\"\xff\",\"type\":\"\xff\"}}"), notItsAPI},
	"an echo":                    {says(200, `%s`), notItsAPI},
	"an echo after the document": {says(200, `{} %s`), notItsAPI},
	"no end of it": {func(w http.ResponseWriter, _ string) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
	}, "more than 2097152 bytes"},
	"a redirect to itself":      {leads(307, "/v1/transit/sign/ES256"), notFollowed},
	"a redirect elsewhere":      {leads(308, "https://api.test/orders"), notFollowed},
	"a redirect to see":         {leads(303, "https://api.test/orders"), notFollowed},
	"a redirect without target": {says(302, ""), notFollowed},
	"no HTTP":                   {raw("%s\r\n\r\n"), notHTTP},
	"a status that is none":     {raw("HTTP/1.1 %s\r\n\r\n"), notHTTP},
	"a header that is none":     {raw("HTTP/1.1 200 OK\r\n%s\r\n\r\n"), notHTTP},
	"a header without end":      {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), "vault cannot be reached"},
	"half a body":               {raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\""), "it closed the connection"},
	"no answer":                 {raw(""), "it closed the connection"},
}

// threats.md 32, 34: any invalid response to a login or a lookup is an error that does not quote it. Its size is limited. The
// next lookup after the trouble succeeds.
func TestTroubleWithTheServer(t *testing.T) {
	for name, tt := range troubles {
		for _, when := range []string{"at the login", "at the read"} {
			t.Run(name+" "+when, func(t *testing.T) {
				f, value := newCRMVault(t)
				store := f.byAppRole()
				if when == "at the read" {
					f.want(store, "crm", value)
				}
				f.with(func() {
					f.trouble = func(w http.ResponseWriter, r *http.Request) bool {
						tt.answer(w, echo(r))
						return true
					}
				})
				f.wantFailure(store, "crm", tt.want)
				f.with(func() { f.trouble = nil })
				f.want(store, "crm", value)
			})
		}
	}
}

// threats.md 24: the target of a redirect gets neither the token nor the credential of the login.
func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, when := range []string{"login", "read"} {
			t.Run(fmt.Sprint(status, " at the ", when), func(t *testing.T) {
				f, value := newCRMVault(t)
				store := f.byAppRole()
				if when == "read" {
					f.want(store, "crm", value)
				}
				f.with(func() {
					f.trouble = func(w http.ResponseWriter, r *http.Request) bool {
						to := other.URL
						if r.URL.Query().Has("again") { // a redirect to the server itself would be a second request
							elsewhere.Add(1)
						} else if status%2 == 0 {
							to = "?again"
						}
						http.Redirect(w, r, to, status)
						return true
					}
				})
				f.wantFailure(store, "crm", fmt.Sprintf("it answered %d, a redirect, which is not followed", status))
				if n := elsewhere.Load(); n > 0 {
					t.Errorf("%d requests followed", n)
				}
			})
		}
	}
}

// inMemory is a transport to a server without a network, so that the test controls the time. If trouble is set, it responds
// instead of the server.
type inMemory struct {
	server  http.Handler
	trouble func(*http.Request) (*http.Response, error)
}

func (m *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.trouble != nil {
		return m.trouble(r)
	}
	received := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	received.Header = r.Header
	answer := httptest.NewRecorder()
	m.server.ServeHTTP(answer, received)
	return answer.Result(), nil
}

// A drip is a body of one byte per second that lasts as long as its request.
type drip struct{ ctx context.Context }

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		return copy(p[:1], " "), nil
	}
}

// slowAnswers are answers that do not end before their request does.
var slowAnswers = map[string]testworld.Answer{
	"silent": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
	"a drop at a time": func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(drip{r.Context()}), Request: r}, nil
	},
}

func TestSilentServer(t *testing.T) {
	for name, trouble := range slowAnswers {
		for _, when := range []string{"at the login", "at the read"} {
			t.Run(name+" "+when, func(t *testing.T) {
				f, value := newCRMVault(t)
				synctest.Test(t, func(t *testing.T) {
					f.t = t
					const timeout = 10 * time.Second
					server := &inMemory{server: f}
					store := f.store(secretstore.VaultConfig{AppRole: f.appRole(), Timeout: timeout, Transport: server})
					if when == "at the read" {
						f.want(store, "crm", value)
					}
					server.trouble = trouble
					begin := time.Now()
					_, err := store.Secret(t.Context(), "crm")
					f.OutError("an error", err)
					if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, host.ErrSecretNotFound) {
						t.Errorf("the error is %v", err)
					}
					if took := time.Since(begin); took > timeout {
						t.Errorf("it took %s", took)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					errGone := errors.New("the browser has gone")
					cancel(errGone)
					_, err = store.Secret(ctx, "crm")
					if !errors.Is(err, errGone) {
						t.Errorf("who has gone gets %v", err)
					}
					synctest.Wait()
					server.trouble = nil
					f.want(store, "crm", value)
				})
			})
		}
	}
}

// threats.md 28: nothing is sent to a server without a trusted certificate.
func TestUntrustedServer(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(plain.Close)
	for _, tt := range []struct {
		name, address, ca, want string
	}{
		{"an authority that is not known", "", "system", "its certificate is signed by an unknown authority, give ca_file"},
		{"another name", "localhost", "ca.pem", "its certificate is for another name"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), "ca.pem", "does not speak TLS"},
		{"nobody there", "https://127.0.0.1:1", "ca.pem", "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeVault(t)
			f.put("crm", map[string]any{"value": f.Secret("a secret")})
			c := secretstore.VaultConfig{Address: cmp.Or(tt.address, f.server.URL), AppRole: f.appRole(), CAFile: f.file("ca.pem"), Clock: f.Now}
			if tt.ca == "system" {
				c.CAFile = ""
			}
			if tt.address == "localhost" { // a name that resolves without DNS and is not in the certificate
				c.Address = strings.Replace(f.server.URL, "127.0.0.1", "localhost", 1)
			}
			store := testworld.Must(secretstore.Vault(c))(t)
			f.wantFailure(store, "crm", tt.want)
			if len(f.requests) > 0 {
				t.Errorf("it was asked %q", f.requests)
			}
		})
	}
}

func TestAllowedPlainHTTP(t *testing.T) {
	f, value := newCRMVault(t)
	plain := httptest.NewServer(f)
	t.Cleanup(plain.Close)
	f.want(f.store(secretstore.VaultConfig{Address: plain.URL, HTTP: host.Egress{AllowHTTP: true}.AllowsHTTP, TokenFile: f.tokenFile(f.token(0, false))}), "crm", value)
}

func TestATransportOfTheCallers(t *testing.T) {
	f, value := newCRMVault(t)
	var calls int
	transport := testworld.Answer(func(r *http.Request) (*http.Response, error) {
		calls++
		if calls > 2 {
			return nil, errors.New("failed with " + r.Header.Get("X-Vault-Token"))
		}
		return f.server.Client().Transport.RoundTrip(r)
	})
	store := f.store(secretstore.VaultConfig{Transport: transport, AppRole: f.appRole()})
	f.want(store, "crm", value)
	f.wantFailure(store, "crm", "does not speak HTTP as it should")
}
