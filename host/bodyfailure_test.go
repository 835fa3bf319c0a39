package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// threats.md 59 and 60: a body that cannot be read to its end, or that is too large, is not sent in part, and no file
// of it remains.
func TestUnsignableBody(t *testing.T) {
	broken := errors.New("the connection broke")
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		words  string
		large  bool
		read   int // most bytes that may be read
	}{
		"broken at once":                   {iotest.ErrReader(broken), -1, "cannot be read", false, 0},
		"broken in the middle":             {io.MultiReader(strings.NewReader("bo"), iotest.ErrReader(broken)), 4, "cannot be read", false, 2},
		"broken in the middle of a file":   {io.MultiReader(strings.NewReader(long), iotest.ErrReader(broken)), -1, "cannot be read", false, 100_000},
		"declared to be too large":         {strings.NewReader(long), 200_001, "more than 200000 bytes", true, 0},
		"too large":                        {strings.NewReader(long + long + "x"), -1, "more than 200000 bytes", true, 200_001},
		"without an end":                   {readerFunc(func(p []byte) (int, error) { return len(p), nil }), -1, "more than 200000 bytes", true, 200_001},
		"shorter than its length":          {strings.NewReader("body"), 5, "not the 5 bytes", false, 4},
		"shorter than its length, a file":  {strings.NewReader(long), 100_001, "not the 100001 bytes", false, 100_000},
		"longer than its length":           {strings.NewReader(long), 3, "not the 3 bytes", false, 4},
		"longer than its length, a file":   {strings.NewReader(long + long), 100_000, "not the 100000 bytes", false, 100_001},
		"without an end, of a length":      {readerFunc(func(p []byte) (int, error) { return len(p), nil }), 70_000, "not the 70000 bytes", false, 70_001},
		"empty, and of a length":           {strings.NewReader(""), 3, "not the 3 bytes", false, 0},
		"a caller who went away meanwhile": {readerFunc(func([]byte) (int, error) { return 0, context.Canceled }), -1, "cannot be read", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := temporary(t)
			body := &counting{Reader: c.body}
			failed := refuseBody(t, misusedWorld(t, signing), post(t.Context(), body, c.length), c.words)
			if large, ok := errors.AsType[*http.MaxBytesError](failed); ok != c.large || c.large && large.Limit != 200_000 {
				t.Errorf("the error is %v, with %+v", failed, large)
			}
			if strings.HasPrefix(name, "broken") && !errors.Is(failed, broken) {
				t.Errorf("the error %v is not that of the body", failed)
			}
			if body.closed != 1 || body.read > c.read {
				t.Errorf("%d bytes were read, want %d; the body was closed %d times", body.read, c.read, body.closed)
			}
			noFiles(t, dir)
		})
	}
}

// refuseBody sends a request through a connector whose BodyBytes is 200,000, which must refuse it.
func refuseBody(t *testing.T, w *world, r *http.Request, words string) *host.Error {
	t.Helper()
	return w.refuse(bounded(w, 200_000), r, host.StageBody, words)
}

// threats.md 59: if a request fails after its body was kept, nothing of the body remains.
func TestFailedRequestRemovesBody(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		guest func(contract.Env) (string, error)
		base  answer
	}{
		"the plugin fails": {func(env contract.Env) (string, error) { env.Input(); return "", errors.New("no") }, nil},
		"the mutation is refused": {func(env contract.Env) (string, error) {
			env.Input()
			return header("Host", value(env, "to_header")), nil
		}, nil},
		"the plugin asks for a token": {func(env contract.Env) (string, error) { env.Input(); env.TokenRequest(nil); return "", nil }, nil},
		"the base fails": {signing, func(r *http.Request) (*http.Response, error) {
			_ = r.Body.Close()
			return nil, errors.New("cannot connect")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := temporary(t)
			w := misusedWorld(t, c.guest)
			transport := bounded(w, 0).Transport(nil)
			if c.base != nil {
				transport = bounded(w, 0).Transport(c.base)
			}
			body := once(long)
			err := roundTripError(transport.RoundTrip(post(t.Context(), body, -1)))
			if err == nil || w.api.Count() > 0 || body.closed != 1 {
				t.Errorf("the error is %v, the API received %d requests, the body was closed %d times", err, w.api.Count(), body.closed)
			}
			noFiles(t, dir)
		})
	}
}

// When the caller goes away, the host stops waiting for a body whose sender has stalled.
func TestCallerLeavesStalledBody(t *testing.T) {
	for name, begins := range map[string]int{"before the first byte": 0, "in memory": 1000, "in a file": 100_000} {
		t.Run(name, func(t *testing.T) {
			dir := temporary(t)
			synctest.Test(t, func(t *testing.T) {
				w := misusedWorld(t, signing)
				ctx, leave := context.WithCancel(t.Context())
				body, sender := io.Pipe()
				done := w.background(bounded(w, 0), post(ctx, body, -1))
				_, _ = sender.Write(make([]byte, begins))
				synctest.Wait()
				leave()
				if err := <-done; !errors.Is(err, context.Canceled) || w.api.Count() > 0 {
					t.Errorf("the error is %v, and the API received %d requests", err, w.api.Count())
				}
				synctest.Wait() // because the body may be closed after the error is returned
				if _, err := sender.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the body is not closed: %v", err)
				}
				noFiles(t, dir)
			})
		})
	}
}

