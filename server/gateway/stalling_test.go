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
)

// An answer ends if the API pauses for too long, but not if the caller reads slowly.
func TestStallingCountsTheUpstreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		timer := time.AfterFunc(time.Second, func() { over = true })
		timer.Stop()
		from, to := io.Pipe()
		body := &stalling{io.NopCloser(io.MultiReader(strings.NewReader("piece"), from)), timer, time.Second}
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

// The time in which the API waits for the caller's body does not count for the timeout, also if the answer has begun before
// the body ends.
func TestWaitingForTheCallerIsNotTheUpstreams(t *testing.T) {
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
					gateway: New(Config{Base: base}), connector: &Connector{definition: Definition{Timeout: time.Second}}, cancel: cancel, out: &Outgoing{URL: &url.URL{}},
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.invalid", from)
				if err != nil {
					t.Fatal(err)
				}
				response, err := c.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if err := <-read; err != nil {
					t.Error(err)
				}
				<-time.After(time.Minute) // in the bubble's time
				synctest.Wait()
				if errors.Is(context.Cause(ctx), errUpstreamTime) {
					t.Error("the caller's time counted")
				}
			})
		})
	}
}
