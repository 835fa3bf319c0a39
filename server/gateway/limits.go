package gateway

import (
	"io"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/server/internal/codings"
)

// limiter enforces the limits of a connector, or of the paths for consents.
type limiter struct {
	limits Limits
	clock  func() time.Time
	// total is the rate of all users. It is nil if there is no limit.
	total *rate.Limiter
	// burst is the number of requests of one user that may come at once.
	burst int

	mu sync.Mutex
	// all counts the requests under way, and inside those of each user.
	all    int
	inside map[string]int
	// users holds the rates of users. It is nil if there is no limit.
	users *lru.Cache[string, *rate.Limiter]
}

func newLimiter(l Limits, clock func() time.Time) *limiter {
	limits := &limiter{limits: l, clock: clock, burst: max(1, int(l.PerUser)), inside: map[string]int{}}
	if l.Total > 0 {
		limits.total = rate.NewLimiter(rate.Limit(l.Total), max(1, int(l.Total)))
	}
	if l.PerUser > 0 {
		// The user who has not called for longest is dropped first, and most likely has a full allowance again.
		const maxUsers = 10_000
		limits.users, _ = lru.New[string, *rate.Limiter](maxUsers) // the only error is for sizes below one
	}
	return limits
}

// counts reports whether l can count for other limits: whether they have the same rates and Concurrent.
func (l *limiter) counts(limits Limits) bool {
	return l.limits.PerUser == limits.PerUser && l.limits.Total == limits.Total && l.limits.Concurrent == limits.Concurrent
}

// enter counts a request until release is called. It returns an error if a limit is exceeded. A refused request uses as little as possible
// of the other limits: those under way are counted first, because that can be undone, and the user's rate is checked before the total.
func (l *limiter) enter(user string) (release func(), err error) {
	if err := l.admit(user); err != nil {
		return nil, err
	}
	release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.inside[user]--; l.inside[user] == 0 {
			delete(l.inside, user)
		}
	}
	if err := l.rates(user); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// rates counts a request for both rates. It returns an error if one is exceeded.
func (l *limiter) rates(user string) error {
	now := l.clock()
	if l.users != nil && !l.rateOf(user).AllowN(now, 1) {
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "you send more requests than one user may send", retry: nextAfter(l.limits.PerUser)}
	}
	if l.total != nil && !l.total.AllowN(now, 1) {
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "there are more requests than there may be", retry: nextAfter(l.limits.Total)}
	}
	return nil
}

func (l *limiter) rateOf(user string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	lim, ok := l.users.Get(user)
	if !ok {
		lim = rate.NewLimiter(rate.Limit(l.limits.PerUser), l.burst)
		l.users.Add(user, lim)
	}
	return lim
}

// nextAfter returns the number of seconds after which a rate allows the next request.
func nextAfter(rate float64) int { return int(math.Ceil(1 / rate)) }

// admit counts a request under way, or returns an error if there are too many. Requests without a user have no share.
func (l *limiter) admit(user string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case user != "" && l.inside[user] >= max(1, l.limits.Concurrent/4):
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "you have as many requests under way as one user may have", retry: 1}
	case l.all >= l.limits.Concurrent:
		return &httpProblem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "there are as many requests under way as there may be", retry: 1}
	}
	l.all++
	l.inside[user]++
	return nil
}

// newPlaces returns the places for shaping bodies: two for each processor, but at least four. They are few, because a decoded
// body takes many times the memory of its text and much time of a processor. Their owners are connectors, by permalink, so
// that the places that a connector has taken still count after a reload (threats.md 58).
func newPlaces() *fairqueue.Queue {
	const mostHeld = 256 << 20 // bytes of bodies that are read, wait or are shaped
	return fairqueue.New(max(4, 2*runtime.GOMAXPROCS(0)), mostHeld)
}

// codings returns the content codings that need a window in memory. It counts that in places, as bytes of the connector.
func (g *Gateway) codings(connector string) map[string]answers.Coding {
	all := codings.Further()
	for name, coding := range all {
		all[name] = func(r io.Reader) (io.ReadCloser, error) {
			free := sync.OnceFunc(func() { g.places.Hold(connector, -codings.Window) })
			if !g.places.Hold(connector, codings.Window) {
				free()
				return nil, errHeld
			}
			decoded, err := coding(r)
			if err != nil {
				free()
				return nil, err
			}
			return &window{decoded, free}, nil
		}
	}
	return all
}

// window is the reader of a coding. free says that its window counts no longer.
type window struct {
	io.ReadCloser
	free func()
}

func (w *window) Close() error {
	w.free()
	return w.ReadCloser.Close()
}

// errHeld is the error for a body when too many bytes are held.
var errHeld = &httpProblem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "there are more bodies under way than this gateway takes", retry: 1}

// countingReader reads a body to be shaped, and counts its bytes in places, which limits the bytes of all such bodies.
type countingReader struct {
	io.Reader
	places    *fairqueue.Queue
	connector string
	bytes     int64
}

// read reads a connector's body to its end. The caller must call release when it no longer needs the body, also after an
// error. It returns an error if too many bytes are held.
func (g *Gateway) read(from io.Reader, connector string) (body []byte, release func(), err error) {
	h := &countingReader{Reader: from, places: g.places, connector: connector}
	body, err = io.ReadAll(h)
	return body, func() { g.places.Hold(connector, -h.bytes) }, err
}

func (h *countingReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.bytes += int64(n)
	if !h.places.Hold(h.connector, int64(n)) {
		return 0, errHeld
	}
	return n, err
}