// serverBody is a body like that of net/http's server: Close waits for a pending Read.
type serverBody struct {
	mu     sync.Mutex
	sent   chan int // the result of each Read; closed at the end of the body
	closed bool
}

func (b *serverBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, ok := <-b.sent; ok {
		return min(n, len(p)), nil
	}
	return 0, io.EOF
}

func (b *serverBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// threats.md 59: a caller who goes away gets an error at once, even if the body cannot be closed during a Read.
func TestCallerLeavesServer(t *testing.T) {
	for name, begins := range map[string]int{"before the first byte": 0, "in a file": 200} {
		t.Run(name, func(t *testing.T) {
			dir := temporary(t)
			synctest.Test(t, func(t *testing.T) {
				w := misusedWorld(t, signing)
				ctx, leave := context.WithTimeoutCause(t.Context(), time.Second, errors.New("it took too long"))
				defer leave()
				body := &serverBody{sent: make(chan int)}
				done := w.background(bounded(w, 0), post(ctx, body, -1))
				for range begins {
					body.sent <- 512
				}
				if err := <-done; err == nil || !strings.Contains(err.Error(), "it took too long") || w.api.Count() > 0 {
					t.Errorf("the error is %v, and the API received %d requests", err, w.api.Count())
				}
				close(body.sent)
				synctest.Wait()
				if !body.closed {
					t.Error("the body is not closed")
				}
				noFiles(t, dir)
			})
		})
	}
}

// Without a directory for temporary files, a short body is signed and a long one is refused.
func TestNoPlaceForTheFileOfABody(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	w := misusedWorld(t, signing)
	c := bounded(w, 0)
	w.send(c, post(t.Context(), once(strings.Repeat("x", 64<<10)), -1))
	body := once(strings.Repeat("x", 64<<10+1))
	if w.refuse(c, post(t.Context(), body, -1), host.StageBody, "cannot be kept", "none"); body.closed != 1 {
		t.Errorf("the body was closed %d times", body.closed)
	}
}

// The limit of a body is the connector's, or else the host's.
func TestHowLargeABodyMayBe(t *testing.T) {
	for name, c := range map[string]struct{ host, connector, is int64 }{
		"neither":   {0, 0, 8 << 20},
		"host":      {10, 0, 10},
		"connector": {0, 20, 20},
		"both":      {10, 20, 20},
	} {
		t.Run(name, func(t *testing.T) {
			temporary(t)
			w := newWorld(t, withoutBuiltIns, withGuest(misusing(signing)), func(config *host.Config) { config.Limits.BodyBytes = c.host })
			connector := bounded(w, c.connector)
			w.send(connector, post(t.Context(), once(strings.Repeat("x", int(c.is))), -1))
			w.refuse(connector, post(t.Context(), once(strings.Repeat("x", int(c.is)+1)), -1), host.StageBody)
		})
	}
	misusedWorld(t, signing).refuseConnector(host.ConnectorConfig{Auth: []host.Auth{{Type: "custom", Config: misused}}, BodyBytes: -1}, "body_bytes", "")
}

// The length of the body in a guest's input is the one that the API gets, so that a signature over Content-Length is valid. A
// body that the host keeps has a length, also if its caller did not know it.
func TestInputBodyLength(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		length  int64
		signs   bool
		trailer http.Header
		want    string
	}{
		"known and streamed":        {"abc", 3, false, nil, "3"},
		"known and kept":            {"abc", 3, true, nil, "3"},
		"unknown and streamed":      {"abc", -1, false, nil, "-1"},
		"unknown and kept":          {"abc", -1, true, nil, "3"},
		"unknown, long and kept":    {strings.Repeat("x", 100_000), -1, true, nil, "100000"},
		"unknown, empty and kept":   {"", -1, true, nil, "0"},
		"unknown, kept, in chunks":  {"abc", -1, true, http.Header{"X-Sum": {"1"}}, "-1"},
		"not declared and kept":     {"abc", 0, true, nil, "3"},
		"not declared and streamed": {"abc", 0, false, nil, "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			w := misusedWorld(t, func(env contract.Env) (string, error) {
				if c.signs {
					env.Body()
				}
				input := contract.Request{}
				if err := json.Unmarshal(env.Input(), &input); err != nil {
					return "", err
				}
				if got = "-1"; input.ContentLength != nil {
					got = fmt.Sprint(*input.ContentLength)
				}
				return header("X-Key", value(env, "to_header")), nil
			})
			sent := ""
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				sent = fmt.Sprint(r.ContentLength)
				if r.ContentLength == 0 && c.body != "" { // of a body that is not nil, it means an unknown length
					sent = "-1"
				}
				return status(http.StatusOK)(r)
			})
			r := get(t.Context())
			r.Method, r.Body, r.ContentLength, r.Trailer = http.MethodPost, io.NopCloser(strings.NewReader(c.body)), c.length, c.trailer
			if w.send(w.connect("custom", misused), r); got != c.want || sent != c.want {
				t.Errorf("the guest gets %s, and the API %s, want %s", got, sent, c.want)
			}
		})
	}
}
