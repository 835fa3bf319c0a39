// Package seal implements the sealed values of one call. A guest never holds a secret, a key or a token. It holds a reference, random text
// that means nothing outside the call. The host replaces the reference by the bytes, in the places where they may go.
//
// These places are the sinks of a value. A value keeps them through everything that a guest can do with it. A value
// that is made from several others has the sinks that all of them share.
package seal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
)

// Sinks is a set of places that a sealed value may go to. The zero value is the empty set.
type Sinks uint16

// The sinks. Package contract has their names.
const (
	Header   Sinks = 1 << iota // contract.SinkHeader
	Query                      // contract.SinkQuery
	unlisted                   // the exchanges that are not Listed
	Claim                      // contract.SinkClaim
	Sign                       // contract.SinkSign
	Digest                     // contract.SinkDigest
	Path                       // contract.SinkPath
	Body                       // contract.SinkBody
	URL                        // contract.SinkURL
	Listed                     // exchanges with the hosts that the operator lists for a token of users or identities
)

// Token is the sink of all exchanges, contract.SinkToken. Tokens of users and identities have only Listed of it.
const Token = unlisted | Listed

// All is the set of all sinks.
const All = Header | Query | Token | Claim | Sign | Digest | Path | Body | URL

// sinkNames has the sinks by their names, in the order of their bits.
var sinkNames = [...]struct {
	name string
	sink Sinks
}{
	{contract.SinkHeader, Header},
	{contract.SinkQuery, Query},
	{contract.SinkToken, Token},
	{contract.SinkClaim, Claim},
	{contract.SinkSign, Sign},
	{contract.SinkDigest, Digest},
	{contract.SinkPath, Path},
	{contract.SinkBody, Body},
	{contract.SinkURL, URL},
}

// ParseSinks returns the set of the sinks with the names in list. An unknown name is an error.
func ParseSinks(list []string) (s Sinks, err error) {
	for _, name := range list {
		sink := sinkOf(name)
		if sink == 0 {
			return 0, fmt.Errorf("unknown sink %q: use one of %s", name, All)
		}
		s |= sink
	}
	return s, nil
}

// sinkOf returns the sink with a name, or 0.
func sinkOf(name string) Sinks {
	for _, n := range sinkNames {
		if n.name == name {
			return n.sink
		}
	}
	return 0
}

