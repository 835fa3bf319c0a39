package host_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Attacks with requests: on the request of another caller, and on the place where the credential goes.

// threats.md 15c: the call that holds a lease may still read its request. Then the calls that wait for the entry
// continue at once without it, and see nothing of how that call ends.
func TestLeaseHolderReadingInput_threats_15c(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first atomic.Bool
		read, end := make(chan struct{}), make(chan struct{})
		w, c := misuser(t, func(env contract.Env) (string, error) {
			if _, found := env.CacheGet("k"); found || first.Swap(true) {
				return header("X-Key", value(env, "to_header")), nil
			}
			<-read
			input := env.Input()
			<-end
			return "", errors.New(string(input))
		})
		errs := make(chan error, 4)
		ask := func(path string) {
			_, err := w.try(c, request(t, apiOrigin+path))
			errs <- err
		}
		go ask("/alice?session=the-private-data")
		synctest.Wait()
		for range 3 {
			go ask("/bob")
		}
		if synctest.Wait(); w.api.Count() != 0 {
			t.Error("nobody waits for the entry")
		}
		close(read)
		if synctest.Wait(); w.api.Count() != 3 || len(errs) != 3 {
			t.Fatalf("%d of 3 who waited were served while the call that read its input goes on", w.api.Count())
		}
		for range 3 {
			if err := <-errs; err != nil {
				t.Errorf("who waited got %v", err)
			}
		}
		close(end)
		testworld.WantError(t, "the call that read its input", <-errs, "/alice?session=the-private-data")
	})
}

// threats.md 15: a user could put guesses into a request. If the plugin saw which guess was sealed, both together would
// know the secret.
func TestShortSecretOracle_threats_15(t *testing.T) {
	var guesses []string
	for pin := range 10_000 {
		guesses = append(guesses, fmt.Sprintf("%04d", pin))
	}
	for _, secret := range []string{"7391", "739", "7391739"} {
		seen := ""
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			credential := value(env, "to_header")
			seen = string(env.Input())
			return header("X-Key", credential), nil
		})
		w.setSecret("s", secret)
		r := get(t.Context())
		r.Header.Set("X-Guesses", strings.Join(guesses, " ")+" 7391739")
		if got := w.send(w.connect("custom", misused), r).Header.Get("X-Key"); got != secret {
			t.Errorf("the API got %q", got)
		}
		if strings.Contains(seen, contract.SealedPrefix) || !strings.Contains(seen, r.Header.Get("X-Guesses")) {
			t.Errorf("of a secret of %d characters the guest sees where it is in the request", len(secret))
		}
	}
	seen := ""
	w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) { seen = string(env.Input()) }))
	w.setSecret("s", "73917391")
	r := get(t.Context())
	r.Header.Set("X-Platform", "a 73917391 z")
	if w.send(w.connect("custom", misused), r); strings.Contains(seen, "73917391") || !strings.Contains(seen, `"a `+contract.SealedPrefix) {
		t.Errorf("of a secret of 8 characters, which nobody guesses, the guest sees %s", seen)
	}
}

// The host stops reading an endless body for its digest when the call ends. Here the caller cancels it.
func TestBodyWithoutEnd(t *testing.T) {
	w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) { env.Digest(contract.DigestSHA256, env.Body()) }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := &givingUp{reads: 1000, after: 10, cancel: cancel}
	r := get(ctx)
	r.Body, r.GetBody = io.NopCloser(strings.NewReader("x")), func() (io.ReadCloser, error) { return body, nil }
	if err := w.refuse(w.connect("custom", misused), r, host.StageBody, "body cannot be read"); !errors.Is(err, context.Canceled) || body.reads != 990 {
		t.Errorf("%d reads are left, %v", body.reads, err)
	}
}

// givingUp is a body that ends after some reads, and cancels its request before that.
type givingUp struct {
	reads, after int
	cancel       context.CancelFunc
}

func (g *givingUp) Read(p []byte) (int, error) {
	if g.reads--; g.reads == 0 {
		return 0, io.EOF
	}
	if g.after--; g.after == 0 {
		g.cancel()
	}
	return len(p), nil
}

func (g *givingUp) Close() error { return nil }

