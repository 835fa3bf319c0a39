package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Bodies of requests that a plugin signs: threats.md 59 and 60.

// signing is a guest that puts the digest of the body into a header, where a signature would be.
func signing(env contract.Env) (string, error) {
	digest := env.Encode(contract.FormatHex, env.Digest(contract.DigestSHA256, env.Body()))
	return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}, {Name: "X-Digest", Value: digest}}}), nil
}

// withDigest is a request as an API with signatures received it.
type withDigest struct {
	digest, body string
	length       int64
	encoding     []string
	files        []string // the files that the host had open
}

// signingAPI records the requests that it receives.
type signingAPI struct {
	t   *testing.T
	dir string
	got []withDigest
}

func (a *signingAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	s := withDigest{digest: r.Header.Get("X-Digest"), length: r.ContentLength, encoding: r.TransferEncoding, files: openFiles(a.t, a.dir)}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.body = string(body)
		_ = r.Body.Close()
	}
	a.got = append(a.got, s)
	return status(http.StatusOK)(r)
}

// temporary makes the host put its files into a directory of the test. At the end of the test, none may remain.
func temporary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() { noFiles(t, dir) })
	return dir
}

func noFiles(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("in the directory for temporary files is %v, %v", left, err)
	}
	if left := openFiles(t, dir); len(left) > 0 {
		t.Errorf("the process has open %q", left)
	}
}

// openFiles returns the open descriptors of files that are or were in a directory.
func openFiles(t *testing.T, dir string) (open []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(all) == 0 {
		t.Fatalf("the process has no open files in /proc/self/fd: %v", err)
	}
	for _, descriptor := range all {
		if target, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(target, dir) {
			open = append(open, descriptor)
		}
	}
	return open
}

// once returns a body that can be read only once. It counts its reads and closes.
func once(content string) *counting { return &counting{Reader: strings.NewReader(content)} }

func post(ctx context.Context, body io.ReadCloser, length int64) *http.Request {
	r := get(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodPost, body, length
	return r
}

// threats.md 60: the host sends each body byte for byte as it was signed, whatever kind of body it is.
func TestSignedBodyBytes(t *testing.T) {
	dir := temporary(t)
	large := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	for name, c := range map[string]struct {
		body   string
		length int64 // the length that the request declares
		kind   func(*http.Request)
		sent   int64 // the length that is sent
		file   bool
	}{
		"none":                          {kind: func(r *http.Request) { r.Body = nil }},
		"http.NoBody":                   {kind: func(r *http.Request) { r.Body = http.NoBody }},
		"one that GetBody gives":        {body: "body", length: 4, kind: func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return once("body"), nil } }, sent: 4},
		"with a length":                 {body: "body", length: 4, sent: 4},
		"in chunks":                     {body: "body", length: -1, kind: func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, sent: 4},
		"of a length that nobody knows": {body: "body", sent: 4},
		"empty, in chunks":              {length: -1},
		"empty, of unknown length":      {},
		"as long as memory has it":      {body: large[:64<<10], length: -1, sent: 64 << 10},
		"longer by a byte":              {body: large[:64<<10+1], length: -1, sent: 64<<10 + 1, file: true},
		"longer, with a length":         {body: large, length: 1 << 20, sent: 1 << 20, file: true},
		"as long as it may be":          {body: large + large, length: -1, sent: 2 << 20, file: true},
		"with trailers":                 {body: "body", length: -1, kind: func(r *http.Request) { r.Trailer = http.Header{"X-T": nil} }, sent: -1},
	} {
		t.Run(name, func(t *testing.T) {
			w := misusedWorld(t, signing)
			c0 := bounded(w, 2<<20)
			api, body := &signingAPI{t: t, dir: dir}, once(c.body)
			r := post(t.Context(), body, c.length)
			if c.kind != nil {
				c.kind(r)
			}
			has, given := r.Body, *r
			_ = must(c0.Transport(api).RoundTrip(r))(t).Body.Close()
			sum := sha256.Sum256([]byte(c.body))
			if len(api.got) != 1 || api.got[0].body != c.body || api.got[0].digest != hex.EncodeToString(sum[:]) {
				t.Fatalf("the API got %d requests, the first %.100v, not what was to be sent", len(api.got), api.got)
			}
			if got := api.got[0]; got.length != c.sent || len(got.encoding) > 0 || (len(got.files) > 0) != c.file {
				t.Errorf("it was sent with length %d and encoding %q, of the files %q", got.length, got.encoding, got.files)
			}
			if has == body && body.closed != 1 {
				t.Errorf("the request's body was closed %d times", body.closed)
			}
			if r.Body != given.Body || r.ContentLength != given.ContentLength || r.Method != given.Method {
				t.Error("the caller's request was changed")
			}
			noFiles(t, dir)
		})
	}
}

