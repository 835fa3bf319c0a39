package seal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Limits in bytes. Without them a guest could seal a text that holds one value many times, and again, until the
// host's memory is full.
const (
	MaxText = 256 << 10 // of one text with everything put in
	MaxHeld = 4 << 20   // of the texts and masks of all values of a call
	maxMask = 4 << 10   // of a mask that Combine builds; a longer one becomes <sealed>
)

const (
	refLength = len(abi.SealedPrefix) + abi.SealedLength
	entrySize = 128 // bytes, about, that an entry takes beside its texts
	inline    = 4   // values that need no memory beyond the Table's own
	linear    = 16  // values up to which a search beats a map
)

// Table holds the sealed values of one call. It is not safe for concurrent use: a call runs in one goroutine.
type Table struct {
	entries []entry
	index   map[string]int // only beyond linear entries
	held    int            // bytes, to keep within MaxHeld
	opened  int            // bytes of all texts that were opened
	made    int            // bytes of all texts that were combined
	random  source
	first   [inline]entry
}

type entry struct {
	ref   string
	value Value
}

// NewTable makes an empty table that draws its references from random, which must be fit for cryptography. It reads
// ahead, up to 64 bytes.
func NewTable(random io.Reader) *Table {
	t := &Table{}
	t.Init(random)
	return t
}

// Init makes an empty table of one that is part of something else, and has not been used.
func (t *Table) Init(random io.Reader) {
	t.random = source{reader: random}
	t.entries = t.first[:0]
}

// Format prints nothing of what the table holds.
func (t *Table) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%d sealed values", len(t.entries))
}

// Seal adds a value and gives the reference that stands for it: abi.SealedPrefix and abi.SealedLength random
// characters, the same length whatever the value. The error is that of the source of randomness, or an *Error with
// TooLong.
func (t *Table) Seal(v Value) (string, error) {
	size := v.size() + len(v.Mask)
	if v.size() > MaxText || size > MaxHeld-t.held {
		return "", &Error{Reason: TooLong}
	}
	ref, err := t.random.reference()
	if err != nil {
		return "", fmt.Errorf("making a sealed value: %w", err)
	}
	if t.lookup(ref) != nil {
		// Chance does not do this in the lifetime of the universe; a broken source would give out a wrong value.
		return "", errors.New("making a sealed value: the source of randomness repeats itself")
	}
	t.held += size
	t.entries = append(t.entries, entry{ref, v})
	t.note(len(t.entries) - 1)
	return ref, nil
}

// note keeps the map in step once there are too many entries to search one by one.
func (t *Table) note(i int) {
	switch {
	case i < linear:
	case t.index == nil:
		t.index = make(map[string]int, 4*linear)
		for j, e := range t.entries {
			t.index[e.ref] = j
		}
	default:
		t.index[t.entries[i].ref] = i
	}
}

// lookup returns the value that a reference stands for, or nil. It holds until the next Seal.
func (t *Table) lookup(ref string) *Value {
	if t.index != nil {
		if i, ok := t.index[ref]; ok {
			return &t.entries[i].value
		}
		return nil
	}
	for i := range t.entries {
		if t.entries[i].ref == ref {
			return &t.entries[i].value
		}
	}
	return nil
}

// Open puts in what the references in text stand for, each once, from left to right; what it puts in is not looked at
// again. Opened counts them. The error is an *Error: Dead, OutOfReach when a value's sinks do not hold sink (all of
// it, where sink is several), or TooLong.
func (t *Table) Open(text string, sink Sinks) (out string, opened int, err error) {
	out, opened, size, err := t.put(text, func(v *Value) error {
		switch {
		case v == nil:
			return &Error{Reason: Dead, Sink: sink}
		case !v.Sinks.reach(sink):
			return &Error{Reason: OutOfReach, Sinks: v.Sinks, Sink: sink}
		}
		return nil
	})
	t.opened += size
	return out, opened, err
}

// Opened returns how many bytes all texts that Open has returned count as.
func (t *Table) Opened() int { return t.opened }

// Combine puts in what the references in text stand for, and gives it as one value: its sinks are those that all the
// values share, its mask is the text with their masks, and it came from what any of them came from. It is for what the
// host makes from a text and seals again. When text holds no reference, sealed is false and v.Text is text. The error
// is an *Error: Dead or TooLong.
func (t *Table) Combine(text string) (v Value, sealed bool, err error) {
	sinks, from := All, (*Origins)(nil)
	out, n, size, err := t.put(text, func(v *Value) error {
		if v == nil {
			return &Error{Reason: Dead}
		}
		sinks, from = sinks&v.Sinks, from.And(v.From)
		return nil
	})
	switch {
	case err != nil:
		return Value{}, false, err
	case n == 0:
		return Value{Text: text, Mask: text}, false, nil
	}
	t.made += size
	return Value{Text: out, Sinks: sinks, Mask: t.mask(text, maxMask), Size: size, From: from}, true, nil
}

