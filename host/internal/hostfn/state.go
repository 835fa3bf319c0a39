package hostfn

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
)

type grantUse struct {
	*rendering
	// turn is nil until StateGet has taken it. hasGrant is not set for that of HoldTurn.
	turn     *lease.Turn
	hasGrant bool
	// states has the texts of the states, by name.
	states map[string]string
	// ends holds the states of the grant if the call ends it, and is nil otherwise.
	ends []byte
	fate fate
	// connected is set if the last request that sent the states had a connection, or may have had one.
	connected atomic.Bool
}

// fate says what became of the states that a call has sent.
type fate byte

const (
	unsent   fate = iota // nothing was sent, or what was sent was not redeemed
	inFlight             // the request has left, or is about to
	redeemed
	refusedGrant
	doubtful // nothing says whether the states were redeemed
	unkept   // the answer has states that cannot be kept, or an error that says nothing of them
)

// EndTurn ends the turn of the call's grant, if it has one. The caller calls it when the guest has ended.
func (c *grantUse) EndTurn() {
	if c.turn != nil {
		c.turn.End(c.ctx)
	}
}

// StateGet returns the value of a state, and reports whether the grant has it. The first call takes the turn of the grant, and
// waits for calls that have it.
func (c *grantUse) StateGet(name string) (string, bool) {
	c.requireGroup(contract.UserStateGet)
	c.rejectAfterRead("state_get", "nothing of one request may reach another place")
	c.rejectSealed("the name of a state", name)
	i := slices.IndexFunc(c.plan.States, func(s State) bool { return s.Name == name })
	if i < 0 {
		c.endf(StagePlugin, "state_get was asked for %q, which is no state in the plugin's description", printable.Text(name, 128))
	}
	s := &c.plan.States[i]
	c.runAfresh()
	c.impure = true
	switch {
	case c.mode == Explaining:
		return c.seal(s.value(name)), true
	case c.mode == Inline:
		c.runAgain(Restart{})
	case c.turn == nil:
		c.takeTurn()
	}
	value, ok := c.states[name]
	if !ok {
		return "", false
	}
	return c.seal(s.value(value)), true
}

func (c *grantUse) takeTurn() {
	seeds := map[string]string{}
	for i := range c.plan.States {
		if s := &c.plan.States[i]; s.Seed != nil && (s.Seed.Text != nil || s.Seed.Default != "") {
			seeds[s.Name] = c.plainText(s.Seed)
			if !utf8.ValidString(seeds[s.Name]) { // encodeStates would make another text of it
				c.endf(StageConfig, "%s is not UTF-8", s.Seed.Name)
			}
		}
	}
	var seed []byte
	if len(seeds) > 0 {
		seed = encodeStates(seeds)
	}
	turn, err := c.plan.Turns.Begin(c.ctx, seed, !c.Right.Ahead()) // a call ahead of the end needs no token yet
	if err != nil {
		c.end(StageToken, err)
	}
	c.turn, c.hasGrant = turn, true
	if c.states, err = decodeStates(turn.Token()); err != nil {
		c.end(StageToken, err)
	}
}

// encodeStates returns the states of a grant as the store keeps them. The same states always have the same form, because a seed
// is recognised by it. So that form must stay as it is.
func encodeStates(values map[string]string) []byte {
	document, _ := strictjson.Marshal(map[string]map[string]string{"states": values}) // texts have JSON
	return document
}

func decodeStates(document []byte) (map[string]string, error) {
	var d struct {
		States map[string]string `json:"states"`
	}
	if strictjson.Unmarshal(document, &d) != nil { // its error could have parts of the texts
		return nil, errors.New("a grant in the store of state has another form than this version reads")
	}
	if d.States == nil {
		d.States = map[string]string{}
	}
	return d.States, nil
}

// needsState ends the call if an exchange asks for an answer that is a state, and the call has not called state_get: the host
// could not keep it.
func (c *grantUse) needsState(names []string) {
	if c.turn != nil || c.mode == Explaining {
		return
	}
	for i := range c.plan.Answers {
		a := &c.plan.Answers[i]
		if a.State != "" && (len(names) == 0 || slices.Contains(names, a.Name)) {
			c.endf(StagePlugin, "exchange was asked for the answer %s, which is a state, before state_get was called: call it first, or name other answers", a.Name)
		}
	}
}

