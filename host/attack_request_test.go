package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Attacks with requests: on the request of another caller, and on the place where the credential goes.

// threats.md 15c: the call that holds a lease may still read its request. Then the calls that wait for the entry
// continue at once without it, and see nothing of how that call ends.
func TestLeaseHolderReadingInput_threats_15c(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first atomic.Bool
		read, end := make(chan struct{}), make(chan struct{})
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			if _, found := env.CacheGet("k"); found || first.Swap(true) {
				return header("X-Key", value(env, "to_header")), nil
			}
			<-read
			input := env.Input()
			<-end
			return "", errors.New(string(input))
		})
		c := w.connect("custom", misused)
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
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "/alice?session=the-private-data") {
			t.Errorf("the call that read its input got %v", err)
		}
	})
}

// threats.md 15c: the entries that a call asked for would show later, in the entries that the cache evicts first.
func TestCacheGetAfterTheRequestWasRead_threats_15c(t *testing.T) {
	refuseAll(t, []misuse{
		{"an entry that is not there", func(env contract.Env) (string, error) {
			env.CacheGet(fmt.Sprint(len(env.Input())))
			return header("X-Key", value(env, "to_header")), nil
		}, host.StagePlugin, "cache_get was called after the request was read"},
		{"an entry that is there", func(env contract.Env) (string, error) {
			env.CacheSet("k", "v", 60)
			env.Input()
			env.CacheGet("k")
			return header("X-Key", value(env, "to_header")), nil
		}, host.StagePlugin, "cache_get was called after the request was read"},
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
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		seen = string(env.Input())
		return header("X-Key", value(env, "to_header")), nil
	})
	w.setSecret("s", "73917391")
	r := get(t.Context())
	r.Header.Set("X-Platform", "a 73917391 z")
	if w.send(w.connect("custom", misused), r); strings.Contains(seen, "73917391") || !strings.Contains(seen, `"a `+contract.SealedPrefix) {
		t.Errorf("of a secret of 8 characters, which nobody guesses, the guest sees %s", seen)
	}
}

// The host stops reading an endless body for its digest when the call ends. Here the caller cancels it.
func TestBodyWithoutEnd(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		env.Digest(contract.DigestSHA256, env.Body())
		return header("X-Key", value(env, "to_header")), nil
	})
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
				w.setSecret("s", secret)
				w.Hide("the secret", secret)
				w.Hide("the middle of the secret", "the-middle-of-it")
				w.api.Answer(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/new" {
						return status(http.StatusOK)(r)
					}
					response, err := status(http.StatusFound)(r)
					response.Header.Set("Location", origin+"/new?"+location)
					return response, err
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
	w := misusedWorld(t, func(env contract.Env) (string, error) { return header("X-Key", value(env, "to_header")), nil })
	c := w.open(host.ConnectorConfig{
		Origins: []string{apiOrigin, "https://bücher.test"}, Auth: host.Auth{Type: "custom", Config: misused},
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

// threats.md 25: a request over plain http, or to another host, gets no credential, also right after one for the connector's
// origin.
func TestTheRequestAfterOneForTheOrigin_threats_25(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) { return header("X-Key", value(env, "to_header")), nil })
	c := w.connect("custom", misused)
	for _, other := range []string{"http://api.test/v1", "https://evil.test/v1", "https://api.test:444/v1"} {
		w.get(c)
		w.refuse(c, request(t, other), host.StageOrigin)
	}
	w.get(c)
}

// threats.md 25, RFC 9110 section 7.6.1: a proxy drops the headers that Connection names, and the request would arrive
// without its credential.
func TestCredentialInConnectionHeader_threats_25(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) { return header("X-Key", value(env, "to_header")), nil })
	c := w.connect("custom", misused)
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