// threats.md 19, 25: servers encode the query again when they redirect, and escape other characters.
func TestRedirectWithEscapedKey_threats_19(t *testing.T) {
	const secret = "ab/cd+ef gh~the-middle-of-it/ij"
	for name, location := range map[string]string{
		"/ as it is":                 "key=ab/cd%2Bef%20gh~the-middle-of-it/ij",
		"lower-case digits":          "key=ab%2fcd%2bef+gh%7ethe-middle-of-it%2fij",
		"letters escaped as well":    "key=%61b%2Fcd%2Bef%20gh~the%2Dmiddle-of-it%2Fij",
		"under another name":         "token=ab/cd%2Bef+gh~the-middle-of-it/ij",
		"the name escaped as well":   "%6bey=ab/cd%2Bef+gh~the-middle-of-it/ij",
		"as the name of a parameter": "ab/cd%2Bef+gh~the-middle-of-it/ij=1",
		"within a longer value":      "next=x-ab/cd%2Bef+gh~the-middle-of-it/ij-x",
		"with a + as in a path":      "next=x-ab/cd+ef%20gh~the-middle-of-it/ij-x",
		"within a URL":               "next=" + url.QueryEscape(apiURL+"?key=ab/cd%2bef+gh~the-middle-of-it%2fij"),
		"within a URL within a URL":  "next=" + url.QueryEscape("/login?next="+url.QueryEscape(apiURL+"?key=ab/cd%2bef+gh~the-middle-of-it%2fij")),
		"with a fragment":            "key=ab/cd%2Bef%20gh~the-middle-of-it/ij#top",
	} {
		for _, origin := range []string{"", apiOrigin, "https://other.test"} {
			t.Run(name+" at "+origin, func(t *testing.T) {
				w := misusedWorld(t, func(env contract.Env) (string, error) { return query("key", value(env, "to_query")), nil })
				w.canaryOf("s", secret)
				w.Hide("the middle of the secret", "the-middle-of-it")
				w.api.Answer(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/new" {
						return status(http.StatusOK)(r)
					}
					return respond(http.StatusFound, "", "Location", origin+"/new?"+location)(r)
				})
				client := &http.Client{Transport: w.connect("custom", misused).Transport(nil), CheckRedirect: func(r *http.Request, _ []*http.Request) error {
					w.Out("the URL of the redirect", r.URL.String())
					w.Out("its headers", fmt.Sprint(r.Header))
					return nil
				}}
				response, err := client.Get(apiURL)
				if w.OutError("the client's error", err); err == nil {
					_ = response.Body.Close()
				}
				for _, s := range w.api.Received() {
					path, query, _ := strings.Cut(strings.TrimSuffix(s.URL, "#top"), "?")
					if path != apiURL && path != apiOrigin+"/new" || query != "key="+strings.ReplaceAll(url.QueryEscape(secret), "+", "%20") {
						t.Errorf("sent: %s", s.URL)
					}
				}
			})
		}
	}
}

// threats.md 25, 27: net/http would read these requests differently than the host, or leave them for the server to
// interpret.
func TestRequestsNamingOtherPlaces_threats_27(t *testing.T) {
	w := misusedWorld(t, sendsKey)
	c := w.open(host.ConnectorConfig{
		Origins: []string{apiOrigin, "https://bücher.test"}, Auth: []host.Auth{{Type: "custom", Config: misused}},
	})
	for _, name := range []string{
		"host", "HOST", "hOST", "content-length", "CONTENT-LENGTH", "transfer-encoding", "Transfer-encoding", "trailer", "connection", "CONNECTION",
	} {
		r := get(t.Context())
		r.Header[name] = []string{"evil.test"}
		w.refuse(c, r, host.StageOrigin, http.CanonicalHeaderKey(name)+" under a name in another case")
	}
	for _, raw := range []string{"#", "a=b#", "#a=b", "a=b#c=d"} {
		r := get(t.Context())
		r.URL.RawQuery = raw
		w.refuse(c, r, host.StageOrigin, "write it as %23")
	}
	for _, name := range []string{
		"ａpi.test", "api。test", "api．test", "ΑPI.test", "api.teſt", "BÜCHER.test", "bücher.test.evil.test", // net/http would send xn--…
		"api.test/evil", "api.test?", "api.test#", "evil@api.test", "api.test\\", "api.test ", " api.test", "api.test\t", "api.test\r\nX: y", "api.test,evil.test",
	} {
		r := get(t.Context())
		r.Host = name
		w.refuse(c, r, host.StageOrigin, "Host")
	}
	r := get(t.Context())
	r.URL.Host, r.Host = "BÜCHER.test", "BÜCHER.test" // as http.NewRequest sets it; net/http would not write xn--bcher-kva
	w.refuse(c, r, host.StageOrigin, "Host")
	for _, name := range []string{"", "api.test", "API.test", "api.test:443", "bücher.test", "xn--bcher-kva.test"} {
		r := get(t.Context())
		r.Host = name
		w.send(c, r)
	}
}

// threats.md 25, RFC 9110 section 7.6.1: a proxy drops the headers that Connection names, and the request would arrive
// without its credential.
func TestCredentialInConnectionHeader_threats_25(t *testing.T) {
	w, c := misuser(t, sendsKey)
	for _, values := range [][]string{{"X-Key"}, {"x-key"}, {"close, X-KEY"}, {"close,\tx-Key ,upgrade"}, {"close", "x-key"}} {
		r := get(t.Context())
		r.Header["Connection"] = values
		w.refuse(c, r, host.StageMutation, "drop the credential")
	}
	for _, text := range []string{"close", "X-Other", "X-Key-Of-Another"} {
		r := get(t.Context())
		r.Header.Set("Connection", text)
		if got := w.send(c, r).Header.Get("X-Key"); got != w.secrets["s"] {
			t.Errorf("Connection: %s: the API got %q", text, got)
		}
	}
}

