package gateway

import (
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// limiter holds a connector to its limits.
type limiter struct {
	limits Limits
	clock  func() time.Time
	slots  chan struct{}
	total  *rate.Limiter // nil: unlimited

	perUser rate.Limit
	share   int // of the slots, of one user
	mu      sync.Mutex
	inside  map[string]int
	users   *lru.Cache[string, *rate.Limiter] // nil: unlimited
}

// maxUsers is how many users' rates are known at once. Who has not called for long has a full allowance anyway.
const maxUsers = 10_000

func newLimiter(l Limits, clock func() time.Time) *limiter {
	limits := &limiter{limits: l, clock: clock, slots: make(chan struct{}, l.Concurrent), perUser: rate.Limit(l.PerUser), share: max(1, l.Concurrent/4), inside: map[string]int{}}
	if l.Total > 0 {
		limits.total = newRate(rate.Limit(l.Total))
	}
	if l.PerUser > 0 {
		limits.users, _ = lru.New[string, *rate.Limiter](maxUsers) // it fails for sizes below one only
	}
	return limits
}

// counts reports whether other limits count the same as these.
func (l *limiter) counts(other Limits) bool {
	return l.limits.PerUser == other.PerUser && l.limits.Total == other.Total && l.limits.Concurrent == other.Concurrent
}

// newRate allows as many at once as in a second, one at least.
func newRate(l rate.Limit) *rate.Limiter { return rate.NewLimiter(l, max(1, int(l))) }

// enter counts a request in, until release is called. A request that is refused uses up as little as possible of the
// other limits. So places come first, because they can be given back, and the user's own rate comes before the total.
func (l *limiter) enter(user string) (release func(), err error) {
	if !l.admit(user) {
		return nil, &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "you have as many requests under way as this connector takes from one user", retry: 1}
	}
	select {
	case l.slots <- struct{}{}:
	default:
		l.dismiss(user)
		return nil, &httpProblem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "this connector has as many requests under way as it takes", retry: 1}
	}
	release = func() {
		<-l.slots
		l.dismiss(user)
	}
	if err := l.rates(user); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// rates takes a request off both rates.
func (l *limiter) rates(user string) error {
	if l.users == nil && l.total == nil {
		return nil
	}
	now := l.clock()
	if l.users != nil && !l.of(user).AllowN(now, 1) {
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "you send more requests than this connector takes from one user", retry: 1}
	}
	if l.total != nil && !l.total.AllowN(now, 1) {
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "this connector gets more requests than it takes", retry: 1}
	}
	return nil
}

// of returns the rate of a user.
func (l *limiter) of(user string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.users.Get(user)
	if !ok {
		known = newRate(l.perUser)
		l.users.Add(user, known)
	}
	return known
}

// admit counts a request of a user in. Whoever is nobody has no share.
func (l *limiter) admit(user string) bool {
	if user == "" {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[user] >= l.share {
		return false
	}
	l.inside[user]++
	return true
}

func (l *limiter) dismiss(user string) {
	if user == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[user]--; l.inside[user] == 0 {
		delete(l.inside, user)
	}
}