// Made returns how many bytes all texts that Combine has made into a value count as.
func (t *Table) Made() int { return t.made }

// put replaces the references in text by their values after each has passed the check, which gets nil for a dead
// reference and must refuse it. It first measures, so that a text that grows too long costs no memory.
func (t *Table) put(text string, check func(*Value) error) (out string, n, size int, err error) {
	size = len(text)
	room := len(text)
	for i := next(text, 0); i >= 0; i = next(text, i+refLength) {
		v := t.lookup(text[i : i+refLength])
		if err := check(v); err != nil {
			return "", 0, 0, err
		}
		if n == 0 && len(text) == refLength {
			return v.Text, 1, v.size(), nil // the whole text is one reference: the commonest case
		}
		n++
		size += v.size() - refLength
		room += len(v.Text) - refLength
	}
	if n == 0 {
		return text, 0, size, nil
	}
	if size > MaxText {
		return "", 0, 0, &Error{Reason: TooLong}
	}
	var b strings.Builder
	b.Grow(room)
	t.walk(text, func(plain string) { b.WriteString(plain) }, func(v *Value) { b.WriteString(v.Text) })
	return b.String(), n, size, nil
}

// walk goes through text from left to right: its plain parts, none of them empty, and what its references stand for,
// nil for a dead one.
func (t *Table) walk(text string, plain func(string), value func(*Value)) {
	from := 0
	for i := next(text, 0); i >= 0; i = next(text, from) {
		if i > from {
			plain(text[from:i])
		}
		from = i + refLength
		value(t.lookup(text[i:from]))
	}
	if from < len(text) {
		plain(text[from:])
	}
}

// Plain returns an *Error with NotPlain when text holds anything of a reference's shape, live or dead. It is for the
// places that take no sealed value: names of cache entries, data to be signed, errors, log lines.
func (t *Table) Plain(text string) error {
	if next(text, 0) >= 0 {
		return &Error{Reason: NotPlain}
	}
	return nil
}

// Split takes text apart, so that a cache can keep it beyond this call. Joining the pieces gives the same text with
// other references. The error is an *Error with Dead.
func (t *Table) Split(text string) ([]Piece, error) {
	var pieces []Piece
	dead := false
	t.walk(text, func(plain string) {
		pieces = append(pieces, Piece{Text: plain})
	}, func(v *Value) {
		if v == nil {
			dead = true
			return
		}
		pieces = append(pieces, Piece{Sealed: true, Value: *v})
	})
	if dead {
		return nil, &Error{Reason: Dead}
	}
	return pieces, nil
}

// Raw reports whether a value in text is raw bytes.
func (t *Table) Raw(text string) (raw bool) {
	for v := range t.In(text) {
		raw = raw || v.Raw
	}
	return raw
}

// In returns the values in text, in order. Dead references are left out.
func (t *Table) In(text string) iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for i := next(text, 0); i >= 0; i = next(text, i+refLength) {
			if v := t.lookup(text[i : i+refLength]); v != nil && !yield(v) {
				return
			}
		}
	}
}

// From returns what the values in text came from.
func (t *Table) From(text string) (from *Origins) {
	for v := range t.In(text) {
		from = from.And(v.From)
	}
	return from
}

// Join puts together what Split took apart, in this call or another, and what the cache held in the entry h. Sealed
// pieces get references of this table. The errors are those of Seal.
func (t *Table) Join(pieces []Piece, h *tokencache.Handle) (string, error) {
	if len(pieces) == 1 && !pieces[0].Sealed {
		return pieces[0].Text, nil
	}
	var b strings.Builder
	var stored, from *Origins // most pieces of an entry came from the same
	for _, p := range pieces {
		part := p.Text
		if p.Sealed {
			if from == nil || stored != p.Value.From {
				stored, from = p.Value.From, p.Value.From.through(h)
			}
			p.Value.From = from
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

// Mask returns text as a human may see it: references replaced by the masks of their values, dead ones by <sealed>.
func (t *Table) Mask(text string) string { return t.mask(text, MaxText) }

// mask returns <sealed> for what would be over limit bytes.
func (t *Table) mask(text string, limit int) string {
	if next(text, 0) < 0 {
		return text
	}
	var b strings.Builder
	write := func(part string) {
		if b.Len() <= limit {
			b.WriteString(part)
		}
	}
	t.walk(text, write, func(v *Value) {
		if v == nil {
			v = &Value{}
		}
		write(v.mask())
	})
	if b.Len() > limit {
		return unknownMask
	}
	return b.String()
}

// Size returns the approximate memory that the table takes, in bytes.
func (t *Table) Size() int { return t.held + len(t.entries)*entrySize }

// Values returns every value that was sealed so far, in order: for whoever must keep them out of a text.
func (t *Table) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for i := range t.entries {
			if !yield(t.entries[i].value) {
				return
			}
		}
	}
}