// Attacks on errors and explanations, which people read. Each world searches all its output for its secrets, so a test
// only has to make the host produce output.

func TestSealedHeaderNameInError_threats_15a(t *testing.T) {
	twice := func(name string) []abi.Pair { return []abi.Pair{{Name: name, Value: "1"}, {Name: name, Value: "2"}} }
	for _, c := range []struct {
		name  string
		do    func(contract.Env) (string, error)
		stage host.Stage
	}{
		{"set twice", func(env contract.Env) (string, error) {
			return marshal(contract.Mutation{Headers: twice(value(env, "to_header"))}), nil
		}, host.StageMutation},
		{"set twice in a token request", func(env contract.Env) (string, error) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Headers: twice(value(env, "to_token"))})))
			return "", nil
		}, host.StagePlugin},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := misusedWorld(t, c.do)
			w.setSecret("s", "X-Sealed-Header-Name") // a canary may have characters that are invalid in a name
			w.Hide("the sealed name", "X-Sealed-Header-Name")
			w.Hide("the sealed name in lower case", "x-sealed-header-name")
			w.refuse(w.connect("custom", misused), get(t.Context()), c.stage, "only a header that is alone may have such a name")
			if w.login.Count() != 0 {
				t.Error("the token request was sent")
			}
		})
	}
}

// textError is an error that is its own text. %#v shows that text in each value that contains the error. net/http has
// such an error for header lines.
type textError string

func (e textError) Error() string { return string(e) }

func TestForeignTransportErrors_threats_18(t *testing.T) {
	w, c := misuser(t, func(env contract.Env) (string, error) {
		return tokenRequest(env, value(env, "url"), abi.Pair{Name: "client_secret", Value: value(env, "to_token")})
	})
	w.login.Answer(token("a-token-that-no-secret-holds", 3600)) // a random secret may hold the two characters of t1
	cause := textError("cannot send " + w.secrets["s"])
	fails := func(*http.Request) (*http.Response, error) { return nil, cause }
	w.api.Answer(fails)
	if _, err := w.try(c, get(t.Context())); !errors.Is(err, cause) || err.Error() != "cannot send <sealed>" {
		t.Errorf("the API's transport failed with %v", err)
	}
	w.login.Answer(fails)
	if err := w.refuse(c, get(t.Context()), host.StageToken, "cannot send <sealed>"); !errors.Is(err, cause) {
		t.Errorf("errors.Is does not find the cause in %v", err)
	}
}

// A plugin with the grant reveal may put revealed bytes into its mutation in plain. Explain masks them.
func TestExplainMasksRevealedValues_threats_18(t *testing.T) {
	revealed, signature := "", ""
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		revealed, signature = string(env.Reveal(value(env, "nowhere"))), string(env.Sign("key", "data"))
		credential := base64.RawURLEncoding.EncodeToString([]byte(signature))
		return marshal(contract.Mutation{
			Headers: []abi.Pair{{Name: "X-Key", Value: "key " + revealed}, {Name: "X-Signature", Value: credential}, {Name: "X-Plain", Value: "plain"}},
			Query:   []abi.Pair{{Name: "key", Value: revealed}, {Name: "signature", Value: fmt.Sprintf("%x", signature)}},
		}), nil
	}, abi.GrantReveal, abi.GrantSignRaw)
	e := must(w.explain(w.connect("custom", misused), get(t.Context())))(t)
	if w.Hide("the signature", signature); revealed != w.secrets["s"] || len(signature) != 32 {
		t.Fatal("the guest was not given what the test is about")
	}
	for _, want := range []string{"X-Key: key <sealed>", "X-Signature: <sealed>", "X-Plain: plain"} {
		name, shown, _ := strings.Cut(want, ": ")
		if !slices.Contains(e.Headers, abi.Pair{Name: name, Value: shown}) {
			t.Errorf("the headers are %v, want %s", e.Headers, want)
		}
	}
	if e.Added.Query != "key=<sealed>&signature=<sealed>" {
		t.Errorf("the query is %s", e.Added.Query)
	}
}

// In a template for a credential, literal text may be the credential. Explain shows none of the template then, whatever
// expressions stand beside the text.
func TestExplainMasksLiterals_threats_18(t *testing.T) {
	w := misusedWorld(t, sendsKey)
	w.Hide("the credential", "written-out-key")
	for _, text := range []string{
		"written-out-key", "written-out-key{{ '' }}", "{{ '' }}written-out-key", "{{ 'written-out-key' }}", "{{ default(user.id, '') }}written-out-key",
		"{{ 'written-out' + '-key' }}", "written-out-key {{ now(0) }}",
	} {
		e := must(w.explain(w.connect("custom", with(misused, "to_header", text)), get(t.Context())))(t)
		if got := e.Added.Headers[0].Value; got != "<to_header>" {
			t.Errorf("%s shows as %s", text, got)
		}
	}
}