// bounded returns the connector of misused with a limit on its bodies.
func bounded(w *world, bytes int64) *host.Connector {
	w.t.Helper()
	return w.open(host.ConnectorConfig{Auth: []host.Auth{{Type: "custom", Config: misused}}, BodyBytes: bytes})
}

// threats.md 59: no other process can open the file of a body. It has no name, and its mode is 0600.
func TestBodyFilePrivacy(t *testing.T) {
	dir := temporary(t)
	w := misusedWorld(t, signing)
	base := answer(func(r *http.Request) (*http.Response, error) {
		open := openFiles(t, dir)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || len(open) != 1 {
			t.Fatalf("%v have a name (%v), and %q are open", left, err, open)
		}
		if info, err := os.Stat(open[0]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info.Mode(), err)
		}
		_ = r.Body.Close()
		return status(http.StatusOK)(r)
	})
	_ = must(bounded(w, 0).Transport(base).RoundTrip(post(t.Context(), once(strings.Repeat("x", 100_000)), -1)))(t).Body.Close()
}

// The host does not touch the body if the plugin does not read the request.
func TestUnsignedBodyStreams(t *testing.T) {
	temporary(t)
	w := misusedWorld(t, sendsKey)
	body := once("not read before it is sent")
	r := post(t.Context(), body, -1)
	base := answer(func(r *http.Request) (*http.Response, error) {
		if r.Body != body || r.ContentLength != -1 || r.GetBody != nil || body.read > 0 {
			t.Errorf("the body that is sent is %T with length %d, %d bytes were read", r.Body, r.ContentLength, body.read)
		}
		_ = r.Body.Close()
		return status(http.StatusOK)(r)
	})
	response := must(bounded(w, 1).Transport(base).RoundTrip(r))(t)
	if _ = response.Body.Close(); body.closed != 1 {
		t.Errorf("it was closed %d times", body.closed)
	}
}

// Some APIs answer before they have read the whole body. net/http then continues to send it.
func TestKeptBodyLifetime(t *testing.T) {
	dir := temporary(t)
	w := misusedWorld(t, signing)
	content := strings.Repeat("x", 100_000)
	var sending *http.Request
	base := answer(func(r *http.Request) (*http.Response, error) {
		sending = r
		return status(http.StatusOK)(r)
	})
	_ = must(bounded(w, 0).Transport(base).RoundTrip(post(t.Context(), once(content), -1)))(t).Body.Close()
	again := must(sending.GetBody())(t)
	for _, body := range []io.ReadCloser{sending.Body, again} {
		if got, err := io.ReadAll(body); string(got) != content || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if len(openFiles(t, dir)) != 1 {
			t.Error("the file is gone before the last body was closed")
		}
		_, _ = body.Close(), body.Close() // closing twice does no harm
	}
	noFiles(t, dir)
	if late, err := sending.GetBody(); err == nil {
		_ = late.Close()
		t.Error("what is not kept any more can be had")
	}
}

func TestAuthenticateBody(t *testing.T) {
	dir := temporary(t)
	content := strings.Repeat("x", 100_000)
	c := bounded(misusedWorld(t, signing), 0)
	given := once(content)
	authenticated := must(c.Authenticate(post(t.Context(), given, -1)))(t)
	body, err := io.ReadAll(authenticated.Body)
	if err != nil || string(body) != content || authenticated.ContentLength != 100_000 || authenticated.GetBody != nil || given.closed != 1 {
		t.Errorf("it has %d bytes of %d, %v; the request's own was closed %d times", len(body), authenticated.ContentLength, err, given.closed)
	}
	_ = authenticated.Body.Close()
	noFiles(t, dir)
}

// Explain sends nothing, so it does not read a body.
func TestExplainLeavesABodyAlone(t *testing.T) {
	seen := ""
	w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) { seen = string(env.Input()) }))
	body := once("body")
	if _, err := bounded(w, 0).Explain(post(t.Context(), body, 4)); err != nil || body.read+body.closed > 0 || !strings.Contains(seen, `"POST"`) || strings.Contains(seen, "body_sha256") {
		t.Errorf("%v, %d bytes were read; the plugin saw %s", err, body.read, seen)
	}
}