// intend writes the intent of sending the states, if the call has asked for them. It returns a client and a request with which
// net/http sends them no more than once, and a function that must be called afterwards.
//
// A connection of its own has two reasons. One that has been idle may be closed by the other side at the same moment, and
// nobody knows then whether the request arrived. And if none is had, the request cannot have been sent.
func (c *grantUse) intend(ctx context.Context, client *http.Client, r *http.Request) (*http.Client, *http.Request, func()) {
	if c.turn == nil {
		return client, r.WithContext(ctx), func() {}
	}
	switch {
	case c.fate != unsent:
		c.endf(StagePlugin, "exchange was called again after it sent the state: a state is used once in a call")
	case r.Method == http.MethodGet:
		c.endf(StagePlugin, "exchange was called with GET after state_get: clients and proxies repeat a GET, so use POST, PUT, PATCH or DELETE")
	case r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != "":
		c.endf(StagePlugin, "exchange has an Idempotency-Key after state_get: it lets clients repeat the request")
	}
	sendCtx, cancel, err := c.turn.Intent(ctx)
	if err != nil {
		c.end(StageToken, Passing(err)) // nothing was sent
	}
	c.fate = inFlight
	client, own := egress.Once(sendCtx, client)
	if own {
		sendCtx = httptrace.WithClientTrace(sendCtx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.connected.Store(true) }})
	}
	c.connected.Store(!own) // nobody knows what another transport does
	r = r.WithContext(sendCtx)
	r.GetBody = nil // net/http cannot send the body again
	if r.Body == nil || r.Body == http.NoBody {
		r.Body = io.NopCloser(strings.NewReader(""))
	}
	return client, r, cancel
}

// unsettled settles a turn whose request has no answer that could be read: err is the error of sending it.
func (c *grantUse) unsettled(err error, a *answer.Reply) {
	switch {
	case c.fate != inFlight || err == nil:
	case a.Status == 0 && !c.connected.Load():
		c.fate = unsent
		c.turn.NotRedeemed(c.ctx)
	case a.Status == 0 || a.Success():
		c.fate = doubtful
		c.endGrant(a.Header, err)
	}
}

// settle settles the turn by an answer. refusal is its error, or nil.
func (c *grantUse) settle(a *answer.Reply, refusal *view.TokenError) {
	if c.fate != inFlight {
		return
	}
	code := ""
	if refusal != nil {
		code = a.Code()
	}
	next, complete := c.nextStates(a)
	changed := complete && !maps.Equal(next, c.states)
	switch {
	case a.Status < http.StatusBadRequest && changed, a.Success() && complete && refusal == nil:
		c.fate, c.states = redeemed, next
		var token []byte
		if changed {
			token = encodeStates(next)
		}
		c.turn.Done(c.ctx, token)
	case code == "invalid_grant":
		c.fate = refusedGrant
	case slices.Contains(notRedeemed, code), a.Status >= 400 && a.Status <= 499, a.Status == http.StatusServiceUnavailable:
		c.fate = unsent
		c.turn.NotRedeemed(c.ctx)
	default:
		c.fate = doubtful
		if a.Status < http.StatusBadRequest && (!complete || code != "" && !(&view.TokenError{Code: code}).Retryable()) {
			c.fate = unkept
		}
		if refusal == nil { // a redirect, or a state that cannot be kept
			refusal = &view.TokenError{Status: a.Status, Problem: "without a state that can be kept"}
		}
		c.endGrant(a.Header, refusal)
	}
}

// notRedeemed has the error codes of RFC 6749 section 5.2 that say nothing about the grant.
var notRedeemed = []string{"invalid_request", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}

// nextStates returns the states after an answer: those of the answer, and for others those before. complete is false if a state
// is there that cannot be kept, for example because it is too long.
func (c *grantUse) nextStates(reply *answer.Reply) (next map[string]string, complete bool) {
	next, complete = maps.Clone(c.states), true
	for i := range c.plan.Answers {
		a := &c.plan.Answers[i]
		if a.State == "" {
			continue
		}
		raw, ok := reply.At(a)
		text, isText := raw.(string)
		if !ok || raw == nil || isText && strings.TrimSpace(text) == "" {
			continue
		}
		value, ok := a.Read(raw, answer.MaxSealed)
		if !ok {
			complete = false
			continue
		}
		next[a.State] = value
	}
	return next, complete
}

// endGrant ends the call if the grant cannot be used, or not now. header is that of the answer, or nil.
func (c *grantUse) endGrant(header http.Header, cause error) {
	var err error
	switch {
	case c.fate == refusedGrant:
		err = c.turn.Refused(c.ctx)
	case c.fate == unkept, c.fate == doubtful && c.plan.Turns.NeverResend:
		err = c.turn.Lost(c.ctx)
	case c.fate == doubtful:
		retryAfter, jitter := answer.RetryAfter(header, c.plan.Clock()), c.jitter()
		err = c.turn.Unknown(c.ctx, func(count int) time.Duration { return tokencache.Wait(count, retryAfter, jitter) })
	default:
		return
	}
	if c.hasGrant {
		cause = c.plan.Turns.Error(c.ctx, err, cause)
	}
	c.end(StageToken, cause)
}

// HoldTurn makes the states of a turn those of the call, for a run that begins or ends a grant. turn may be nil.
func (c *grantUse) HoldTurn(turn *lease.Turn) (err error) {
	if turn == nil {
		return nil
	}
	c.turn = turn
	c.states = map[string]string{}
	if token := turn.Token(); token != nil {
		c.ends = token
		c.states, err = decodeStates(token)
	}
	return err
}
