package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/tokencache"
)

const (
	simLease  = 30 * time.Second // the default
	accessFor = 10 * time.Second
)

// grant is a grant at an authorization server, with what nodes make of it.
type grant struct {
	i      int
	key    lease.Key
	seeded bool
	// rotates is set if the server issues a new token each time, and takes a second use for theft.
	rotates bool
	// seeds counts the seeds, or consents. seed is the present one, or "".
	seeds int
	seed  string

	// valid has the tokens that the server takes, redeemed those that it has redeemed, and decided those of whose answer the store knows.
	valid, redeemed, decided map[string]bool
	// attempts has the numbers of attempts to redeem a token that have no answer, and notBefore is when the next may come.
	attempts  map[string]int
	notBefore map[string]time.Duration
	// flying are the attempts that may be on their way.
	flying map[*attempt]bool
	issued int
	// access has the access tokens, and until when they may be used.
	access map[string]time.Duration
	// dropped says since when an access token must not be seen any more.
	dropped map[string]time.Duration

	// holders have a turn, and fetchers the lease of the access token.
	holders, fetchers []*holder
	// intents counts what may change the row. settled counts the times at which the store has confirmed a good token, and
	// good says whether nothing has changed since.
	intents, settled int
	good             bool
	// replacing counts the calls of Renew and Forget that may still acquire the row. If one of them fails then, the answer of
	// a holder that was stopped is lost with it.
	replacing int
}

// attempt is a request to the server. After its deadline nothing of it is on its way.
type attempt struct{ deadline time.Duration }

// holder is somebody who has taken a lease after a time.
type holder struct {
	n     *simNode
	asked time.Duration
}

// enter notes a holder, and finds another one whose lease cannot be over yet.
func (w *simulation) enter(all *[]*holder, h *holder, what string) {
	live := func(h *holder) bool { return !h.n.dead && w.now < h.asked+simLease }
	for _, other := range *all {
		if other != h && live(other) && live(h) {
			w.wrongf("%s: two live holders", what)
		}
	}
	leave(all, h)
	*all = append(*all, h)
}

func leave(all *[]*holder, h *holder) {
	for i, other := range *all {
		if other == h {
			*all = append((*all)[:i], (*all)[i+1:]...)
			return
		}
	}
}

// issue returns a token of a new seed or consent.
func (g *grant) issue() string {
	g.seeds++
	token := fmt.Sprintf("grant %d, consent %d", g.i, g.seeds)
	g.valid[token] = true
	return token
}

// renew begins the grant anew, after somebody was told that the one of this seed is lost.
func (w *simulation) renew(g *grant, seed string) {
	switch {
	case !g.seeded:
		g.intents++
		mine := g.intents
		n := w.someNode()
		g.replacing++
		err := n.node.Renew(context.Background(), g.key, []byte(g.issue()))
		w.replaced(g, err)
		if err == nil {
			w.confirm(n, g, mine)
		}
	case g.seed == seed:
		g.seed = g.issue()
	}
}

// replaced notes the end of a Renew or Forget. After an error, a call of the store may be on its way for two minutes.
func (w *simulation) replaced(g *grant, err error) {
	if err == nil {
		g.replacing--
		return
	}
	w.after(3*time.Minute, func() { g.replacing-- })
}

// confirm notes that the store has a good token, if nobody has begun to change it since.
func (w *simulation) confirm(n *simNode, g *grant, intent int) {
	if g.intents == intent && g.replacing == 0 && n.node.Unwritten() == 0 {
		g.settled++
		g.good = true
	}
}

