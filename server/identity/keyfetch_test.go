package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/server/identity"
)

func TestAThousandCallersWaitForOneFetch(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	token := s.token(t, forever())
	synctest.Test(t, func(t *testing.T) {
		var fetches atomic.Int32
		w := slowWorld(t, func(*http.Request) (*http.Response, error) {
			fetches.Add(1)
			<-time.After(2 * time.Second)
			return answer(document(s.jwk())), nil
		})
		burst := func(token func(i int) string, check func(error) bool) {
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() {
					if _, err := w.bearer(token(i)); !check(err) {
						t.Errorf("got %v", err)
					}
				})
			}
			all.Wait()
		}
		burst(func(int) string { return token }, func(err error) bool { return err == nil })
		if n := fetches.Load(); n != 1 {
			t.Errorf("%d fetches for the first callers", n)
		}
		<-time.After(time.Minute)
		unknown := make([]string, 1000)
		valid, _ := json.Marshal(forever())
		for i := range unknown {
			unknown[i] = s.raw(t, fmt.Sprintf(`{"alg":"ES256","kid":"made-up-%d"}`, i), string(valid))
		}
		burst(func(i int) string { return unknown[i] }, func(err error) bool { return errors.Is(err, identity.ErrUnauthenticated) })
		if n := fetches.Load(); n != 2 {
			t.Errorf("%d fetches, want one more for unknown keys", n)
		}
		began := time.Now()
		burst(func(int) string { return token }, func(err error) bool { return err == nil })
		if time.Since(began) != 0 {
			t.Error("callers with a good token waited")
		}
	})
}

func TestHangingEndpoint(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	synctest.Test(t, func(t *testing.T) {
		var hanging, dripping atomic.Bool
		w := slowWorld(t, func(r *http.Request) (*http.Response, error) {
			if hanging.Load() {
				return hang(r.Context())
			}
			if dripping.Load() {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(drip{r.Context()})}, nil
			}
			return answer(document(s.jwk())), nil
		})
		took := func(want error) time.Duration {
			began := time.Now()
			if _, err := w.bearer(s.token(t, forever())); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			return time.Since(began)
		}
		hanging.Store(true)
		if d := took(identity.ErrUnavailable); d != 5*time.Second {
			t.Errorf("without keys a caller waits %v", d)
		}
		if d := took(identity.ErrUnavailable); d != 5*time.Second { // the next attempt
			t.Errorf("then %v", d)
		}
		hanging.Store(false)
		if d := took(nil); d != 0 {
			t.Errorf("once it answers, %v", d)
		}
		for name, flag := range map[string]*atomic.Bool{"hangs": &hanging, "drips": &dripping} {
			flag.Store(true)
			<-time.After(5 * time.Minute)
			for range 20 { // the first one starts a fetch
				if d := took(nil); d != 0 {
					t.Errorf("%s: with keys that are five minutes old a caller waits %v", name, d)
				}
			}
			<-time.After(30 * time.Minute)
			for range 20 {
				if d := took(nil); d != 0 {
					t.Errorf("%s: while it is down a caller waits %v", name, d)
				}
			}
			<-time.After(10 * time.Second)
			flag.Store(false)
			took(nil)
			synctest.Wait()
		}
	})
}

// A drip is a body of one byte per second.
type drip struct{ ctx context.Context }

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = ' '
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func TestFetchSurvivesCallerCancel(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	synctest.Test(t, func(t *testing.T) {
		w := slowWorld(t, func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(2 * time.Second):
				return answer(document(s.jwk())), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() {
			_, err := w.User(request("Authorization", "Bearer "+s.token(t, forever())).WithContext(ctx))
			if !errors.Is(err, identity.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who went away: %v", err)
			}
		})
		both.Go(func() {
			accepted(t, ann)(w.bearer(s.token(t, forever())))
		})
		both.Wait()
	})
}

func TestCloseEndsAFetch(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		w := slowWorld(t, func(r *http.Request) (*http.Response, error) {
			fetches++
			return hang(r.Context())
		})
		go func() {
			_, err := w.bearer(s.token(t, forever()))
			if !errors.Is(err, identity.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		_ = w.Close()
		<-time.After(time.Hour)
		_, err := w.bearer(s.token(t, forever()))
		if !errors.Is(err, identity.ErrUnavailable) || fetches != 1 || time.Since(began) != time.Hour {
			t.Errorf("after Close: %v, %d fetches", err, fetches)
		}
	})
}
