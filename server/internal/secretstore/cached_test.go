package secretstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

func newCached(t *testing.T, store host.Secrets, ttl time.Duration, clock func() time.Time) host.Secrets {
	t.Helper()
	return testworld.Must(secretstore.Cached(store, ttl, clock))(t)
}

func TestRotation(t *testing.T) {
	c, now := newCanaries(t), newClock()
	first, second := c.Secret("a secret"), c.Secret("a secret")
	store := host.MapSecrets{"crm": first}
	cached := newCached(t, store, 5*time.Second, now.Now)
	c.want(cached, "crm", first)
	store["crm"] = second
	now.Advance(5*time.Second - 1)
	c.want(cached, "crm", first)
	now.Advance(1)
	c.want(cached, "crm", second)
}

func TestTheTTLCountsFromTheQuestion(t *testing.T) {
	c, now := newCanaries(t), newClock()
	value := c.Secret("a secret")
	var asked int
	cached := newCached(t, storeFunc(func(context.Context, string) (string, error) {
		asked++
		now.Advance(4 * time.Second) // the answer may be this old
		return value, nil
	}), 5*time.Second, now.Now)
	c.want(cached, "crm", value)
	now.Advance(time.Second)
	c.want(cached, "crm", value)
	if asked != 2 {
		t.Errorf("the store was asked %d times, want 2", asked)
	}
}

func TestErrorsNotCached(t *testing.T) {
	c, now := newCanaries(t), newClock()
	value := c.Secret("a secret")
	errDown := errors.New("down")
	fails := error(nil)
	cached := newCached(t, storeFunc(func(context.Context, string) (string, error) { return value, fails }), time.Second, now.Now)
	c.want(cached, "crm", value)
	now.Advance(time.Second)
	for _, fails = range []error{errDown, host.ErrSecretNotFound, errDown} {
		if got, err := cached.Secret(t.Context(), "crm"); got != "" || !errors.Is(err, fails) {
			t.Errorf("the answer is %q, %v; want no old value, and the error %v", got, err, fails)
		}
	}
	fails = nil
	c.want(cached, "crm", value)
}

func TestClockSetBack(t *testing.T) { // threats.md 33
	c, now := newCanaries(t), newClock()
	first, second := c.Secret("a secret"), c.Secret("a secret")
	store := host.MapSecrets{"crm": first}
	cached := newCached(t, store, time.Minute, now.Now)
	c.want(cached, "crm", first)
	store["crm"] = second
	now.Advance(-24 * time.Hour)
	c.want(cached, "crm", second)
}

// threats.md 30: concurrent lookups of one name call the store once.
func TestThoseWhoAskAtOnceShareOneAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value string
		err   error
	}{{"a value", "the value", nil}, {"an error", "", errors.New("down")}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				release := make(chan struct{})
				cached := newCached(t, storeFunc(func(context.Context, string) (string, error) {
					asked.Add(1)
					<-release
					return tt.value, tt.err
				}), time.Second, time.Now)
				var wg sync.WaitGroup
				for range 1000 {
					wg.Go(func() {
						if got, err := cached.Secret(context.Background(), "crm"); got != tt.value || !errors.Is(err, tt.err) {
							t.Errorf("the answer is %q, %v", got, err)
						}
					})
				}
				synctest.Wait()
				close(release)
				wg.Wait()
				if asked.Load() != 1 {
					t.Errorf("the store was asked %d times, want once", asked.Load())
				}
			})
		})
	}
}

func TestIndependentNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cached := newCached(t, storeFunc(func(_ context.Context, name string) (string, error) {
			if name == "slow" {
				<-release
			}
			return name, nil
		}), time.Second, time.Now)
		go func() { _, _ = cached.Secret(context.Background(), "slow") }()
		synctest.Wait()
		if got, err := cached.Secret(t.Context(), "quick"); got != "quick" || err != nil {
			t.Errorf("the answer is %q, %v", got, err)
		}
		close(release)
	})
}

// threats.md 31: a caller that goes away does not end the lookup of the others.
func TestFetchSurvivesCallerCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cached := newCached(t, storeFunc(func(ctx context.Context, _ string) (string, error) {
			select {
			case <-release:
				return "the value", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}), time.Second, time.Now)
		first, leave := context.WithCancelCause(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := cached.Secret(first, "crm")
			left <- err
		}()
		synctest.Wait()
		stays := make(chan string, 1)
		go func() {
			got, err := cached.Secret(context.Background(), "crm")
			stays <- fmt.Sprint(got, err)
		}()
		synctest.Wait()
		errLeft := errors.New("the browser has gone")
		leave(errLeft)
		if err := <-left; !errors.Is(err, errLeft) || errors.Is(err, host.ErrSecretNotFound) {
			t.Errorf("who went away got %v", err)
		}
		close(release)
		if got := <-stays; got != "the value<nil>" {
			t.Errorf("who stayed got %s", got)
		}
	})
}

func TestSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cached := newCached(t, storeFunc(func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}), time.Second, time.Now)
		began := time.Now()
		if _, err := cached.Secret(t.Context(), "crm"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %s, want 30 s", took)
		}
	})
}

func TestPanickingStore(t *testing.T) {
	c, now := newCanaries(t), newClock()
	value := c.Secret("a secret")
	panics := true
	cached := newCached(t, storeFunc(func(context.Context, string) (string, error) {
		if panics {
			panic(value)
		}
		return value, nil
	}), time.Second, now.Now)
	c.wantFailure(cached, "crm", "the store of secrets panicked")
	panics = false
	c.want(cached, "crm", value)
}

func TestHowLongAnswersMayBeRemembered(t *testing.T) {
	for ttl, allowed := range map[time.Duration]bool{
		-time.Second: false, 0: false, time.Second - 1: false, time.Second: true, time.Minute: true, time.Minute + 1: false,
	} {
		if _, err := secretstore.Cached(host.MapSecrets{}, ttl, time.Now); (err == nil) != allowed {
			t.Errorf("%s: the error is %v", ttl, err)
		}
	}
}

func TestManyCallersWhileSecretsRotate(t *testing.T) {
	now := newClock()
	var version atomic.Int64
	cached := newCached(t, storeFunc(func(_ context.Context, name string) (string, error) {
		return fmt.Sprint(name, " ", version.Load()), nil
	}), time.Second, now.Now)
	var wg sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprint("secret", i%3)
		wg.Go(func() {
			last := int64(-1)
			for range 2000 {
				got, err := cached.Secret(context.Background(), name)
				var of string
				var seen int64
				if _, scan := fmt.Sscan(got, &of, &seen); err != nil || scan != nil || of != name || seen < last {
					t.Errorf("%s is %q, %v after version %d", name, got, err, last)
					return
				}
				last = seen
				version.Add(1)
				now.Advance(100 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}