// redeem takes the turn of a grant, and exchanges its token for an access token. If again is not set, that may wait.
func (w *simulation) redeem(n *simNode, g *grant, again bool) (access string, err error) {
	ctx, h := context.Background(), &holder{n, w.now}
	good, settled := g.good, g.settled
	turn, err := n.node.Begin(ctx, g.key, []byte(g.seed), again)
	if err != nil {
		if good && g.good && settled == g.settled && (errors.As(err, new(*lease.LostError)) || errors.As(err, new(*lease.UncertainError))) {
			w.wrongf("grant %d: %v, and the store had confirmed a token that nobody has sent", g.i, err)
		}
		return "", err
	}
	w.enter(&g.holders, h, "a turn")
	defer func() {
		leave(&g.holders, h)
		turn.End(ctx)
	}()
	var within context.Context
	unsent, row := g.good, w.rows[n.node.Row(g.key)]
	for {
		leave(&g.holders, h)
		g.intents++
		g.good = false
		mine := g.intents
		if within, _, err = turn.Intent(ctx); err != nil {
			return "", err
		}
		w.enter(&g.holders, h, "an intent")
		if !w.once(50) {
			break
		}
		leave(&g.holders, h)
		confirmed := row.confirmed
		turn.NotRedeemed(ctx)
		if unsent && row.confirmed > confirmed { // otherwise the attempts before this one stay without an outcome
			w.confirm(n, g, mine)
		}
		if w.once(2) {
			return "", errFault
		}
	}
	mine := g.intents
	token := string(turn.Token())
	next, access, err := w.exchange(within, n, g, token, again)
	leave(&g.holders, h)
	ended, confirmed := w.now, row.confirmed
	// The store has what came of the attempt, unless somebody has acquired the row of a holder that was stopped.
	known := func() bool { return g.intents == mine && row.confirmed > confirmed && !n.dead }
	switch {
	case err != nil:
		err := turn.Unknown(ctx, func(count int) time.Duration { return tokencache.Wait(count, 0, 0) })
		if known() {
			g.notBefore[token] = ended + err.Wait
		}
		return "", err
	case access == "":
		err := turn.Refused(ctx)
		if err.Refused && g.redeemed[token] {
			w.wrongf("%s was redeemed, and is said to have been refused", token)
		}
		g.decided[token] = known()
		return "", err
	}
	turn.Done(ctx, []byte(next))
	if known() {
		g.decided[token] = g.rotates
		w.confirm(n, g, mine)
	}
	return access, nil
}

// exchange sends a token to the authorization server, within the deadline of its intent. It returns no access token if the server refuses
// the token. Whatever is lost, nothing is sent while another attempt may be on its way, after an answer that the store has, or too soon.
func (w *simulation) exchange(within context.Context, n *simNode, g *grant, token string, again bool) (next, access string, err error) {
	a := &attempt{within.Value(deadline{}).(time.Duration)}
	w.pause(n)
	if n.dead || w.once(200) || w.now >= a.deadline {
		return "", "", errFault
	}
	for other := range g.flying {
		if w.now < other.deadline {
			w.wrongf("%s is sent while another attempt may be on its way", token)
		}
	}
	switch {
	case g.decided[token]:
		w.wrongf("%s was sent again after an answer", token)
	case w.now < g.notBefore[token]:
		w.wrongf("%s was sent again too soon", token)
	case !again && g.attempts[token] > 0:
		w.wrongf("%s was sent again by somebody who does not need it", token)
	}
	w.exchanges++
	if g.attempts[token]++; g.attempts[token] > 1 {
		w.again++
	}
	g.flying[a] = true
	defer delete(g.flying, a) // a process that crashes closes its connections
	if w.once(200) {          // the server does not answer
		w.sleep(max(1, a.deadline-w.now))
		return "", "", errFault
	}
	w.sleep(w.some(5 * time.Millisecond))
	next, access = g.answer(token, w.now)
	w.sleep(w.some(5 * time.Millisecond))
	w.pause(n)
	if n.dead || w.once(100) {
		return "", "", errFault
	}
	delete(g.attempts, token)
	return next, access, nil
}

// answer is the authorization server. One that rotates takes a second use for theft, and ends the grant.
func (g *grant) answer(token string, now time.Duration) (next, access string) {
	if !g.valid[token] {
		if g.redeemed[token] {
			clear(g.valid)
		}
		return "", ""
	}
	g.issued++
	g.redeemed[token], next = true, token
	if g.rotates {
		delete(g.valid, token)
		next = fmt.Sprintf("grant %d, consent %d, token %d", g.i, g.seeds, g.issued)
		g.valid[next] = true
	}
	access = fmt.Sprintf("access %d of grant %d", g.issued, g.i)
	g.access[access] = now + accessFor
	return next, access
}

