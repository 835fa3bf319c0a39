package identities

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/testworld"
)

const audience = "sts.amazonaws.com"

type claims = map[string]any

// newJWT returns a JWT with changes to the claims of a good one, which ends in an hour. A change to nil removes a claim; alg is of the header.
func newJWT(now time.Time, changes claims) string {
	header := claims{"alg": "RS256", "typ": "JWT"}
	body := claims{
		"iss": "https://cluster.test", "sub": "system:serviceaccount:shop:orders", "aud": []string{audience},
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for name, value := range changes {
		part := body
		if name == "alg" {
			part = header
		}
		if part[name] = value; value == nil {
			delete(part, name)
		}
	}
	encoded := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return encoded(header) + "." + encoded(body) + "." + encoded("signature")
}

// lab is a clock, and a source whose answers a test sets.
type lab struct {
	*testworld.Clock
	mu    sync.Mutex
	text  string
	err   error
	calls int
}

func newLab() *lab { return &lab{Clock: testworld.NewClock(time.Unix(1_700_000_000, 0))} }

func (l *lab) fetch(context.Context, string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	return l.text, l.err
}

// set changes what the source answers.
func (l *lab) set(text string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text, l.err = text, err
}

// identities returns a set with the identity pod, whose tokens are those of the lab.
func (l *lab) identities(change func(*Identity)) *Set {
	i := Identity{Name: "pod", For: []Audience{{audience, []string{"sts.test"}}, {"vault", []string{"vault.test"}}}, Fetch: l.fetch}
	if change != nil {
		change(&i)
	}
	return New(l.Now, i)
}

// tokenFor asks for a token for an audience, as a request does or an exchange.
func tokenFor(s *Set, audience string, exchange bool) (string, error) {
	return s.Identity(context.Background(), host.IdentityRequest{Name: "pod", Audience: audience, Exchange: exchange})
}

// threats.md 414: a token that is not what it should be is not sent, and errors have nothing of it.
func TestConfusedTokens_threats_414(t *testing.T) {
	expect := func(i *Identity) {
		i.Expect = Expectation{Issuer: "https://cluster.test", Subject: "system:serviceaccount:shop:orders"}
	}
	for name, c := range map[string]struct {
		changes claims
		change  func(*Identity)
		want    string
	}{
		"good":                                 {nil, expect, ""},
		"an audience as a text":                {claims{"aud": audience}, nil, ""},
		"another audience":                     {claims{"aud": "vault"}, nil, "another audience (aud)"},
		"a list of audiences":                  {claims{"aud": []string{audience, "vault"}}, nil, "another audience (aud)"},
		"an audience that is no text":          {claims{"aud": []any{audience, 7}}, nil, "for no audience (aud)"},
		"no audience":                          {claims{"aud": nil}, nil, "for no audience (aud)"},
		"an empty list of audiences":           {claims{"aud": []string{}}, nil, "for no audience (aud)"},
		"an audience that differs by case":     {claims{"aud": "STS.amazonaws.com"}, nil, "another audience (aud)"},
		"what an issuer writes in its place":   {claims{"aud": "fb60f99c"}, func(i *Identity) { i.Expect.Audiences = []string{"fb60f99c"} }, ""},
		"one that has ended":                   {claims{"exp": 1}, nil, "it has ended (exp)"},
		"one without an end":                   {claims{"exp": nil}, nil, "it has no end (exp)"},
		"an end in milliseconds":               {claims{"exp": 4102444800000}, nil, "it has no end (exp)"},
		"an end that is a text":                {claims{"exp": "4102444800"}, nil, "it has no end (exp)"},
		"one that has not begun":               {claims{"nbf": 4102444800}, nil, "it has not begun (nbf)"},
		"one that is not signed":               {claims{"alg": "none"}, nil, "it is not signed"},
		"one that is not signed, in capitals":  {claims{"alg": "NONE"}, nil, "it is not signed"},
		"one without an algorithm":             {claims{"alg": nil}, nil, "it is not signed"},
		"a shared secret":                      {claims{"alg": "HS256"}, nil, "shared secret"},
		"another subject, such as of a tenant": {claims{"sub": "system:serviceaccount:other:orders"}, expect, "another subject (sub)"},
		"another issuer":                       {claims{"iss": "https://evil.test"}, expect, "another issuer (iss)"},
		"no subject":                           {claims{"sub": nil}, nil, "no subject (sub)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			text := newJWT(l.Now(), c.changes)
			l.set(text, nil)
			got, err := tokenFor(l.identities(c.change), audience, true)
			if c.want == "" {
				if err != nil || got != text {
					t.Errorf("the token is %q, with the error %v", got, err)
				}
				return
			}
			if !errors.Is(err, host.ErrIdentityRefused) || !strings.Contains(err.Error(), c.want) || got != "" {
				t.Fatalf("the token is %q, with the error %v, want %q", got, err, c.want)
			}
			for _, part := range strings.Split(text, ".") {
				if strings.Contains(err.Error(), part) {
					t.Errorf("the error has a part of the token: %v", err)
				}
			}
		})
	}
	for name, text := range map[string]string{
		"nothing": "", "no JWT": "an-opaque-token", "two parts": "a.b", "five parts, which are encrypted": "a.b.c.d.e",
		"no JSON": "YQ.YQ.YQ", "too long": newJWT(time.Unix(0, 0), claims{"x": strings.Repeat("x", MaxToken)}),
		"an empty signature": newJWT(time.Unix(0, 0), nil)[:strings.LastIndexByte(newJWT(time.Unix(0, 0), nil), '.')+1],
	} {
		l := newLab()
		l.set(text, nil)
		if _, err := tokenFor(l.identities(nil), audience, true); !errors.Is(err, host.ErrIdentityRefused) {
			t.Errorf("%s is not refused: %v", name, err)
		}
	}
}

