package host_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Answers that pass Connector.GuardedTransport: threats.md 45.

// credentialOf returns the credential of a request.
func credentialOf(r *http.Request) string {
	if _, credential, found := strings.Cut(r.Header.Get("Authorization"), " "); found {
		return credential
	}
	return r.Header.Get("X-Key") + r.URL.Query().Get("key")
}

// written returns a text in the form of a name.
func written(text, form string) string {
	forms := testworld.Forms(text)
	return forms[slices.IndexFunc(forms, func(f testworld.Form) bool { return f.Name == form })].Text
}

// echoing starts a server with a token endpoint. At /echo it answers with the credential in one of its forms, and at
// /fine with a part that is too short to be found.
func echoing(t *testing.T) *httptest.Server {
	var tokens atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/token", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"access_token":"token-%d/%s","token_type":"Bearer","expires_in":3600}`, tokens.Add(1), url.QueryEscape(testworld.RandomSecret()))
	})
	mux.HandleFunc("/echo", func(rw http.ResponseWriter, r *http.Request) {
		form := written(credentialOf(r), r.URL.Query().Get("form"))
		for _, piece := range []string{strings.Repeat("before ", 1000), form[:len(form)/2], form[len(form)/2:], " after"} {
			_, _ = io.WriteString(rw, piece)
			_ = http.NewResponseController(rw).Flush()
		}
	})
	mux.HandleFunc("/fine", func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, strings.Repeat("nothing of it, "+credentialOf(r)[:7]+" ", 5000))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// read reads an answer, and records all of it as output of the host.
func (w *world) read(response *http.Response, err error) (string, error) {
	w.OutError("the error", err)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.OutError("the body's error", err)
	w.Out("the body", string(body))
	w.Out("the answer", fmt.Sprint(response.Status, response.Header, response.Trailer))
	return string(body), err
}

func TestEchoedCredential_threats_45(t *testing.T) {
	api := echoing(t)
	for name, auth := range map[string]host.Auth{
		"api_key":                  {Type: "api_key", Config: key("{{ get_secret('s') }}")},
		"api_key with a scheme":    {Type: "api_key", Config: with(key("Token {{ get_secret('s') }}"), "key", "Authorization")},
		"api_key in the query":     {Type: "api_key", Config: with(key("{{ get_secret('s') }}"), "key", "key", "in", "query")},
		"oauth_client_credentials": {Type: "oauth_client_credentials", Config: with(oauth("{{ get_secret('s') }}"), "token_url", api.URL+"/token")},
		"oauth_jwt_bearer":         {Type: "oauth_jwt_bearer", Config: with(bearer("{{ get_secret('s') }}"), "token_url", api.URL+"/token", "subject", "{{ user.email }}")},
		"jwt":                      {Type: "jwt", Config: config{"private_key": "{{ get_secret('s') }}", "algorithm": "HS256", "claims": config{"sub": "ann"}}},
	} {
		for _, noReuse := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", no reuse: ", noReuse), func(t *testing.T) {
				w := newWorld(t, func(c *host.Config) {
					c.NoReuse, c.Base, c.Egress = noReuse, nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
				})
				c := w.open(host.ConnectorConfig{Origins: []string{api.URL}, Auth: []host.Auth{auth}})
				base := answer(func(r *http.Request) (*http.Response, error) {
					w.Hide("the credential", credentialOf(r))
					return http.DefaultTransport.RoundTrip(r)
				})
				client := &http.Client{Transport: c.GuardedTransport(base)}
				get := func(path string) (string, error) {
					r := must(http.NewRequestWithContext(ann(t.Context()), http.MethodGet, api.URL+path, nil))(t)
					return w.read(client.Do(r))
				}
				for _, form := range testworld.Forms("any text") {
					got, err := get("/echo?form=" + url.QueryEscape(form.Name))
					if failure, ok := errors.AsType[*host.Error](err); !errors.Is(err, host.ErrCredentialInResponse) || !ok || failure.Stage != host.StageResponse || failure.Connector != "crm" {
						t.Errorf("%s: the error is %v", form.Name, err)
					}
					if !strings.HasPrefix(got, "before ") {
						t.Errorf("%s: what came before it is lost", form.Name)
					}
				}
				if got, err := get("/fine"); err != nil || len(got) != 5000*len("nothing of it, 1234567 ") {
					t.Errorf("an answer without it: %d bytes, %v", len(got), err)
				}
			})
		}
	}
}