// fetch returns an access token that the nodes share.
func (w *simulation) fetch(n *simNode, g *grant) (lease.Token, error) {
	h := &holder{n, w.now}
	return n.node.Fetch(context.Background(), g.key, func(context.Context) ([]byte, time.Duration, error) {
		if n.degraded {
			n.degraded = false
			w.alone++
		} else {
			w.enter(&g.fetchers, h, "an exchange for an access token")
			defer leave(&g.fetchers, h)
		}
		access, err := w.redeem(n, g, true)
		return []byte(access), accessFor, err
	})
}

// ahead replaces an access token that is still valid. If that fails, the next caller who needs one learns why.
func (w *simulation) ahead(n *simNode, g *grant, old lease.Token) {
	h := &holder{n, w.now}
	_, _ = n.node.FetchAhead(context.Background(), g.key, old.Generation, func(context.Context) ([]byte, time.Duration, error) {
		w.early++
		w.enter(&g.fetchers, h, "an exchange ahead")
		defer leave(&g.fetchers, h)
		access, err := w.redeem(n, g, false)
		return []byte(access), accessFor, err
	})
}

// call calls an API with the access token of a grant. If the API does not take it, call drops it and tries again.
func (w *simulation) call(n *simNode, g *grant) error {
	for range 3 {
		begun := w.now
		token, err := w.fetch(n, g)
		if err != nil {
			return err
		}
		value := string(token.Value)
		until, known := g.access[value]
		since, dropped := g.dropped[value]
		switch {
		case !known:
			w.wrongf("%q is no access token of grant %d", value, g.i)
		case dropped && since < begun:
			w.wrongf("%q comes back, after it was dropped", value)
		case until > w.now:
			w.served++
			if w.once(20) {
				w.ahead(n, g, token)
			}
			if w.once(20) {
				g.access[value] = 0 // the API takes it no more
			}
			return nil
		}
		if n.node.Drop(context.Background(), g.key, token.Generation) == nil && token.Generation != 0 {
			w.dropped++
			g.dropped[value] = w.now
		}
	}
	return errFault
}

// request is one of the things that callers do.
func (w *simulation) request(n *simNode, g *grant) {
	ctx, seed := context.Background(), g.seed
	var err error
	switch what := w.random.Intn(1000); {
	case !w.faults || what >= 150:
		err = w.call(n, g)
	case what >= 12:
		if _, err = w.redeem(n, g, true); err == nil {
			w.served++
		}
	case what >= 8:
		w.hold(n)
	case what >= 4:
		if g.rotates {
			clear(g.valid) // the server takes none of the tokens any more
		}
	case what >= 2:
		g.intents++
		g.good = false
		g.replacing++
		_, err = n.node.Forget(ctx, g.key)
		w.replaced(g, err)
	default:
		w.renew(g, seed)
	}
	switch {
	case err == nil:
	case !n.dead && toBeRenewed(err):
		if !g.rotates && errors.As(err, new(*lease.LostError)) {
			w.wrongf("grant %d is lost at a server that lets its token be used again", g.i)
		}
		w.lost++
		w.renew(g, seed)
	default:
		w.failed++
	}
	w.flush(n)
}

// flush does what Node.Run does, which has a goroutine.
func (w *simulation) flush(n *simNode) {
	if n.flushing {
		return
	}
	n.flushing = true
	for n.node.Unwritten() > 0 && !n.dead {
		w.sleep(w.some(time.Second))
		n.node.Flush(context.Background())
	}
	n.flushing = false
}

// toBeRenewed reports whether an error says that a grant has to be renewed. A seed that was used is among them: a node with an
// earlier configuration, which nobody had used yet, may have replaced a later one.
func toBeRenewed(err error) bool {
	var lost *lease.LostError
	return errors.As(err, &lost) || errors.Is(err, lease.ErrNotConnected) || errors.Is(err, lease.ErrSeedUsed)
}

// hold keeps something that three nodes try to take.
func (w *simulation) hold(n *simNode) {
	w.held++
	key, taken := lease.Key{Name: fmt.Sprint("held ", w.held)}, 0
	_ = n.node.Hold(context.Background(), key, []byte(key.Name), time.Hour)
	for range 3 {
		w.spawnLater(func() {
			value, ok, err := w.someNode().node.Take(context.Background(), key)
			if !ok || err != nil {
				return
			}
			if taken++; taken > 1 || string(value) != key.Name {
				w.wrongf("%s: %q was taken %d times", key.Name, value, taken)
			}
		})
	}
}
