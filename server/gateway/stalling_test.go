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

// A stream of events may be silent for longer than the timeout: for the time of its own.
func TestSilentStream(t *testing.T) {
	for kind, want := range map[string]error{"text/event-stream": nil, "text/plain": errUpstreamTime} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			from, to := io.Pipe()
			base := testworld.Answer(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: from, Request: r}, nil
			})
			c := &call{
				gateway: New(Config{Base: base}), cancel: cancel, out: &outgoing{Outgoing: trial.Outgoing{URL: &url.URL{}}},
				connector: &Connector{definition: Definition{Timeout: time.Second, Streams: Streams{Silence: time.Hour}}},
			}
			r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodGet, "https://api.invalid", http.NoBody))(t)
			response := testworld.Must(c.RoundTrip(r))(t)
			defer response.Body.Close()
			go func() {
				<-time.After(time.Minute) // in the bubble's time
				_, _ = io.WriteString(to, "piece")
			}()
			_, _ = response.Body.Read(make([]byte, 10))
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
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				from, to := io.Pipe()
				go func() {
					for range 3 {
						<-time.After(time.Minute) // in the bubble's time
						_, _ = io.WriteString(to, "piece")
					}
					_ = to.Close()
				}()
				read := make(chan error, 1)
				base := testworld.Answer(func(r *http.Request) (*http.Response, error) {
					go func() {
						_, err := io.ReadAll(r.Body)
						read <- err
					}()
					if !answersEarly {
						read <- <-read
					}
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
				})
				c := &call{
					gateway: New(Config{Base: base}), connector: &Connector{definition: Definition{Timeout: time.Second}}, cancel: cancel, out: &outgoing{Outgoing: trial.Outgoing{URL: &url.URL{}}},
				}
				r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodPost, "https://api.invalid", from))(t)
				response := testworld.Must(c.RoundTrip(r))(t)
				defer response.Body.Close()
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
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			body := &dripping{ctx: ctx}
			base := testworld.Answer(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(body), Request: r}, nil
			})
			c := &call{gateway: New(Config{Base: base}), connector: &Connector{definition: Definition{Timeout: 4*time.Second + time.Millisecond}}, cancel: cancel, out: &outgoing{Outgoing: trial.Outgoing{URL: &url.URL{}}}}
			r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodGet, "https://api.invalid", nil))(t)
			response := testworld.Must(c.RoundTrip(r))(t)
			defer response.Body.Close()
			c.passing = passing
			_, err := io.CopyN(io.Discard, response.Body, 100)
			if body.read != want.bytes || !errors.Is(err, want.cause) {
				t.Errorf("passing %t: %d bytes were read, and the error is %v", passing, body.read, err)
			}
		})
	}
}
