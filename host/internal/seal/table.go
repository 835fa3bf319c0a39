package seal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/contract"
)

// Limits in bytes. Without them, a guest could seal a text that contains one value many times, then do the same with
// the result, until the host's memory is full.
const (
	MaxText = 256 << 10 // a text with its values put in
	MaxHeld = 4 << 20   // the texts and masks of all values of a call
	maxMask = 4 << 10   // a mask that Combine builds: a longer one becomes <sealed>
)

const (
	refLength = len(contract.SealedPrefix) + contract.SealedLength
	entrySize = 128      // approximate memory of an entry without its texts, in bytes
	copied    = 32 << 10 // bytes that Copy copies at once
	usual     = 4        // values for which there is room at first
	linear    = 16       // values up to which a linear search is faster than a map
)

// Table holds the sealed values of one call. It is not safe for concurrent use: a call runs in one goroutine.
type Table struct {
	entries []entry
	// index maps references to entries. It is nil up to linear entries.
	index map[string]int
	// size is the number of bytes that count towards MaxHeld.
	size int
	// Opened is the number of bytes that all texts of Open count as, and Made that of all values of Combine and Hash.
	Opened, Made int
	// InStep is set while a step runs that another call may repeat.
	InStep bool
	// Escaped is set once a value with Later was used outside of a step.
	Escaped bool

	random source
}

type entry struct {
	ref    string
	value  Value
	inStep bool
}

// Init prepares an unused Table. It makes its references from random, which must be a cryptographically secure source. It reads up to
// 64 bytes ahead.
func (t *Table) Init(random io.Reader) { t.random = source{reader: random} }

// Format prints the number of values, whatever the verb.
func (t *Table) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%d sealed values", len(t.entries))
}

// Seal adds a value and returns its reference: contract.SealedPrefix and contract.SealedLength random characters, the same length
// for every value. The error is an *Error with TooLong, or comes from the source of randomness.
func (t *Table) Seal(v Value) (string, error) {
	size := v.size() + len(v.Mask)
	if v.size() > MaxText || size > MaxHeld-t.size {
		return "", &Error{Reason: TooLong}
	}
	ref, err := t.random.reference()
	if err != nil {
		return "", fmt.Errorf("making a sealed value: %w", err)
	}
	if t.lookup(ref) != nil {
		// This does not happen by chance. A broken source of randomness must not make one reference stand for two values.
		return "", errors.New("making a sealed value: the source of randomness repeats itself")
	}
	t.size += size
	if t.entries == nil {
		t.entries = make([]entry, 0, usual)
	}
	t.entries = append(t.entries, entry{ref, v, t.InStep})
	switch n := len(t.entries); {
	case n <= linear:
	case t.index == nil:
		t.index = make(map[string]int, 4*linear)
		for i, e := range t.entries {
			t.index[e.ref] = i
		}
	default:
		t.index[ref] = n - 1
	}
	return ref, nil
}

// Len returns the number of values.
func (t *Table) Len() int { return len(t.entries) }

// Later reports whether text has a value with Later.
func (t *Table) Later(text string) (later bool) {
	for v := range t.In(text) {
		later = later || v.Later
	}
	return later
}

// lookup returns the value of a reference, or nil. The pointer is valid until the next Seal.
func (t *Table) lookup(ref string) *Value {
	if i := t.find(ref); i >= 0 {
		return &t.entries[i].value
	}
	return nil
}

// find returns the index of the value of a reference, or -1.
func (t *Table) find(ref string) int {
	if t.index != nil {
		if i, ok := t.index[ref]; ok {
			return i
		}
		return -1
	}
	for i := range t.entries {
		if t.entries[i].ref == ref {
			return i
		}
	}
	return -1
}

// Replace sets the text of each value that has the text old.
func (t *Table) Replace(old, text string) {
	for i := range t.entries {
		if v := &t.entries[i].value; v.Text == old {
			v.Text = text
		}
	}
}

// Key returns the value of a text that is one reference to a key in a store of keys, and nil for any other text. The pointer
// is valid until the next Seal.
func (t *Table) Key(text string) *Value {
	if v := t.lookup(text); v != nil && v.Key != nil {
		return v
	}
	return nil
}

// Word reports whether text is one reference, to a value with Word.
func (t *Table) Word(text string) bool {
	v := t.lookup(text)
	return v != nil && v.Word
}

// dead is the value of a reference that stands for none of the call.
var dead = &Value{}

