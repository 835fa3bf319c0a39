package gateway

import (
	"math"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// limiter enforces the limits of a connector, or of the paths for consents.
type limiter struct {
	limits Limits
	clock  func() time.Time
	slots  chan struct{}
	// total is the rate of all users. It is nil if there is no limit.
	total *rate.Limiter

	// perUser is the rate of one user, and burst is the number of requests of one user that may come at once.
	perUser rate.Limit
	burst   int
	// share is the maximum number of slots of one user.
	share int
	mu    sync.Mutex
	// inside counts the requests under way, by user.
	inside map[string]int
	// users holds the rates of users. It is nil if there is no limit.
	users *lru.Cache[string, *rate.Limiter]
}

// maxUsers is the maximum number of users whose rates are kept. The user who has not called for longest is dropped first, and
// most likely has a full allowance again.
const maxUsers = 10_000

func newLimiter(l Limits, clock func() time.Time) *limiter {
	limits := &limiter{
		limits: l, clock: clock, slots: make(chan struct{}, l.Concurrent), perUser: rate.Limit(l.PerUser), burst: max(1, int(l.PerUser)),
		share: max(1, l.Concurrent/4), inside: map[string]int{},
	}
	if l.Total > 0 {
		limits.total = rate.NewLimiter(rate.Limit(l.Total), max(1, int(l.Total)))
	}
	if l.PerUser > 0 {
		limits.users, _ = lru.New[string, *rate.Limiter](maxUsers) // the only error is for sizes below one
	}
	return limits
}

// counts reports whether l can count for other limits: whether they have the same rates and Concurrent.
func (l *limiter) counts(limits Limits) bool {
	return l.limits.PerUser == limits.PerUser && l.limits.Total == limits.Total && l.limits.Concurrent == limits.Concurrent
}

// enter counts a request until release is called. It returns an error if a limit is exceeded. A refused request uses as
// little as possible of the other limits: slots are taken first, because they can be released, and the user's rate is
// checked before the total.
func (l *limiter) enter(user string) (release func(), err error) {
	if !l.admit(user) {
		return nil, &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "you have as many requests under way as one user may have", retry: 1}
	}
	select {
	case l.slots <- struct{}{}:
	default:
		l.dismiss(user)
		return nil, &httpProblem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "there are as many requests under way as there may be", retry: 1}
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

// rates counts a request for both rates. It returns an error if one is exceeded.
func (l *limiter) rates(user string) error {
	if l.users == nil && l.total == nil {
		return nil
	}
	now := l.clock()
	if l.users != nil && !l.limiterFor(user).AllowN(now, 1) {
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "you send more requests than one user may send", retry: nextAfter(l.perUser)}
	}
	if l.total != nil && !l.total.AllowN(now, 1) {
		return &httpProblem{status: http.StatusTooManyRequests, kind: "too-many-requests", detail: "there are more requests than there may be", retry: nextAfter(l.total.Limit())}
	}
	return nil
}

// nextAfter returns the number of seconds after which a rate allows the next request.
func nextAfter(r rate.Limit) int { return int(math.Ceil(1 / float64(r))) }

// limiterFor returns the rate limiter of a user.
func (l *limiter) limiterFor(user string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	lim, ok := l.users.Get(user)
	if !ok {
		lim = rate.NewLimiter(l.perUser, l.burst)
		l.users.Add(user, lim)
	}
	return lim
}

// admit counts a request of a user, and reports whether the user's share allows it. Requests without a user have no share.
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

// dismiss undoes admit.
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
