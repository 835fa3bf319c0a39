package hostfn

import (
	"context"
	"crypto"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
)

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