// A request without a credential, and its answer, pass unchanged.
func TestGuardedWithoutACredential(t *testing.T) {
	w := newWorld(t)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		return respond(http.StatusOK, r.Header.Get("X-Own"), "Content-Encoding", "gzip")(r)
	})
	r := request(t, apiURL)
	r.Header = http.Header{"X-Own": {"the-caller's-own"}, "Accept-Encoding": {"gzip"}}
	body, err := w.read(w.connect("none", config{}).GuardedTransport(nil).RoundTrip(r))
	if body != "the-caller's-own" || err != nil || w.api.Last().Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("%q, %v, Accept-Encoding %q", body, err, w.api.Last().Header.Get("Accept-Encoding"))
	}
}

func TestEchoAfter401_threats_45(t *testing.T) {
	w, c := tokenWorld(t, numbered(7))
	w.api.Answer(status(http.StatusOK))
	w.get(c)
	for _, second := range []int{http.StatusOK, http.StatusUnauthorized} {
		attempts := 0
		w.api.Answer(func(r *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				return respond(http.StatusUnauthorized, "refused is "+credentialOf(r))(r)
			}
			return respond(second, "refused is "+credentialOf(r))(r)
		})
		got, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context())))
		if got != "" || !errors.Is(err, host.ErrCredentialInResponse) {
			t.Errorf("%q, %v after %d attempts", got, err, attempts)
		}
	}
}

// No header, reason phrase, trailer or informational answer with the credential passes.
func TestEchoInHeaders_threats_45(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		credential := credentialOf(r)
		connection, buffer, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		escaped := url.QueryEscape(credential)
		fmt.Fprintf(buffer, "HTTP/1.1 103 Early Hints\r\nLink: <%s>\r\nX-Hint: hint\r\n\r\n", escaped)
		fmt.Fprintf(buffer, "HTTP/1.1 200 %s\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Echo\r\n", credential)
		fmt.Fprintf(buffer, "Link: <https://api.test/?key=%s&page=2>; rel=\"next\"\r\nX-Fine: one\r\nX-Fine: two\r\nX-Some: fine\r\nX-Some: %s\r\n\r\n", escaped, credential)
		fmt.Fprintf(buffer, "4\r\nbody\r\n0\r\nX-Sum: 1\r\nX-Echo: %s\r\nX-Unannounced: %s\r\n\r\n", credential, credential)
		_ = buffer.Flush()
	}))
	defer api.Close()
	w := onLoopback(t)
	w.canaryOf("s", "a-s3cret-of-a-token")
	c := w.connectTo(api.URL, key("{{ get_secret('s') }}"))
	hint := ""
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
		hint = header.Get("X-Hint")
		w.Out("the hint", fmt.Sprint(header))
		return nil
	}})
	response, err := c.GuardedTransport(nil).RoundTrip(request(t, api.URL).WithContext(ctx))
	body, err := w.read(response, err)
	if body != "body" || err != nil {
		t.Fatalf("body = %q, err = %v", body, err)
	}
	if response.Status != "200 OK" || len(response.Header["X-Fine"]) != 2 || response.Header["Link"] != nil || response.Header["X-Some"] != nil || hint != "hint" {
		t.Errorf("%q, %v, hint %q", response.Status, response.Header, hint)
	}
	if response.Trailer.Get("X-Sum") != "1" || response.Trailer.Get("X-Echo") != "" {
		t.Errorf("trailers are %v", response.Trailer)
	}
	for _, name := range []string{"Link", "X-Some", "X-Echo"} {
		if w.logged(name) != 1 {
			t.Errorf("the log has %d lines of %s: %s", w.logged(name), name, w.log.String())
		}
	}
}

