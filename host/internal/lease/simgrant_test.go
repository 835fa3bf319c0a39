package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
)

const (
	simLease  = 30 * time.Second // the default
	accessFor = 10 * time.Second
)

// grant is a grant at an authorization server that rotates its tokens, with what nodes make of it.
type grant struct {
	i      int
	key    lease.Key
	seeded bool
	// seeds counts the seeds, or consents. seed is the present one, or "".
	seeds int
	seed  string

	// valid has the tokens that the server takes, and sent those that it was sent.
	valid, sent map[string]bool
	issued      int
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

// holder is somebody who has taken a lease after a time.
type holder struct {
	n     *simNode
	asked time.Duration
}

// enter notes a holder, and finds another one whose lease cannot be over yet.
func (w *world) enter(all *[]*holder, h *holder, what string) {
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
func (w *world) renew(g *grant, seed string) {
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
func (w *world) replaced(g *grant, err error) {
	if err == nil {
		g.replacing--
		return
	}
	w.after(3*time.Minute, func() { g.replacing-- })
}

// confirm notes that the store has a good token, if nobody has begun to change it since.
func (w *world) confirm(n *simNode, g *grant, intent int) {
	if g.intents == intent && g.replacing == 0 && n.node.Unwritten() == 0 {
		g.settled++
		g.good = true
	}
}

// redeem takes the turn of a grant, and exchanges its token for an access token.
func (w *world) redeem(n *simNode, g *grant) (access string, err error) {
	ctx, h := context.Background(), &holder{n, w.now}
	good, settled := g.good, g.settled
	turn, err := n.node.Begin(ctx, g.key, []byte(g.seed))
	if err != nil {
		var lost *lease.LostError
		if good && g.good && settled == g.settled && errors.As(err, &lost) {
			w.wrongf("grant %d: %v, and the store had confirmed a token that nobody has sent", g.i, err)
		}
		return "", err
	}
	w.enter(&g.holders, h, "a turn")
	sent := false
	defer func() {
		leave(&g.holders, h)
		err = errors.Join(turn.End(ctx), err)
		var lost *lease.LostError
		if sent && !errors.As(err, &lost) {
			w.wrongf("grant %d may be lost, and the caller gets %v", g.i, err)
		}
	}()
	for {
		leave(&g.holders, h)
		g.intents++
		g.good = false
		mine := g.intents
		if _, _, err := turn.Intent(ctx); err != nil {
			return "", err
		}
		w.enter(&g.holders, h, "an intent")
		if !w.once(50) {
			break
		}
		leave(&g.holders, h)
		turn.NotRedeemed(ctx)
		w.confirm(n, g, mine)
		if w.once(2) {
			return "", errFault
		}
	}
	mine := g.intents
	next, err := w.exchange(n, g, string(turn.Token()))
	leave(&g.holders, h)
	switch {
	case err != nil:
		sent = true
		return "", err
	case next == "":
		turn.Refused(ctx)
		return "", &lease.LostError{Refused: true}
	}
	turn.Done(ctx, []byte(next))
	w.confirm(n, g, mine)
	return "access " + next, nil
}

// exchange is the authorization server: it takes a token once. It returns "" if it refuses the token.
func (w *world) exchange(n *simNode, g *grant, token string) (next string, err error) {
	err = w.op(n, func() {
		w.exchanges++
		if g.sent[token] {
			w.wrongf("%s was sent twice", token)
		}
		g.sent[token] = true
		if !g.valid[token] {
			return
		}
		delete(g.valid, token)
		g.issued++
		next = fmt.Sprintf("grant %d, consent %d, token %d", g.i, g.seeds, g.issued)
		g.valid[next] = true
		g.access["access "+next] = w.now + accessFor
	})
	return next, err
}

// fetch returns an access token that the nodes share.
func (w *world) fetch(n *simNode, g *grant) (lease.Token, error) {
	h := &holder{n, w.now}
	return n.node.Fetch(context.Background(), g.key, func(context.Context) ([]byte, time.Duration, error) {
		if n.degraded {
			n.degraded = false
			w.alone++
		} else {
			w.enter(&g.fetchers, h, "an exchange for an access token")
			defer leave(&g.fetchers, h)
		}
		access, err := w.redeem(n, g)
		return []byte(access), accessFor, err
	})
}

// ahead replaces an access token that is still valid. If that fails, the next caller who needs one learns why.
func (w *world) ahead(n *simNode, g *grant, old lease.Token) {
	h := &holder{n, w.now}
	_, _ = n.node.FetchAhead(context.Background(), g.key, old.Generation, func(context.Context) ([]byte, time.Duration, error) {
		w.early++
		w.enter(&g.fetchers, h, "an exchange ahead")
		defer leave(&g.fetchers, h)
		access, err := w.redeem(n, g)
		return []byte(access), accessFor, err
	})
}

// call calls an API with the access token of a grant. If the API does not take it, call drops it and tries again.
func (w *world) call(n *simNode, g *grant) error {
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
func (w *world) request(n *simNode, g *grant) {
	ctx, seed := context.Background(), g.seed
	var err error
	switch what := w.random.Intn(1000); {
	case !w.faults || what >= 150:
		err = w.call(n, g)
	case what >= 12:
		if _, err = w.redeem(n, g); err == nil {
			w.served++
		}
	case what >= 8:
		w.hold(n)
	case what >= 4:
		clear(g.valid) // the server takes none of the tokens any more
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
		w.lost++
		w.renew(g, seed)
	default:
		w.failed++
	}
	w.flush(n)
}

// flush does what Node.Run does, which has a goroutine.
func (w *world) flush(n *simNode) {
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
func (w *world) hold(n *simNode) {
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
