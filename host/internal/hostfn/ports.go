package hostfn

import (
	"context"
	"crypto"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Shared is the place of one entry of the cache in a store of state, for the node that may fetch the entry.
type Shared interface {
	// Put stores the value and returns its generation, or 0 if the store has not taken it.
	Put(ctx context.Context, value []byte, ttl time.Duration) (generation int64)
}

// SharedRefusals is the memory of what token endpoints refused that all nodes with a store of state share. If the store fails,
// it is as if nothing had been refused elsewhere.
type SharedRefusals interface {
	// Refusal returns the last refusal of a question, and the number of refusals in a row.
	Refusal(ctx context.Context, key [32]byte) (r tokencache.Refusal, count int)
	// Refuse records a refusal and returns the time for which no node should ask, or 0 if the store fails. wait returns it for a
	// number of refusals in a row.
	Refuse(ctx context.Context, key [32]byte, r tokencache.Refusal, wait func(count int) time.Duration) time.Duration
	// Accept removes the refusals of a question.
	Accept(ctx context.Context, key [32]byte)
}

// Turn is the right to send what a grant keeps. Of the calls on all nodes, one has the turn. The errors of Refused, Unknown and
// Lost say whose grant it is.
type Turn interface {
	// Token returns what the grant keeps.
	Token() []byte
	// Intent writes that the token is about to be sent, and returns the context within which it may be sent once.
	Intent(ctx context.Context) (context.Context, context.CancelFunc, error)
	// Done ends the turn after the token was redeemed. next is the next one. If it is nil, the same one may be sent again.
	Done(ctx context.Context, next []byte)
	// NotRedeemed takes the intent back.
	NotRedeemed(ctx context.Context)
	// Refused ends the turn after the endpoint said that the token is not valid.
	Refused(ctx context.Context, cause error) error
	// Unknown ends the turn after it is not known whether the token was redeemed. wait returns for how long it is not sent again,
	// after a number of such requests.
	Unknown(ctx context.Context, wait func(count int) time.Duration, cause error) error
	// Lost ends the turn after the endpoint answered, and what it issued cannot be kept.
	Lost(ctx context.Context, cause error) error
	// End ends the turn. It does nothing if the turn has ended.
	End(ctx context.Context)
}

// Keys is the store of keys of a host, see host.Keys. An error that may pass is marked with Passing.
type Keys interface {
	// Describe returns what is known about a key.
	Describe(ctx context.Context, key seal.Key) (KeyInfo, error)
	// Sign returns a signature, or an HMAC, and the version of the key that made it.
	Sign(ctx context.Context, key seal.Key, algorithm string, data []byte) (signature []byte, version int, err error)
}

// KeyInfo describes a key of a store. It has the fields of host.KeyInfo.
type KeyInfo struct {
	Type    string
	Version int
	Public  crypto.PublicKey
}
