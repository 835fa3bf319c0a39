package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/trial"
)

// An answer ends if the API pauses for too long, but not if the caller reads slowly.
func TestStallingCountsTheUpstreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		timer := time.AfterFunc(time.Second, func() { over = true })
		timer.Stop()
		from, to := io.Pipe()
		body := &stalling{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("piece"), from)), timer: timer, timeout: time.Second, passing: new(bool)}
		if n, err := body.Read(make([]byte, 10)); n != 5 || err != nil {
			t.Error(n, err)
		}
		<-time.After(time.Minute) // in the bubble's time
		if synctest.Wait(); over {
			t.Error("the caller's time counted")
		}
		go func() {
			<-time.After(time.Minute)
			_ = to.Close()
		}()
		_, _ = body.Read(make([]byte, 10))
		if synctest.Wait(); !over {
			t.Error("the upstream's time did not count")
		}
	})
}

// roundTrip sends a request of a connector by a transport. It returns the context and the body of the answer, which end with the test.
func roundTrip(t *testing.T, base testworld.Answer, d Definition, body io.Reader) (ctx context.Context, c *call, answer io.Reader) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	c = &call{gateway: New(Config{Base: base}), connector: &Connector{definition: d}, cancel: cancel, out: &outgoing{Outgoing: trial.Outgoing{URL: &url.URL{}}}}
	r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodPost, "https://api.invalid", body))(t)
	response := testworld.Must(c.RoundTrip(r))(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	return ctx, c, response.Body
}

// A stream of events may be silent for longer than the timeout: for the time of its own.
func TestSilentStream(t *testing.T) {
	for kind, want := range map[string]error{"text/event-stream": nil, "text/plain": errUpstreamTime} {
		synctest.Test(t, func(t *testing.T) {
			from, to := io.Pipe()
			ctx, _, answer := roundTrip(t, func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: from, Request: r}, nil
			}, Definition{Timeout: time.Second, Streams: Streams{Silence: time.Hour}}, http.NoBody)
			go func() {
				<-time.After(time.Minute) // in the bubble's time
				_, _ = io.WriteString(to, "piece")
			}()
			_, _ = answer.Read(make([]byte, 10))
			if synctest.Wait(); !errors.Is(context.Cause(ctx), want) || want == nil && context.Cause(ctx) != nil {
				t.Errorf("%s ended with %v, want %v", kind, context.Cause(ctx), want)
			}
		})
	}
}

// The time in which the API waits for the caller's body does not count for the timeout, also if the answer has begun before
// the body ends.
func TestCallerWaitTime(t *testing.T) {
	for name, answersEarly := range map[string]bool{"answer to the whole": false, "answer before the end": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := io.Pipe()
				go func() {
					for range 3 {
						<-time.After(time.Minute) // in the bubble's time
						_, _ = io.WriteString(to, "piece")
					}
					_ = to.Close()
				}()
				read := make(chan error, 1)
				ctx, _, _ := roundTrip(t, func(r *http.Request) (*http.Response, error) {
					go func() {
						_, err := io.ReadAll(r.Body)
						read <- err
					}()
					if !answersEarly {
						read <- <-read
					}
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
				}, Definition{Timeout: time.Second}, from)
				testworld.Check(t, <-read)
				<-time.After(time.Minute) // in the bubble's time
				synctest.Wait()
				if errors.Is(context.Cause(ctx), errUpstreamTime) {
					t.Error("the caller's time counted")
				}
			})
		})
	}
}

// dripping is a body that has a byte each second, until its context ends.
type dripping struct {
	ctx  context.Context
	read int
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second): // in the bubble's time
		d.read++
		return copy(p, " "), nil
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

// An API that drips holds a request for no longer than timeout while the gateway reads for itself: the rest of a 401, a short answer,
// or one to be shaped (threats.md 320). What passes to the caller may come as slowly as the API makes it.
func TestDrippingAnswer_threats_320(t *testing.T) {
	for passing, want := range map[bool]struct {
		bytes int
		cause error
	}{false: {4, errUpstreamTime}, true: {100, nil}} {
		synctest.Test(t, func(t *testing.T) {
			body := &dripping{}
			_, c, answer := roundTrip(t, func(r *http.Request) (*http.Response, error) {
				body.ctx = r.Context()
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(body), Request: r}, nil
			}, Definition{Timeout: 4*time.Second + time.Millisecond}, nil)
			c.passing = passing
			_, err := io.CopyN(io.Discard, answer, 100)
			if body.read != want.bytes || !errors.Is(err, want.cause) {
				t.Errorf("passing %t: %d bytes were read, and the error is %v", passing, body.read, err)
			}
		})
	}
}