// An identity has the audiences that the operator wrote, and hosts for each of them.
func TestPairs(t *testing.T) {
	l := newLab()
	s := l.identities(nil)
	for _, pair := range [][3]string{{"pod", audience, "sts.test"}, {"pod", "vault", "vault.test"}, {"pod", "other", ""}, {"other", audience, ""}} {
		if got := strings.Join(s.Hosts(pair[0], pair[1]), " "); got != pair[2] {
			t.Errorf("%v has the hosts %q", pair, got)
		}
	}
	if _, err := tokenFor(s, "other", true); !errors.Is(err, host.ErrIdentityRefused) || l.calls != 0 {
		t.Errorf("an audience that is not listed: %v, asked %d times", err, l.calls)
	}
}

// A token is used again until a minute before its end, or until half of its life. If the source fails then, it is used to its end.
func TestRememberedTokens(t *testing.T) {
	l := newLab()
	s := l.identities(nil)
	first := newJWT(l.Now(), nil)
	l.set(first, nil)
	step := func(advance time.Duration, wantCalls int, want string) {
		t.Helper()
		l.Advance(advance)
		got, err := tokenFor(s, audience, true)
		if got != want || (err == nil) != (want != "") || l.calls != wantCalls {
			t.Errorf("after %s: %d calls, want %d; %v", advance, l.calls, wantCalls, err)
		}
	}
	step(0, 1, first)
	step(30*time.Minute-time.Second, 1, first)
	l.set("", errors.New("down"))
	step(time.Second, 2, first)
	step(0, 2, first) // it was asked a moment ago
	step(time.Second, 3, first)
	step(30*time.Minute, 4, "")
	step(0, 4, "")
	second := newJWT(l.Now(), claims{"exp": l.Now().Add(100 * time.Second).Unix()})
	l.set(second, nil)
	step(time.Second, 5, second)
	step(38*time.Second, 5, second)
	step(2*time.Second, 6, second) // a minute before its end, and the source has no other
	l.set(newJWT(l.Now(), claims{"sub": nil}), nil)
	step(time.Second, 7, second) // one that is wrong is none
}

// threats.md 414: with once, no two exchanges have the same token, whatever runs at the same time.
func TestTokensForOneExchange_threats_414(t *testing.T) {
	l := newLab()
	var serial atomic.Int64
	s := l.identities(func(i *Identity) {
		i.Once = true
		i.Fetch = func(context.Context, string) (string, error) {
			return newJWT(l.Now(), claims{"jti": serial.Add(1)}), nil
		}
	})
	var mu sync.Mutex
	uses := map[string]int{}
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, err := tokenFor(s, audience, false); err != nil {
				t.Error(err)
			}
			got, err := tokenFor(s, audience, true)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			uses[got]++
		})
	}
	all.Wait()
	if len(uses) != 32 {
		t.Errorf("32 exchanges had %d tokens", len(uses))
	}
}

