package secretstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// threats.md 32, 34: any invalid response to a login or a lookup is an error that does not quote it. Its size is limited. The
// next lookup after the trouble succeeds.
func TestTroubleWithTheServer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trouble func(w http.ResponseWriter, r *http.Request)
		want    string
	}{
		{"sealed", func(w http.ResponseWriter, r *http.Request) {
			fail(w, http.StatusServiceUnavailable, "Vault is sealed "+echo(r))
		}, "it answered 503: it is sealed, or down for maintenance"},
		{"internal error", func(w http.ResponseWriter, r *http.Request) {
			fail(w, http.StatusInternalServerError, echo(r))
		}, "it answered 500"},
		{"too many requests", func(w http.ResponseWriter, r *http.Request) {
			fail(w, http.StatusTooManyRequests, echo(r))
		}, "it answered 429: it is a standby, or has had too many requests"},
		{"nothing with 200", func(http.ResponseWriter, *http.Request) {}, "not as its API has it"},
		{"nothing with 204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "it answered 204"},
		{"HTML", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>", echo(r)) }, "does the address lead to Vault or OpenBao?"},
		{"a name that is there twice", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"auth":{"client_token":"a","client_token":"b"},"data":{"data":{"value":"a","value":"b"}}}`)
		}, "not as its API has it"},
		{"other types", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"auth":[%q],"data":[%q]}`, echo(r), echo(r))
		}, "not as its API has it"},
		{"no end of it", func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("x", 1<<10))
			}
		}, "more than 2097152 bytes"},
		{"no HTTP", func(w http.ResponseWriter, r *http.Request) { hijack(w, echo(r)+"\r\n\r\n") }, "does not speak HTTP as it should"},
		{"a status that is none", func(w http.ResponseWriter, r *http.Request) { hijack(w, "HTTP/1.1 "+echo(r)+"\r\n\r\n") }, "does not speak HTTP as it should"},
		{"a header that is none", func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\n"+echo(r)+"\r\n\r\n")
		}, "does not speak HTTP as it should"},
		{"a header without end", func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		}, "vault cannot be reached"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\"")
		}, "the connection was closed"},
		{"no answer", func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") }, "the connection was closed"},
	} {
		for _, when := range []string{"at the login", "at the read"} {
			t.Run(tt.name+" "+when, func(t *testing.T) {
				f, value := newCRMVault(t)
				store := f.byAppRole()
				if when == "at the read" {
					f.want(store, "crm", value)
				}
				f.with(func() {
					f.trouble = func(w http.ResponseWriter, r *http.Request) bool {
						tt.trouble(w, r)
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
	f.want(f.store(secretstore.VaultConfig{Address: plain.URL, HTTP: host.Egress{AllowHTTP: true}.AllowsHTTP, Token: f.token(0, false)}), "crm", value)
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
	_, err := secretstore.Vault(secretstore.VaultConfig{Address: "https://vault.test", Token: "t", Transport: transport, CAFile: f.file("ca.pem")})
	testworld.WantError(t, "", err, "ca_file: is for the store's own transport")
}
