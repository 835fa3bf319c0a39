package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

// waiting is a store whose Articles blocks until the test sends to release or closes it.
type waiting struct {
	content.Store
	release chan struct{}
}

func (s waiting) Articles(ctx context.Context, _ int64, _ int) ([]content.Article, error) {
	select {
	case <-s.release:
		return []content.Article{{ID: "a1"}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ready returns a store that does not block.
func ready() waiting {
	s := waiting{community(), make(chan struct{})}
	close(s.release)
	return s
}

// slow is a client that reads nothing of a response until release is closed.
type slow struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s slow) Write(p []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// page sends a request for articles from an address, with an API key if it is not "".
func page(h http.Handler, w http.ResponseWriter, address, key string) {
	r := httptest.NewRequest(http.MethodGet, "/articles", nil)
	r.RemoteAddr = address + ":1234"
	r.Header.Set("X-API-Key", key)
	h.ServeHTTP(w, r)
}

// pages sends n requests for articles at once, and returns a channel of their status codes.
func pages(h http.Handler, n int, address, key string) <-chan int {
	codes := make(chan int, n)
	for range n {
		go func() {
			w := httptest.NewRecorder()
			page(h, w, address, key)
			codes <- w.Code
		}()
	}
	return codes
}

// threats.md 77: a page may be large, so the number of concurrent requests is bounded, a caller has at most half of them, and the last
// quarter is for callers without one. Further requests wait for a bounded time.
func TestConcurrentRequestBound_threats_77_80(t *testing.T) {
	for name, c := range map[string]struct {
		config                    httpapi.Config
		one, other, third, fourth [2]string // address and key
	}{
		"callers who prove themselves": {
			httpapi.Config{Callers: keys{}},
			[2]string{"192.0.2.1", "reader"},
			[2]string{"192.0.2.1", "moderator"},
			[2]string{"192.0.2.1", "person 1"},
			[2]string{"192.0.2.1", "person 2"},
		},
		"addresses": {httpapi.Config{}, [2]string{"192.0.2.1"}, [2]string{"192.0.2.2"}, [2]string{"192.0.2.3"}, [2]string{"192.0.2.4"}},
		"networks of IPv6": {
			httpapi.Config{},
			[2]string{"[2001:db8::1]"},
			[2]string{"[2001:db8:0:1::1]"},
			[2]string{"[2001:db8:0:2::1]"},
			[2]string{"[2001:db8:0:3::1]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := waiting{community(), make(chan struct{})}
				c.config.Store, c.config.Requests = store, 8
				h := handler(t, c.config)
				inside := pages(h, 20, c.one[0], c.one[1])
				synctest.Wait()
				others := pages(h, 4, c.other[0], c.other[1])
				synctest.Wait()
				third, fourth := pages(h, 1, c.third[0], c.third[1]), pages(h, 1, c.fourth[0], c.fourth[1])
				synctest.Wait()
				for range 8 { // the requests that have a place
					store.release <- struct{}{}
				}
				synctest.Wait()
				if len(inside) != 4 || len(others) != 2 || len(third) != 1 || len(fourth) != 1 {
					t.Errorf("the first 8 places had %d requests of one caller, %d of another, and %d and %d of two more", len(inside), len(others), len(third), len(fourth))
				}
				<-time.After(5 * time.Second) // in the bubble's time
				w := httptest.NewRecorder()
				page(h, w, c.one[0], c.one[1])
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "urn:keywright:problem:busy") {
					t.Errorf("one more gets %d %v %s", w.Code, w.Header(), w.Body)
				}
				<-time.After(time.Minute) // until the remaining requests have ended
				after := pages(h, 1, c.one[0], c.one[1])
				store.release <- struct{}{}
				if got := <-after; got != http.StatusOK {
					t.Errorf("afterwards one gets %d", got)
				}
			})
		})
	}
}

// All addresses of an IPv6 network belong to one caller, and all forms of an address too.
func TestAddressesOfOneCaller(t *testing.T) {
	for _, c := range [][2]string{{"[2001:db8::1]", "[2001:db8::ffff:2]"}, {"192.0.2.1", "[::ffff:192.0.2.1]"}, {"[fe80::1%a]", "[fe80::1%b]"}} {
		synctest.Test(t, func(t *testing.T) {
			store := waiting{community(), make(chan struct{})}
			h := handler(t, httpapi.Config{Store: store, Requests: 2})
			first := pages(h, 1, c[0], "")
			synctest.Wait()
			began := time.Now()
			got, after := <-pages(h, 1, c[1], ""), time.Since(began)
			// A request that had a place would wait for the store, for 15 seconds.
			if got != http.StatusServiceUnavailable || after > 10*time.Second {
				t.Errorf("%s gets %d beside %s, after %v", c[1], got, c[0], after)
			}
			close(store.release)
			<-first
		})
	}
}

// threats.md 80: clients that do not read their responses do not block others.
func TestSlowClients_threats_80(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		h := handler(t, httpapi.Config{Store: ready(), Callers: keys{}, Requests: most})
		release := make(chan struct{})
		for range 10 * most {
			go page(h, slow{httptest.NewRecorder(), release}, "192.0.2.1", "reader")
		}
		synctest.Wait()
		for _, key := range []string{"reader", "moderator"} {
			if got := <-pages(h, 1, "192.0.2.1", key); got != http.StatusOK {
				t.Errorf("%s gets %d", key, got)
			}
		}
		close(release)
	})
}

// threats.md 80: the memory of responses that slow clients have not read is bounded. A caller's share is bounded by the
// memory that is free.
func TestSharedAnswers_threats_80(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, httpapi.Config{Store: ready(), Callers: keys{}})
		w := httptest.NewRecorder()
		page(h, w, "192.0.2.1", "reader")
		length, _ := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
		httpapi.Limit(h, httpapi.DefaultRequests, 4*length)
		release := make(chan struct{})
		for _, key := range []string{"reader", "reader", "moderator"} {
			go page(h, slow{httptest.NewRecorder(), release}, "192.0.2.1", key)
			synctest.Wait()
		}
		if got := <-pages(h, 1, "192.0.2.1", "reader"); got != http.StatusServiceUnavailable {
			t.Errorf("a third answer of one caller: %d", got)
		}
		close(release)
		synctest.Wait()
		if got := <-pages(h, 1, "192.0.2.1", "reader"); got != http.StatusOK {
			t.Errorf("afterwards: %d", got)
		}
	})
}

// A caller that goes away while it waits is observed with status 499, and not as a failure.
func TestWaitingCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := waiting{community(), make(chan struct{})}
		var told httpapi.Event
		h := handler(t, httpapi.Config{Store: store, Requests: 1, Observe: func(e httpapi.Event) { told = e }})
		first := pages(h, 1, "192.0.2.1", "")
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, "/articles", nil))
		if told.Status != 499 {
			t.Errorf("it is observed as %+v", told)
		}
		close(store.release)
		<-first
	})
}

func TestNegativeBound(t *testing.T) {
	if _, err := httpapi.New(httpapi.Config{Store: community(), Requests: -1}); err == nil {
		t.Error("it is not")
	}
}