// threats.md 59: while the sender of a body is slow, no guest waits for it.
func TestNoGuestWaitsForABody(t *testing.T) {
	running, runs := 0, 0
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		running++
		runs++
		defer func() { running-- }()
		return signing(env)
	})
	body := &counting{Reader: iotest.OneByteReader(readerFunc(func(p []byte) (int, error) {
		if running > 0 {
			t.Error("a guest runs while the body is read")
		}
		if runs > 1 {
			t.Error("the body is read more than once")
		}
		return copy(p, "x"), io.EOF
	}))}
	if w.send(bounded(w, 0), post(t.Context(), body, -1)); runs != 2 {
		t.Errorf("the plugin ran %d times, want once more with the digest", runs)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// tokenAndSignature is a guest that caches a token and signs the body.
func tokenAndSignature(env contract.Env) (string, error) {
	access, cached := env.CacheGet("token")
	if !cached {
		reply := tokenReply(env, contract.TokenRequest{URL: value(env, "url")})
		access = reply.AccessToken
		env.CacheSet("token", access, 60)
	}
	env.Log(contract.LevelInfo, map[bool]string{false: "a new token", true: "a cached token"}[cached])
	digest := env.Encode(contract.FormatHex, env.Digest(contract.DigestSHA256, env.Body()))
	return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "Authorization", Value: "Bearer " + access}, {Name: "X-Digest", Value: digest}}}), nil
}

// A kept body can be sent again after a 401, with a new token.
func TestKeptBodyResentAfter401(t *testing.T) {
	for name, content := range map[string]string{"in memory": "body", "in a file": strings.Repeat("x", 100_000)} {
		t.Run(name, func(t *testing.T) {
			temporary(t)
			w := misusedWorld(t, tokenAndSignature)
			w.login.Answer(tokens(3600))
			c := bounded(w, 0)
			w.send(c, post(t.Context(), once("first"), -1))
			if len(w.calls) != 1 || w.calls[0].Exchanges != 1 || w.login.Count() != 1 || w.logged("a new token") != 1 {
				t.Errorf("%d exchanges, of which Observe was told in %+v; the log is %s", w.login.Count(), w.calls, w.log.String())
			}
			w.api.Answer(refusing("t1"))
			body := once(content)
			if got, err := w.try(c, post(t.Context(), body, -1)); got != http.StatusOK || err != nil || body.closed != 1 {
				t.Fatalf("%d, %v; the body was closed %d times", got, err, body.closed)
			}
			if w.api.Count() != 3 || w.login.Count() != 2 {
				t.Fatalf("%d requests and %d exchanges", w.api.Count(), w.login.Count())
			}
			sum := sha256.Sum256([]byte(content))
			for i, want := range []string{"t1", "t2"} {
				got := w.api.Received()[i+1]
				if got.Header.Get("Authorization") != "Bearer "+want || got.Body != content || got.Header.Get("X-Digest") != hex.EncodeToString(sum[:]) {
					t.Errorf("attempt %d had Authorization %q, %d bytes and the digest %s", i+1, got.Header.Get("Authorization"), len(got.Body), got.Header.Get("X-Digest"))
				}
			}
		})
	}
}

// Observe is called once, even if the caller goes away during the exchange and the call would then need the body.
func TestObserveCallerLeavesBeforeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := misusedWorld(t, tokenAndSignature)
		g := newGate(tokens(3600))
		w.login.Answer(g.answer)
		c := bounded(w, 0)
		ctx, leave := context.WithCancel(t.Context())
		body := once("body")
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := w.try(c, post(ctx, body, -1)); !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
		if close(g.open); body.closed != 1 || body.read > 0 {
			t.Errorf("of the body %d bytes were read, and it was closed %d times", body.read, body.closed)
		}
		if synctest.Wait(); len(w.calls) != 1 || w.calls[0].Exchanges != 1 || !errors.Is(w.calls[0].Err, context.Canceled) {
			t.Errorf("Observe was told of %+v", w.calls)
		}
		w.send(c, post(t.Context(), once("body"), -1))
		if w.login.Count() != 1 {
			t.Errorf("%d exchanges: the token was not kept for others", w.login.Count())
		}
	})
}