// threats.md 414: with once, a token that the source has for a while is sent once, also by the first exchanges of all.
func TestFirstExchanges_threats_414(t *testing.T) {
	l := newLab()
	l.set(newJWT(l.Now(), nil), nil)
	for range 1000 {
		s := l.identities(func(i *Identity) { i.Once = true })
		var exchanges atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := tokenFor(s, audience, true); err == nil {
					exchanges.Add(1)
				}
			})
		}
		all.Wait()
		if n := exchanges.Load(); n != 1 {
			t.Fatalf("%d exchanges had the token, want one", n)
		}
	}
}

// threats.md 414: with once, a source that has no other token yet fails an exchange, and not the requests that need none.
func TestSecondExchangeOfToken_threats_414(t *testing.T) {
	l := newLab()
	s := l.identities(func(i *Identity) { i.Once = true })
	for serial := range 3 {
		text := newJWT(l.Now(), claims{"jti": serial})
		l.set(text, nil)
		if got, err := tokenFor(s, audience, true); got != text || err != nil {
			t.Errorf("the token is %q, with the error %v", got, err)
		}
		_, err := tokenFor(s, audience, true)
		testworld.WantError(t, "a second exchange", err, "the source has no other token yet")
		if errors.Is(err, host.ErrIdentityRefused) {
			t.Errorf("the error does not pass: %v", err)
		}
		if got, err := tokenFor(s, audience, false); got != text || err != nil {
			t.Errorf("without an exchange, the token is %q, with the error %v", got, err)
		}
	}
}

// A file is read once a second, and says why it cannot be.
func TestFileAndEnvironment(t *testing.T) {
	l := newLab()
	path := filepath.Join(t.TempDir(), "token")
	s := l.identities(func(i *Identity) { i.Fetch, i.Remember = File(path), time.Second })
	_, err := tokenFor(s, audience, true)
	testworld.WantError(t, "no file", err, "the file of the token cannot be read")
	for serial := range 3 {
		text := newJWT(l.Now(), claims{"jti": serial})
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l.Advance(time.Second)
		if got, err := tokenFor(s, audience, true); got != text || err != nil {
			t.Errorf("version %d: %v", serial, err)
		}
	}
	_, err = File(t.TempDir())(t.Context(), "")
	testworld.WantError(t, "a directory", err, "it is no regular file")

	t.Setenv("SIGSTORE_ID_TOKEN", "a.b.c")
	if got, err := Env("SIGSTORE_ID_TOKEN")(t.Context(), ""); got != "a.b.c" || err != nil {
		t.Errorf("the token is %q, with the error %v", got, err)
	}
	_, err = Env("NO_SUCH_TOKEN")(t.Context(), "")
	testworld.WantError(t, "no variable", err, "NO_SUCH_TOKEN is not set")
}

// A request has the audience in its URL, and gets the token from a place of the answer.
func TestRequests(t *testing.T) {
	var last *http.Request
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":{"access_token":"a.b.c"}}`)) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r
		answer(w, r)
	}))
	defer server.Close()
	t.Setenv("THE_URL", server.URL+"/token?x=1")
	t.Setenv("THE_BEARER", "bearer-of-the-job")
	r := Request{
		URL: "{env:THE_URL}&audience={audience}", From: "json:/a/access_token",
		Headers: []Header{{"Authorization", "Bearer {env:THE_BEARER}"}, {"Metadata", "true"}},
	}
	if member, err := r.Check(); err != nil {
		t.Fatalf("the member %s %v", member, err)
	}
	get := func() (string, error) { return r.Get(host.Egress{})(t.Context(), "api://a b/?c&d") }
	if got, err := get(); got != "a.b.c" || err != nil {
		t.Fatalf("the token is %q, with the error %v", got, err)
	}
	if last.URL.RawQuery != "x=1&audience=api%3A%2F%2Fa+b%2F%3Fc%26d" || last.Header.Get("Authorization") != "Bearer bearer-of-the-job" || last.Header.Get("Metadata") != "true" {
		t.Errorf("the request was %s %v", last.URL, last.Header)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, server.URL, http.StatusFound) }, "answered 302"},
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret-text", http.StatusForbidden) }, "answered 403"},
		"a page":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>secret-text")) }, "has no text at json:/a/access_token"},
		"no token":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":{"token":"secret-text"}}`)) }, "has no text at json:/a/access_token"},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = connection.Write([]byte("secret-text\r\n\r\n"))
				_ = connection.Close()
			}
		}, "does not speak HTTP"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, MaxToken+1)) }, "more than 16 KiB"},
	} {
		answer = c.answer
		_, err := get()
		testworld.WantError(t, name, err, c.want)
		if strings.Contains(err.Error(), "secret-text") || strings.Contains(err.Error(), "bearer-of-the-job") {
			t.Errorf("%s: the error has a text of the answer: %v", name, err)
		}
	}
}