// net/http changes the case of header names that the API sends.
func TestEchoInHeaderName_threats_45(t *testing.T) {
	const secret = "sk-live_abcdef-0123456789"
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Trailer"] = []string{"X-Sum"}
		rw.Header()["X-"+secret+"-y"] = []string{"1"}
		rw.Header()[hex.EncodeToString([]byte(secret))] = []string{"2"}
		rw.Header()["X-Fine"] = []string{"fine"}
		_, _ = rw.Write([]byte("body"))
		rw.Header()[http.TrailerPrefix+secret] = []string{"3"}
	}))
	defer api.Close()
	w := onLoopback(t)
	w.setSecret("s", secret)
	response, err := w.connectTo(api.URL, key("{{ get_secret('s') }}")).GuardedTransport(nil).RoundTrip(request(t, api.URL))
	must(w.read(response, err))(t)
	for _, headers := range []http.Header{response.Header, response.Trailer} {
		for name := range headers {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret))} {
				if strings.Contains(strings.ToLower(name), form) {
					t.Errorf("the header %s was passed on", name)
				}
			}
		}
	}
	if response.Header.Get("X-Fine") != "fine" || strings.Contains(strings.ToLower(w.log.String()), secret) {
		t.Errorf("headers %v, log %s", response.Header, w.log.String())
	}
}

// A plugin that logs many warnings cannot suppress those of the host.
func TestWarningsOfAPluginLeaveRoomForTheHosts_threats_45(t *testing.T) {
	n := 0
	w, connector := spied(t, "a-secret-of-the-api", nil, func(env contract.Env, v string) string {
		n++
		env.Log(contract.LevelWarn, fmt.Sprint("this and that ", n))
		return header("X-Key", v)
	})
	for range 40 {
		w.get(connector)
	}
	if got := w.logged("this and that"); got != 32 {
		t.Errorf("%d warnings of the plugin were logged", got)
	}
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		return respond(http.StatusOK, "", "X-Echo", r.Header.Get("X-Key"))(r)
	})
	if _, err := w.read(connector.GuardedTransport(nil).RoundTrip(get(t.Context()))); err != nil || w.logged("X-Echo") != 1 {
		t.Errorf("%v; the log says nothing of the header with the credential", err)
	}
}