// String returns the names of the sinks, such as "header, query", or "none".
func (s Sinks) String() string {
	var list []string
	for _, n := range sinkNames {
		if s&n.sink != 0 {
			list = append(list, n.name)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// reach reports whether a value with the sinks s may go to sink. It is false for a sink of 0, so that a caller who
// forgets to name one gets an error and not the bytes.
func (s Sinks) reach(sink Sinks) bool { return sink != 0 && s&sink == sink }

// Value is the value that a reference stands for. If it is printed, logged, or encoded as JSON or text, only its mask appears.
type Value struct {
	// Text is the secret.
	Text string
	// Sinks is the set of places that Text may go to.
	Sinks Sinks
	// Derived is the set of places that a digest, a MAC or a signature may go to that is made with Text.
	Derived Sinks
	// Mask is the text that a person may see in place of the secret, such as {{ get_secret('x') }} or <token>. If it is
	// empty, <sealed> is shown.
	Mask string
	// Size is the number of bytes that the value counts as where texts are limited. It is set for a value that was made
	// from others. If it is 0, the length of Text counts, rounded up to a multiple of step.
	Size int
	// Raw is set if Text is raw bytes that depend on the guest's choice: a MAC, a digest, a signature or decoded text.
	Raw bool
	// Encoding is the format of encode that Text is in, if it was made by encode, and "" otherwise.
	Encoding string
	// Word is set if Text has at most 64 characters, which are ASCII letters, digits and hyphens, even if an API has chosen it.
	Word bool
	// Public is set for a value that is not secret: what compose has made of a request without secrets, and what is made of that.
	Public bool
	// Later is set for what compose makes anew for each request that repeats a call, and for what is made of that.
	Later bool
	// Stream is set for a value that is not secret, but large: the body of a request. Text is empty then, and the only sink is Digest.
	Stream Stream
	// Key is set for a key that stays in a store of keys. Text is empty then, and there is no sink but Sign.
	Key *view.Key
	// From holds the cache entries that the value came from. A 401 drops them.
	From *Origins
}

// A Stream returns a new reader of a text, which is read when it is needed.
type Stream func() (io.ReadCloser, error)

// Copy writes the text of a Stream to w.
func Copy(w io.Writer, s Stream) error {
	from, err := s()
	if err != nil {
		return err
	}
	buffer := buffers.Get().(*[copied]byte)
	defer buffers.Put(buffer)
	_, err = io.CopyBuffer(w, from, buffer[:])
	return errors.Join(err, from.Close())
}

// buffers has buffers for Copy. A buffer of its own would be most of the memory that a call takes.
var buffers = sync.Pool{New: func() any { return new([copied]byte) }}

// step is the unit in which the length of a value counts, in bytes. If the exact length counted, a guest could fill a
// text up to the limit with a value and text of its own, and learn from the success or failure how long the value is.
const step = 1 << 10

// size returns the number of bytes that the value counts as where texts are limited.
func (v *Value) size() int {
	if v.Size > 0 {
		return v.Size
	}
	return max(1, (len(v.Text)+step-1)/step) * step
}

// Rounding returns the number of bytes that the secret values in text count for beyond their lengths.
func (t *Table) Rounding(text string) (n int) {
	for v := range t.In(text) {
		if v.Stream == nil {
			n += v.size() - len(v.Text)
		}
	}
	return n
}

// Size returns the approximate memory of the table, in bytes.
func (t *Table) Size() int { return t.size + len(t.entries)*entrySize }

// Counts returns the number of bytes that a piece counts as where texts are limited. A sealed piece includes its mask.
func (p *Piece) Counts() int {
	if p.Sealed {
		return p.Value.size() + len(p.Value.Mask)
	}
	return len(p.Text)
}

// unknownMask is shown for a value without a mask, for a dead reference, and for a mask that is too long.
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

// Piece is a part of a text: plain text, or a sealed value with its bytes. The token cache keeps pieces beyond the call.
type Piece struct {
	// Text is the text of a piece that is not sealed.
	Text   string
	Sealed bool
	// Value is the value of a sealed piece.
	Value Value
}

// Bytes returns the size of pieces in memory, in bytes.
func Bytes(pieces []Piece) int {
	size := len(pieces) * int(unsafe.Sizeof(Piece{}))
	for _, p := range pieces {
		size += len(p.Text) + len(p.Value.Text) + len(p.Value.Mask)
	}
	return size
}

// Reason is the reason why a text with references was refused.
type Reason uint8

// The reasons of an Error.
const (
	Dead       Reason = iota + 1 // text with the shape of a reference that stands for no value of this call
	OutOfReach                   // a value in a place that is not among its sinks
	NotPlain                     // a reference, live or dead, in a place that takes no sealed values
	TooLong                      // a text over MaxText with its values put in, or the values of a call over MaxHeld
	OnlyHashed                   // the body of a request in a place where it would be copied
	OnlySigns                    // a key that stays in a store of keys in a place that needs its bytes
)

// Error is the error for a guest that misuses a reference. It never holds a reference or its value.
type Error struct {
	Reason Reason
	// Sinks is the set of sinks of the value, for OutOfReach.
	Sinks Sinks
	// Sink is the place of the value, for Dead and OutOfReach. It is 0 if that is not a sink.
	Sink Sinks
}

// Error returns a description for the author of the plugin.
func (e *Error) Error() string {
	switch e.Reason {
	case Dead:
		text := "text has the shape of a sealed value, but stands for none of this call"
		if e.Sink != 0 {
			text += ": " + e.Sink.String()
		}
		return text
	case OutOfReach:
		return fmt.Sprintf("a sealed value stands where its sinks (%s) do not reach: %s", e.Sinks, e.Sink)
	case NotPlain:
		return "a sealed value stands where only plain text may"
	case TooLong:
		return fmt.Sprintf("sealed values are too long: a text may have %d bytes, and all that a call seals %d", MaxText, MaxHeld)
	case OnlyHashed:
		return "the body of the request may only be hashed, by digest or mac, or signed as a message"
	case OnlySigns:
		return "the bytes of the key are wanted, but it stays in its store (get_key): use get_secret, or an auth type that takes the key as it is"
	}
	return "a sealed value was misused"
}

// Origins is the set of cache entries that a value came from. It is immutable, so that values share it. Nil is the empty set.
type Origins struct {
	entries []*tokencache.Handle
}

// From returns the origins of a value that came from entries, which must not repeat.
func From(entries ...*tokencache.Handle) *Origins { return &Origins{entries} }

// Entries returns the entries, each once.
func (o *Origins) Entries() []*tokencache.Handle {
	if o == nil {
		return nil
	}
	return o.entries
}

// And returns the origins of a value that is made from two others: the union of both sets.
func (o *Origins) And(p *Origins) *Origins {
	switch {
	case p == nil || o == p:
		return o
	case o == nil:
		return p
	}
	all := slices.Clone(o.entries)
	for _, h := range p.entries {
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return &Origins{all}
}

// through returns the origins of a value that was read from the entry h: h, and the origins that the value had when it
// was stored. Entries that are gone from the cache are left out. Otherwise, a value that each call stores again would
// get one more origin each time. A partition has few entries that are not gone.
func (o *Origins) through(h *tokencache.Handle) *Origins {
	all := []*tokencache.Handle{h}
	for _, earlier := range o.Entries() {
		if earlier != h && !earlier.Gone() {
			all = append(all, earlier)
		}
	}
	return &Origins{all}
}

// next returns the index of the first reference in text, or -1. A reference is the prefix and exactly contract.SealedLength
// characters of the alphabet, whatever follows them. The prefix cannot begin inside of the prefix, nor inside of the characters
// after it. So references cannot overlap, and the leftmost match is the only way to read a text.
func next(text string) int {
	for from := 0; ; from += len(contract.SealedPrefix) {
		i := strings.Index(text[from:], contract.SealedPrefix)
		if i < 0 || len(text)-from-i < refLength {
			return -1
		}
		from += i
		if isCode(text[from+len(contract.SealedPrefix) : from+refLength]) {
			return from
		}
	}
}

// isCode reports whether text has characters of contract.SealedAlphabet only.
func isCode(text string) bool {
	for i := range len(text) {
		if !inAlphabet[text[i]] {
			return false
		}
	}
	return true
}

var inAlphabet = func() (in [256]bool) {
	for _, c := range contract.SealedAlphabet {
		in[c] = true
	}
	return in
}()

// source makes references from random bytes. It reads ahead.
type source struct {
	reader io.Reader
	buffer [2 * 32]byte
	// unread is the number of unused bytes, which are at the end of buffer.
	unread int
}

const (
	// fair is the largest multiple of the alphabet's length up to 256. A random byte from fair on is discarded, because its
	// remainder would favour some characters.
	fair     = 256 - 256%len(contract.SealedAlphabet)
	maxDraws = 1024 // bytes that are drawn for one reference: a good source needs about 27
)

func (s *source) reference() (string, error) {
	var ref [refLength]byte
	n := copy(ref[:], contract.SealedPrefix)
	for range maxDraws {
		if n == refLength {
			return string(ref[:]), nil
		}
		if s.unread == 0 {
			if _, err := io.ReadFull(s.reader, s.buffer[:]); err != nil {
				return "", err
			}
			s.unread = len(s.buffer)
		}
		b := int(s.buffer[len(s.buffer)-s.unread])
		s.unread--
		if b < fair {
			ref[n] = contract.SealedAlphabet[b%len(contract.SealedAlphabet)]
			n++
		}
	}
	return "", errors.New("the source of randomness gives nothing of use")
}