// threats.md 415: a request of plain http reaches the address of its URL only. No name, no redirect and no proxy leads elsewhere.
func TestRequestsReachOneAddress_threats_415(t *testing.T) {
	for url, want := range map[string]string{
		"http://169.254.169.254/{audience}":          "",
		"http://[fd00:ec2::254]/?a={audience}":       "",
		"https://login.test/{audience}":              "",
		"{env:NOT_THERE}&audience={audience}":        "",
		"http://metadata.google.internal/":           "its host is no address",
		"http://localhost/":                          "its host is no address",
		"http://169.254.169.254.nip.io/":             "its host is no address",
		"http://2852039166/":                         "its host is no address",
		"http://0xa9fea9fe/":                         "its host is no address",
		"http://[fe80::1%25eth0]/":                   "its host is no address",
		"http://user:password@169.254.169.254/":      "is no URL of http or https without user",
		"ftp://169.254.169.254/":                     "is no URL of http or https",
		"169.254.169.254":                            "is no URL of http or https",
		"http://169.254.169.254/{tenant_id}":         "has {tenant_id}: there are {audience} and {env:NAME}",
		"http://169.254.169.254/#{audience}":         "is no URL of http or https without user and fragment",
		"http://{env:THE_NAME}/{audience}":           "its host is no address",
		"https://{env:THE_USER}@login.test/":         "is no URL of http or https without user",
		"http://169.254.169.254:80/{audience}?{x y}": "has {x y}",
	} {
		t.Setenv("THE_NAME", "evil.test")
		t.Setenv("THE_USER", "user:password")
		r := Request{URL: url, From: answers.WholeAnswer}
		member, err := r.Check()
		if want == "" {
			if err != nil {
				t.Errorf("%s is refused: %v", url, err)
			}
			continue
		}
		if member != "url" {
			t.Errorf("%s is accepted", url)
			continue
		}
		testworld.WantError(t, url, err, want)
	}
	for _, name := range []string{"X-Forwarded-For", "x-forwarded-host", "Forwarded", "Via", "Host", "Proxy-Authorization", "Connection", "a b", ""} {
		r := Request{URL: "http://169.254.169.254/", From: answers.WholeAnswer, Headers: []Header{{name, "x"}}}
		if member, err := r.Check(); member != "headers" {
			t.Errorf("the header %q: %v", name, err)
		}
	}
	if member, _ := (&Request{URL: "http://169.254.169.254/", Headers: []Header{{"X-Audience", "{audience}"}}, From: answers.WholeAnswer}).Check(); member != "headers" {
		t.Error("the audience in a header is accepted")
	}
	if member, _ := (&Request{URL: "http://169.254.169.254/", From: "header:Token"}).Check(); member != "from" {
		t.Error("the place header: is accepted")
	}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a.b.c")) }))
	defer server.Close()
	r := Request{URL: server.URL, From: answers.WholeAnswer}
	if got, err := r.Get(host.Egress{Allow: []netip.Prefix{netip.MustParsePrefix("203.0.113.1/32")}})(t.Context(), ""); got != "a.b.c" || err != nil {
		t.Errorf("the token is %q, with the error %v", got, err)
	}
	// https is bounded by the egress of the file, which has no internal addresses.
	inside := httptest.NewTLSServer(http.NotFoundHandler())
	defer inside.Close()
	_, err := (&Request{URL: inside.URL, From: answers.WholeAnswer}).Get(host.Egress{})(t.Context(), "")
	testworld.WantError(t, "an internal server", err, "loopback address")
}

// decodePart decodes a part of a JWT.
func decodePart(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }

// The owner of a certificate chooses the names in it, and no error has them.
func TestNamesInCertificate(t *testing.T) {
	err := connectionError(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"secret-text"}}, Host: "sts.test"}})
	if err == nil || err.Error() != "its certificate is for another name" {
		t.Errorf("the error is %v", err)
	}
}
