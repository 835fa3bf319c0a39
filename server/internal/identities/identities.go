// Package identities provides the identities of the process: short-lived tokens (JWT, RFC 7519) that a file, the environment or a service
// of the platform has, such as the metadata service of a cloud. A [Set] is a [host.Identities].
//
// Each token is checked before each use: whom it is for, when it begins and ends, and whose it is. Its signature is not, since the source
// is local and the party that gets the token verifies it. No error contains a token, or what a source has answered.
package identities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
)

// Identity describes an identity.
type Identity struct {
	Name string
	// For says who may get its tokens.
	For []Audience
	// Expect says what the tokens must be.
	Expect Expectation
	// Once says that a token may be sent once only, because a server remembers its jti.
	Once bool
	// Subject returns the subject of the token for the request of a context. If it is nil, all requests have the same.
	Subject func(ctx context.Context) (string, error)
	// Fetch returns a token for an audience, from where it comes.
	Fetch func(ctx context.Context, audience string) (string, error)
	// Remember is the time for which a token is used again, such as that of a file that changes. If it is 0, a token is used again until a
	// minute before its end, or until half of its life, whichever is first.
	Remember time.Duration
}

// Audience is an audience (RFC 7519 section 4.1.3), and the hosts of token endpoints that may get tokens for it.
type Audience struct {
	// Audience is the audience that the party expects in the claim aud, such as sts.amazonaws.com.
	Audience string `file:",required"`
	// Hosts are the hosts of token endpoints that may get tokens for this audience, such as sts.eu-central-1.amazonaws.com.
	Hosts []string `file:",required,plainhost"`
}

// Expectation says what tokens of an identity must have. Empty fields expect nothing.
type Expectation struct {
	// Issuer is the claim iss that tokens must have.
	Issuer string `file:"iss"`
	// Subject is the claim sub that tokens must have, such as system:serviceaccount:shop:orders.
	Subject string `file:"sub"`
	// Audiences are further values that the claim aud may have, where an issuer writes another one than was asked for.
	Audiences []string `file:"aud"`
}

const (
	// fetchTime limits the time of getting a token.
	fetchTime = 2 * time.Second
	// MaxToken is the longest token, in bytes.
	MaxToken = 16 << 10
	// margin is the time before the end of a token at which it is not used again.
	margin = time.Minute
)

// Set has identities by their names.
type Set struct {
	clock  func() time.Time
	byName map[string]*source
}

// source is an identity with what is known of its tokens, by audience and subject.
type source struct {
	Identity
	memories *lru.Cache[string, *memory]
}

// memory has the token of an identity for an audience.
type memory struct {
	current atomic.Pointer[token]
	// turn is held by the one who asks the source, and guards what follows.
	turn chan struct{}
	// failure is the last error of the source, and failed is its time.
	failure error
	failed  time.Time
	// previous is the last token that was sent, if it may be sent once only.
	previous string
}

// New returns a Set with these identities, whose names differ.
func New(clock func() time.Time, all ...Identity) *Set {
	s := &Set{clock: clock, byName: map[string]*source{}}
	for _, i := range all {
		s.Add(i)
	}
	return s
}

// Add adds an identity, before the Set is used for it.
func (s *Set) Add(i Identity) {
	const maxMemories = 4096
	memories, _ := lru.New[string, *memory](maxMemories) // of the last tokens; it fails for a size below one only
	s.byName[i.Name] = &source{i, memories}
}

// memory returns what is known of the token for an audience and the request of a context.
func (i *source) memory(ctx context.Context, audience string) (*memory, error) {
	key := audience
	if i.Subject != nil {
		subject, err := i.Subject(ctx)
		if err != nil {
			return nil, err
		}
		key += "\n" + subject
	}
	m, ok := i.memories.Get(key)
	if !ok {
		m = &memory{turn: make(chan struct{}, 1)}
		if previous, there, _ := i.memories.PeekOrAdd(key, m); there { // another request has just made it
			m = previous
		}
	}
	return m, nil
}

// Hosts implements [host.Identities].
func (s *Set) Hosts(name, audience string) (hosts []string) {
	if i := s.byName[name]; i != nil {
		for _, a := range i.For {
			if a.Audience == audience {
				hosts = append(hosts, a.Hosts...)
			}
		}
	}
	return hosts
}

