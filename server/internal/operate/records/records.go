// Package records keeps values that all nodes with a store of state read: sealed, and found by keyed hashes of what they are about.
package records

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/statedb"
)

// A Store is a store of state with the keys that seal its records.
type Store struct {
	Records statedb.Records
	State   *host.State
}

// A Table has the records of one kind, whose values are of type T in JSON.
type Table[T any] struct {
	Kind statedb.Kind
	// Lifetime is the time after which a record is gone, or 0.
	Lifetime time.Duration
	// Key returns what a record is about. A later one with the same key takes its place.
	Key func(T) []string
	// Tags returns what a record can be listed by, at each place. A place without parts is no tag. It may be nil.
	Tags func(T) [statedb.Tags][]string
	// Mark returns a number by which records are counted. It may be nil.
	Mark func(T) int16
}

// An Entry is a record that was read.
type Entry[T any] struct {
	// ID is the name of the record in hexadecimal digits.
	ID    string
	Value T
	// WriteTime is when it was written, by the clock of the store.
	WriteTime time.Time
}

// Put writes values in one step.
func (t *Table[T]) Put(ctx context.Context, s *Store, values ...T) error {
	all := make([]statedb.Record, len(values))
	for i, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		r := statedb.Record{Name: t.name(s, t.Key(value)...), Kind: t.Kind, Lifetime: t.Lifetime}
		r.Value = s.State.Seal(r.Name, deflate(text))
		if t.Tags != nil {
			for place, parts := range t.Tags(value) {
				r.Tags[place] = t.tag(s, place, parts)
			}
		}
		if t.Mark != nil {
			r.Mark = t.Mark(value)
		}
		all[i] = r
	}
	return s.Records.PutRecords(ctx, all...)
}

// Get returns the record with a key. ok reports whether there is one.
func (t *Table[T]) Get(ctx context.Context, s *Store, key ...string) (entry Entry[T], ok bool, err error) {
	return t.get(ctx, s, t.name(s, key...))
}

// GetID is like Get, for the ID of an entry.
func (t *Table[T]) GetID(ctx context.Context, s *Store, id string) (entry Entry[T], ok bool, err error) {
	var name statedb.RecordName
	if len(id) != hex.EncodedLen(len(name)) {
		return entry, false, nil
	}
	if _, err := hex.Decode(name[:], []byte(id)); err != nil {
		return entry, false, nil //nolint:nilerr // an ID that is none is not found
	}
	return t.get(ctx, s, name)
}

func (t *Table[T]) get(ctx context.Context, s *Store, name statedb.RecordName) (entry Entry[T], ok bool, err error) {
	r, ok, err := s.Records.Record(ctx, name)
	if err != nil || !ok || r.Kind != t.Kind {
		return entry, false, err
	}
	entry, err = t.open(s, &r)
	return entry, err == nil, err
}

// Delete deletes the record with a key, if there is one.
func (t *Table[T]) Delete(ctx context.Context, s *Store, key ...string) error {
	return s.Records.DeleteRecord(ctx, t.name(s, key...))
}

// ErrCursor is the error for a cursor that no list has returned.
var ErrCursor = errors.New("the cursor is none that this list has returned: begin without one")

// Query says which records to list: those that have the tag Parts at a Place, or all if there are no Parts, and that have the Mark, or any
// if it is 0.
type Query struct {
	Place int
	Parts []string
	Mark  int16
}

// List returns up to limit records after a cursor, the newest first, and the cursor of the next page, or "" at the end. Records that no
// state key opens are left out.
func (t *Table[T]) List(ctx context.Context, s *Store, q Query, cursor string, limit int) (entries []Entry[T], next string, err error) {
	last, err := decodeCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	found, err := s.Records.ListRecords(ctx, statedb.List{Kind: t.Kind, Tag: q.Place, Name: t.tag(s, q.Place, q.Parts), Mark: q.Mark, Last: last, Limit: limit + 1})
	if err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		next = encodeCursor(&found[limit-1])
	}
	for _, r := range found {
		if entry, err := t.open(s, &r); err == nil {
			entries = append(entries, entry)
		}
	}
	return entries, next, nil
}