func TestCostlyAnswerSearch_threats_81(t *testing.T) {
	w, connector := spied(t, "a-secret-of-the-api", nil, func(env contract.Env, v string) string {
		return header("X-Key", env.Encode(contract.FormatBase64, strings.Repeat("a", 15_000)+v))
	})
	w.api.Answer(respond(http.StatusOK, strings.Repeat("%59WFh", 100_000)))
	body, err := w.read(connector.GuardedTransport(nil).RoundTrip(get(t.Context())))
	if failed, ok := errors.AsType[*host.Error](err); body != "" || !ok || failed.Stage != host.StageResponse || !strings.Contains(err.Error(), "in the time that its length allows") {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestUnsearchableAnswers_threats_45(t *testing.T) {
	w, c := keyWorld(t)
	for name, test := range map[string]struct {
		method string
		change func(*http.Response, string)
		want   string
	}{
		"compressed":            {"GET", func(r *http.Response, _ string) { r.Header.Set("Content-Encoding", "compress") }, "Content-Encoding"},
		"compressed after all":  {"GET", func(r *http.Response, _ string) { r.Header["Content-Encoding"] = []string{"identity, br"} }, "Content-Encoding"},
		"in an echoed encoding": {"GET", func(r *http.Response, s string) { r.Header.Set("Content-Encoding", s) }, "Content-Encoding"},
		"another protocol":      {"GET", func(r *http.Response, _ string) { r.StatusCode = http.StatusSwitchingProtocols }, "protocol"},
		"a tunnel":              {"CONNECT", func(*http.Response, string) {}, "tunnel"},
		"a redirect with it": {"GET", func(r *http.Response, s string) {
			r.StatusCode = http.StatusFound
			r.Header.Set("Location", "/next?k=%20"+url.QueryEscape(url.QueryEscape(s)))
		}, "Location"},
		"identity":    {"GET", func(r *http.Response, _ string) { r.Header.Set("Content-Encoding", "Identity") }, ""},
		"no encoding": {"GET", func(r *http.Response, _ string) { r.Header.Set("Content-Encoding", "identity, ") }, ""},
		"no body":     {"GET", func(r *http.Response, _ string) { r.Header.Set("Content-Encoding", "gzip"); r.Body = http.NoBody }, ""},
		"nil body":    {"GET", func(r *http.Response, _ string) { r.Body = nil }, ""},
		"of no body":  {"HEAD", func(r *http.Response, _ string) { r.Header.Set("Content-Encoding", "gzip") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			closed := &counting{Reader: strings.NewReader("")}
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				response, err := status(http.StatusOK)(r)
				response.Body = closed
				test.change(response, credentialOf(r))
				return response, err
			})
			r := get(t.Context())
			r.Method = test.method
			r.Header = http.Header{"accept-encoding": {"br"}, "Accept-Encoding": {"gzip"}}
			_, err := w.read(c.GuardedTransport(nil).RoundTrip(r))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
			if test.want != "" && closed.closed == 0 {
				t.Error("the body is left open")
			}
			if got := w.api.Last().Header; len(got["Accept-Encoding"]) != 1 || got.Get("Accept-Encoding") != "identity" || got["accept-encoding"] != nil { //nolint:staticcheck // not in canonical form
				t.Errorf("asked for %v", got)
			}
		})
	}
}

// An answer without the credential passes as the API sent it.
func TestGuardedAnswersUnchanged(t *testing.T) {
	next := make(chan bool)
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(rw http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(rw, "data: a\n\n")
			_ = http.NewResponseController(rw).Flush()
			<-next // waits until the caller has read it
		}
	})
	mux.HandleFunc("/known", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(rw, "0123456789")
	})
	for path, code := range map[string]int{"/204": 204, "/304": 304} {
		mux.HandleFunc(path, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) })
	}
	api := httptest.NewServer(mux)
	defer api.Close()
	w := onLoopback(t)
	guarded := w.connectTo(api.URL, key("{{ get_secret('s') }}")).GuardedTransport(nil)

	response := must(guarded.RoundTrip(request(t, api.URL+"/stream")))(t)
	for range 3 {
		buffer := make([]byte, 100)
		if n, err := response.Body.Read(buffer); string(buffer[:n]) != "data: a\n\n" || err != nil {
			t.Fatalf("buffer[:n] = %q, err = %v", buffer[:n], err)
		}
		next <- true
	}
	if n, err := response.Body.Read(make([]byte, 100)); n != 0 || err != io.EOF || response.ContentLength != -1 {
		t.Errorf("at the end: %d, %v, length %d", n, err, response.ContentLength)
	}
	_ = response.Body.Close()

	for _, c := range []struct {
		method, path string
		code, length int
		body         string
	}{
		{"GET", "/known", 200, 10, "0123456789"},
		{"HEAD", "/known", 200, 10, ""},
		{"GET", "/204", 204, 0, ""},
		{"GET", "/304", 304, 0, ""},
	} {
		r := request(t, api.URL+c.path)
		r.Method = c.method
		response, err := guarded.RoundTrip(r)
		body, err := w.read(response, err)
		if err != nil || response.StatusCode != c.code || body != c.body || response.ContentLength != int64(c.length) {
			t.Errorf("%s %s: %d, %q, length %d, %v", c.method, c.path, response.StatusCode, body, response.ContentLength, err)
		}
		if response.Request != r {
			t.Error("Response.Request is another one")
		}
	}
	response, err := guarded.RoundTrip(request(t, api.URL+"/known"))
	if err != nil || response.Body.Close() != nil || response.Body.Close() != nil {
		t.Errorf("closed without being read: %v", err)
	}
}