// Identity implements [host.Identities].
func (s *Set) Identity(ctx context.Context, r host.IdentityRequest) (string, error) {
	i := s.byName[r.Name]
	if i == nil || !slices.ContainsFunc(i.For, func(a Audience) bool { return a.Audience == r.Audience }) {
		return "", fmt.Errorf("%w: there is no such identity for this audience", host.ErrIdentityRefused)
	}
	m, err := i.memory(ctx, r.Audience)
	if err != nil {
		return "", err
	}
	alone := r.Exchange && i.Once
	if t := m.current.Load(); t != nil && !alone && t.fresh(i, s.clock()) && i.check(t, r.Audience, s.clock()) == nil {
		return t.text, nil
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("gave up waiting for the source: %w", context.Cause(ctx))
	}
	if old := m.current.Load(); alone && old != nil && old.text == m.previous {
		m.current.Store(nil)
	}
	t, err := s.find(ctx, i, m, r.Audience)
	if err == nil && alone && t.text == m.previous {
		err = errors.New("the source has no other token yet than the one that was sent, and once is set")
	}
	if err != nil {
		return "", err
	}
	if alone {
		m.previous = t.text
		m.current.Store(nil)
	}
	return t.text, nil
}

// find returns the token that is remembered, or that of the source. If the source fails, the one that is remembered counts while it is valid. The
// caller has the turn.
func (s *Set) find(ctx context.Context, i *source, m *memory, audience string) (*token, error) {
	const pause = time.Second // after a failure, in which a source is not asked
	now, old := s.clock(), m.current.Load()
	valid := old != nil && i.check(old, audience, now) == nil
	if valid && old.fresh(i, now) {
		return old, nil
	}
	fetched, err := old, m.failure
	if age := now.Sub(m.failed); err == nil || age < 0 || age >= pause {
		fetched, err = i.fetch(ctx, audience, now)
		m.failure, m.failed = err, now
	}
	switch {
	case err == nil:
		m.current.Store(fetched)
		return fetched, nil
	case valid:
		return old, nil
	}
	return nil, err
}

// fetch gets a token and checks it. It goes on if the caller goes away, for the next one.
func (i *source) fetch(ctx context.Context, audience string, now time.Time) (*token, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	text, err := i.Fetch(ctx, audience)
	if err != nil {
		return nil, err
	}
	t, err := parse(text, now)
	if err == nil {
		err = i.check(t, audience, now)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrIdentityRefused, err)
	}
	return t, nil
}

// fresh reports whether a token may be used again without asking the source.
func (t *token) fresh(i *source, now time.Time) bool {
	age := now.Sub(t.fetched)
	if i.Remember > 0 {
		return age >= 0 && age < i.Remember
	}
	return age >= 0 && now.Before(t.expires.Add(-margin)) && age < t.expires.Sub(t.fetched)/2
}

// check returns an error if a token may not be sent to a party that expects the audience.
func (i *source) check(t *token, audience string, now time.Time) error {
	for _, a := range t.audiences {
		if a != audience && !slices.Contains(i.Expect.Audiences, a) {
			return errors.New("it is for another audience (aud), too, or only")
		}
	}
	switch {
	case len(t.audiences) == 0:
		return errors.New("it is for no audience (aud)")
	case !now.Before(t.expires):
		return errors.New("it has ended (exp)")
	case now.Add(margin).Before(t.begins):
		return errors.New("it has not begun (nbf): are the clocks right")
	case i.Expect.Issuer != "" && t.issuer != i.Expect.Issuer:
		return errors.New("it is of another issuer (iss) than expect says")
	case i.Expect.Subject != "" && t.subject != i.Expect.Subject:
		return errors.New("it is of another subject (sub) than expect says")
	}
	return nil
}

// token is a token and its claims, which nobody has verified.
type token struct {
	text            string
	issuer, subject string
	audiences       []string
	// begins is zero if the token does not say when.
	begins, expires time.Time
	// fetched is the time at which it was got.
	fetched time.Time
}

// parse reads a JWT. Its errors quote nothing of it.
func parse(text string, now time.Time) (*token, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxToken {
		return nil, errors.New("it has more than 16 KiB")
	}
	header, claims, err := jws.Decode(text)
	if err != nil {
		return nil, errors.New("it is no JWT of three parts")
	}
	algorithm, _ := header["alg"].(string)
	t, registered := &token{text: text, fetched: now}, jwt.MapClaims(claims) // a claim of a type that it may not have counts as none
	t.audiences, _ = registered.GetAudience()
	t.issuer, _ = registered.GetIssuer()
	t.subject, _ = registered.GetSubject()
	expires, _ := registered.GetExpirationTime()
	if begins, _ := registered.GetNotBefore(); plausible(begins) {
		t.begins = begins.Time
	}
	switch {
	case algorithm == "" || strings.EqualFold(algorithm, "none") || strings.HasSuffix(text, "."):
		return nil, errors.New("it is not signed")
	case jws.Symmetric(algorithm):
		return nil, errors.New("it is signed with a shared secret")
	case t.subject == "":
		return nil, errors.New("it has no subject (sub)")
	case !plausible(expires):
		return nil, errors.New("it has no end (exp)")
	}
	t.expires = expires.Time
	return t, nil
}

// plausible reports whether a claim is a time in seconds, as RFC 7519 section 2 wants it, and not one in milliseconds.
func plausible(claim *jwt.NumericDate) bool {
	return claim != nil && claim.Unix() >= 1 && claim.Unix() <= 1<<40
}