// parts returns the parts of text, from left to right: plain text, with nil, and each reference, with its value or dead. No plain
// text is empty. The values are valid until the next Seal.
func (t *Table) parts(text string) iter.Seq2[string, *Value] {
	return func(yield func(string, *Value) bool) {
		for rest := text; rest != ""; {
			i := next(rest)
			if i < 0 {
				yield(rest, nil)
				return
			}
			end := i + refLength
			if i > 0 && !yield(rest[:i], nil) || !yield(rest[i:end], cmp.Or(t.lookup(rest[i:end]), dead)) {
				return
			}
			rest = rest[end:]
		}
	}
}

// Open returns text with its references replaced by their values, and the number of those that are not public. A value may look like a
// reference: it is not replaced again. The error is an *Error: Dead, TooLong, or OutOfReach if a value may not go to
// sink. If sink is a set of several, a value must be allowed to go to all of them.
func (t *Table) Open(text string, sink Sinks) (out string, count int, err error) {
	out, _, size, err := t.put(text, func(v *Value) error {
		switch {
		case v == dead:
			return &Error{Reason: Dead, Sink: sink}
		case !v.Sinks.reach(sink):
			return &Error{Reason: OutOfReach, Sinks: v.Sinks, Sink: sink}
		case !v.Public:
			count++
		}
		return nil
	})
	t.Opened += size
	return out, count, err
}

// Combine returns one value for a text with references, for a caller that makes something from the text and seals that.
// Its Text is text with the values put in, and its Mask is text with the masks put in. It is Raw if one of the values is. Its Sinks and Derived are those that
// all the values share, and it has the origins of all of them. If text has no references, sealed is false and v.Text is
// text. The error is an *Error: Dead, TooLong, OnlyHashed or OnlySigns.
func (t *Table) Combine(text string) (v Value, sealed bool, err error) {
	sinks, derived, from, public, later, raw := All, All, (*Origins)(nil), true, false, false
	out, n, size, err := t.put(text, func(v *Value) error {
		switch {
		case v == dead:
			return &Error{Reason: Dead}
		case v.Stream != nil:
			return &Error{Reason: OnlyHashed}
		case v.Key != nil:
			return &Error{Reason: OnlySigns}
		}
		sinks, derived, from = sinks&v.Sinks, derived&v.Derived, from.And(v.From)
		public, later, raw = public && v.Public, later || v.Later, raw || v.Raw
		return nil
	})
	switch {
	case err != nil:
		return Value{}, false, err
	case n == 0:
		return Value{Text: text, Mask: text}, false, nil
	}
	t.Made += size
	return Value{Text: out, Sinks: sinks, Derived: derived, Mask: t.mask(text, maxMask), Size: size, From: from, Public: public, Later: later, Raw: raw}, true, nil
}

// put returns text with its references replaced by their values, the number n of references, and the size that the
// result counts as. It first calls check with each value, which must return an error for dead. put computes the size before it
// builds the text, so that a text that is too long takes no memory.
func (t *Table) put(text string, check func(*Value) error) (out string, n, size int, err error) {
	room := 0
	for part, v := range t.parts(text) {
		if v == nil {
			size += len(part)
			room += len(part)
			continue
		}
		if err := check(v); err != nil {
			return "", 0, 0, err
		}
		t.use(v)
		if len(text) == refLength {
			return v.Text, 1, v.size(), nil // the most common case: the whole text is one reference
		}
		n++
		size += v.size()
		room += len(v.Text)
	}
	switch {
	case n == 0:
		return text, 0, size, nil
	case size > MaxText:
		return "", 0, 0, &Error{Reason: TooLong}
	}
	var b strings.Builder
	b.Grow(room)
	for part, v := range t.parts(text) {
		if v != nil {
			part = v.Text
		}
		b.WriteString(part)
	}
	return b.String(), n, size, nil
}

// use records that a value is used.
func (t *Table) use(v *Value) { t.Escaped = t.Escaped || v.Later && !t.InStep }

