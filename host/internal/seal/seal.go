// Package seal keeps the sealed values of one call. A guest never holds a secret, a key or a token: it holds a
// reference, random text that means nothing outside the call, and the host puts the bytes in where they may go.
//
// A value carries its sinks, the places that it may be put into, through everything that a guest can do with it:
// what is made from several values may go only where each of them may.
package seal

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/keywright/keywright/abi"
)

// Sinks is a set of places where a sealed value may be put. The zero value allows none.
type Sinks uint8

// The sinks, which abi names.
const (
	Header Sinks = 1 << iota // abi.SinkHeader
	Query                    // abi.SinkQuery
	Token                    // abi.SinkToken
	Claim                    // abi.SinkClaim
	Sign                     // abi.SinkSign
)

// All holds every sink. It is where Combine begins to narrow.
const All = Header | Query | Token | Claim | Sign

// names has the name of every sink, in the order of their bits.
var names = [...]string{abi.SinkHeader, abi.SinkQuery, abi.SinkToken, abi.SinkClaim, abi.SinkSign}

// ParseSinks returns the set that a field's description names. An unknown name is an error.
func ParseSinks(list []string) (Sinks, error) {
	var s Sinks
	for _, name := range list {
		bit, ok := sinkOf(name)
		if !ok {
			return 0, fmt.Errorf("unknown sink %q: use one of %s", name, All)
		}
		s |= bit
	}
	return s, nil
}

func sinkOf(name string) (Sinks, bool) {
	for i, n := range names {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// String lists the names of the sinks, as in "header, query", or gives "none".
func (s Sinks) String() string {
	var list []string
	for i, name := range names {
		if s&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// reach reports whether a value with the sinks s may be put into sink. Into no sink at all nothing may be put, so
// that a caller who forgets to name one gets an error and not the bytes.
func (s Sinks) reach(sink Sinks) bool { return sink != 0 && s&sink == sink }

// Value is the value of a reference. Printed, logged or encoded as JSON or text it shows its mask.
type Value struct {
	Text  string // the secret bytes
	Sinks Sinks  // where they may be put
	Mask  string // what a human may see instead, such as {{ get_secret('x') }} or <token>; empty is <sealed>
	// Size is how many bytes the value counts as where texts are limited, if it was made from other values; 0: see step.
	Size int
	// Raw is set for bytes that are no text and depend on what the guest chose: a MAC.
	Raw bool
	// From are the cache entries that the value came from, for a 401 to drop.
	From *Origins
}

// step is the unit of lengths where texts are limited. A guest that could fill a text up to the limit, with what it knows
// and with a value, would otherwise learn from whether that succeeds how long the value is.
const step = 1 << 10

// size returns how many bytes the value counts as where texts are limited.
func (v *Value) size() int {
	if v.Size > 0 {
		return v.Size
	}
	return max(1, (len(v.Text)+step-1)/step) * step
}

// Counts returns how many bytes a piece counts as where texts are limited.
func (p *Piece) Counts() int {
	if p.Sealed {
		return p.Value.size() + len(p.Value.Mask)
	}
	return len(p.Text)
}

// unknownMask stands for a value that has no mask, and for a reference that stands for no value.
const unknownMask = "<sealed>"

func (v Value) mask() string {
	if v.Mask == "" {
		return unknownMask
	}
	return v.Mask
}

// Format prints the mask, whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(v.mask())) }

// MarshalText returns the mask.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.mask()), nil }

// LogValue returns the mask.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.mask()) }

// Piece is a part of a text: plain text, or a sealed value with its bytes. It outlives the call, for the token cache.
type Piece struct {
	Text   string // of a plain piece
	Sealed bool
	Value  Value // of a sealed piece
}

// Reason says why a text with references was refused.
type Reason uint8

// The reasons of an Error.
const (
	Dead       Reason = iota + 1 // the text has the shape of a reference and stands for nothing in this call
	OutOfReach                   // the value's sinks do not hold the place where it stands
	NotPlain                     // no sealed value, live or dead, may stand there
	TooLong                      // what the references stand for is over MaxText, or a call's values over MaxHeld
)

// Error is the error of a call whose guest misuses a reference. It never holds a reference or its value.
type Error struct {
	Reason Reason
	Sinks  Sinks // of the value, when it is OutOfReach
	Sink   Sinks // where the value stood, when it is Dead or OutOfReach; 0 when that is no sink
}

// Error says what is wrong in words for the author of the plugin.
func (e *Error) Error() string {
	switch e.Reason {
	case Dead:
		return "text has the shape of a sealed value, but stands for none of this call" + e.where()
	case OutOfReach:
		return fmt.Sprintf("a sealed value stands where its sinks (%s) do not reach: %s", e.Sinks, e.Sink)
	case NotPlain:
		return "a sealed value stands where only plain text may"
	case TooLong:
		return fmt.Sprintf("sealed values are too long: a text may have %d bytes, and all that a call seals %d", MaxText, MaxHeld)
	}
	return "a sealed value was misused"
}

func (e *Error) where() string {
	if e.Sink == 0 {
		return ""
	}
	return ": " + e.Sink.String()
}