// Count calls add with the number of the records that have one of tags at a place, and a mark.
func (t *Table[T]) Count(ctx context.Context, s *Store, place int, tags []string, add func(tag string, mark int16, n int)) error {
	names := map[statedb.RecordName]string{}
	for _, tag := range tags {
		names[t.tag(s, place, []string{tag})] = tag
	}
	found, err := s.Records.CountRecords(ctx, t.Kind, place)
	for _, c := range found {
		if tag, ok := names[c.Tag]; ok {
			add(tag, c.Mark, c.Count)
		}
	}
	return err
}

func (t *Table[T]) name(s *Store, key ...string) statedb.RecordName {
	return s.State.Name(append([]string{"record", string(rune('0' + t.Kind))}, key...)...)
}

func (t *Table[T]) tag(s *Store, place int, parts []string) statedb.RecordName {
	if len(parts) == 0 {
		return statedb.RecordName{}
	}
	return s.State.Name(append([]string{"tag", string(rune('0' + t.Kind)), string(rune('0' + place))}, parts...)...)
}

func (t *Table[T]) open(s *Store, r *statedb.Record) (entry Entry[T], err error) {
	entry = Entry[T]{ID: hex.EncodeToString(r.Name[:]), WriteTime: r.WriteTime}
	sealed, _, err := s.State.Open(r.Name, r.Value)
	if err != nil {
		return entry, err
	}
	text, err := inflate(sealed)
	if err != nil {
		return entry, err
	}
	return entry, json.Unmarshal(text, &entry.Value)
}

// maxValue limits the text of a record that is read, in bytes.
const maxValue = 16 << 20

func deflate(text []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 6) // the level is one that there is
	_, _ = w.Write(text)
	_ = w.Close() // into memory
	return b.Bytes()
}

func inflate(compressed []byte) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(compressed)), maxValue+1))
	if err == nil && len(text) > maxValue {
		err = errors.New("a record is too large")
	}
	return text, err
}

func encodeCursor(r *statedb.Record) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(r.WriteTime.UnixMicro())), r.Name[:]...))
}

func decodeCursor(cursor string) (*statedb.Record, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // there is no record before the first page
	}
	const timeSize = 8
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(text) != timeSize+len(statedb.RecordName{}) {
		return nil, ErrCursor
	}
	return &statedb.Record{WriteTime: time.UnixMicro(int64(binary.BigEndian.Uint64(text))), Name: statedb.RecordName(text[timeSize:])}, nil
}

// Rekey seals all records under the first state key, as [host.State.Rekey] does with rows, and adds to counts.
func Rekey(ctx context.Context, s *Store, counts *host.Rekeyed) error {
	const page = 100
	for kind := statedb.KindNode; kind <= statedb.KindFile; kind++ {
		var last *statedb.Record
		for more := true; more; {
			found, err := s.Records.ListRecords(ctx, statedb.List{Kind: kind, Last: last, Limit: page})
			if err != nil {
				return err
			}
			for _, r := range found {
				if err := s.rekey(ctx, &r, counts); err != nil {
					return err
				}
			}
			if more = len(found) == page; more {
				last = &found[page-1]
			}
		}
	}
	return nil
}

func (s *Store) rekey(ctx context.Context, r *statedb.Record, counts *host.Rekeyed) error {
	value, current, err := s.State.Open(r.Name, r.Value)
	switch {
	case err != nil:
		counts.Unopened++
		return nil //nolint:nilerr // it is counted
	case current:
		counts.Current++
		return nil
	}
	ok, err := s.Records.ResealRecord(ctx, r.Name, r.Value, s.State.Seal(r.Name, value))
	if ok { // otherwise a node has written it meanwhile, under its first key
		counts.Sealed++
	}
	return err
}