// Hash writes text with its values put in to w, which is usually a hash. Each value must reach Digest. The result describes a value that is
// made from the written bytes: its Sinks and Derived are the Derived that all the secret values share. It has no Text. sealed is false if
// text has no values but the body of a request. The error is an *Error, or comes from the reader of the body.
func (t *Table) Hash(text string, w io.Writer) (v Value, sealed bool, err error) {
	size, derived, from, public, later := len(text), All, (*Origins)(nil), true, false
	for _, part := range t.parts(text) {
		switch {
		case part == nil:
		case part == dead:
			return Value{}, false, &Error{Reason: Dead, Sink: Digest}
		case !part.Sinks.reach(Digest):
			return Value{}, false, &Error{Reason: OutOfReach, Sinks: part.Sinks, Sink: Digest}
		case part.Stream == nil:
			t.use(part)
			sealed, public, later = true, public && part.Public, later || part.Later
			size, derived, from = size+part.size()-refLength, derived&part.Derived, from.And(part.From)
		}
	}
	if size > MaxText {
		return Value{}, false, &Error{Reason: TooLong}
	}
	if sealed {
		t.Made += size
	}
	for plain, part := range t.parts(text) {
		switch {
		case part == nil:
			_, err = io.WriteString(w, plain)
		case part.Stream == nil:
			_, err = io.WriteString(w, part.Text)
		default:
			err = Copy(w, part.Stream)
		}
		if err != nil {
			break
		}
	}
	v = Value{Sinks: derived, Derived: derived, Mask: t.mask(text, maxMask), From: from, Public: public && sealed, Later: later}
	return v, sealed, err
}

// Plain returns an *Error with NotPlain if text contains the shape of a reference, live or dead. It is for places that
// take no sealed values: names of cache entries, data to be signed, errors, log lines.
func (t *Table) Plain(text string) error {
	if next(text) >= 0 {
		return &Error{Reason: NotPlain}
	}
	return nil
}

// CutSecret divides text in front of its first reference, live or dead, that is not one to a Stream. secret is empty if there is none.
func (t *Table) CutSecret(text string) (open, secret string) {
	for plain, part := range t.parts(text) {
		if part != nil && (part == dead || part.Stream == nil) {
			return open, text[len(open):]
		}
		open = text[:len(open)+len(plain)]
	}
	return text, ""
}

// Split divides text into pieces that a cache can keep beyond this call. No piece is empty plain text. Join returns the
// same text with new references. The error is an *Error with Dead.
func (t *Table) Split(text string) (pieces []Piece, err error) {
	for part, v := range t.parts(text) {
		switch v {
		case nil:
			pieces = append(pieces, Piece{Text: part})
		case dead:
			return nil, &Error{Reason: Dead}
		default:
			if v.Public && !v.Raw { // other calls need no reference to it
				pieces = append(pieces, Piece{Text: v.Text})
				continue
			}
			pieces = append(pieces, Piece{Sealed: true, Value: *v})
		}
	}
	return pieces, nil
}

// Join returns the text of pieces that were in the cache entry h. They may come from Split in another call. Sealed
// pieces get references of this table, and h is added to their origins. The errors are those of Seal.
func (t *Table) Join(pieces []Piece, h *tokencache.Handle) (string, error) {
	if len(pieces) == 1 && !pieces[0].Sealed {
		return pieces[0].Text, nil
	}
	var b strings.Builder
	var previous, from *Origins // of the last sealed piece; most pieces of an entry have the same origins
	for _, p := range pieces {
		part := p.Text
		if p.Sealed {
			if from == nil || previous != p.Value.From {
				previous, from = p.Value.From, p.Value.From.through(h)
			}
			p.Value.From, p.Value.Later = from, false
			ref, err := t.Seal(p.Value)
			if err != nil {
				return "", err
			}
			part = ref
		}
		b.WriteString(part)
	}
	return b.String(), nil
}

// In returns the values in text, in their order. It skips dead references.
func (t *Table) In(text string) iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for _, v := range t.parts(text) {
			if v != nil && v != dead && !yield(v) {
				return
			}
		}
	}
}

// Raw reports whether any value in text is raw bytes.
func (t *Table) Raw(text string) (raw bool) {
	for v := range t.In(text) {
		raw = raw || v.Raw
	}
	return raw
}

// From returns the origins of all values in text.
func (t *Table) From(text string) (from *Origins) {
	for v := range t.In(text) {
		from = from.And(v.From)
	}
	return from
}

// Values returns all values that were sealed so far, in order, for callers that must keep them out of a text.
func (t *Table) Values() iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for i := range t.entries {
			if !yield(&t.entries[i].value) {
				return
			}
		}
	}
}

// Mask returns text as a person may see it: references are replaced by the masks of their values, dead ones by
// <sealed>. A result over MaxText becomes <sealed> as a whole.
func (t *Table) Mask(text string) string { return t.mask(text, MaxText) }

// mask is Mask with another limit in place of MaxText.
func (t *Table) mask(text string, limit int) string {
	if next(text) < 0 {
		return text
	}
	var b strings.Builder
	for part, v := range t.parts(text) {
		if v != nil {
			part = v.mask()
		}
		if b.WriteString(part); b.Len() > limit {
			return unknownMask
		}
	}
	return b.String()
}
