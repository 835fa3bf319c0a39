package statedb

import (
	"context"
	"time"
)

// RecordName is the name of a record, or a tag. It is the result of a keyed hash, see [host.State.Name]. The zero RecordName is none.
type RecordName [16]byte

// Kind says what a record is.
type Kind int16

// The kinds of records.
const (
	// KindNode is the report of a node.
	KindNode Kind = iota + 1
	// KindFailure is a request that failed.
	KindFailure
	// KindConnection is an account that a user has connected.
	KindConnection
	// KindAct is an act of an operator, or of the administrator of a tenant.
	KindAct
	// KindSession is a session of an operator's browser.
	KindSession
	// KindShortFailure is one of many equal requests that failed. These are trimmed apart, so that they push out no others.
	KindShortFailure
	// KindFile has the fingerprints of what a file with connectors defines.
	KindFile
)

// Tags is the number of tags that a record may have.
const Tags = 4

// Record is something that all nodes with a store want to read. Unlike a row of [state.Store], it has no lease: the last write counts.
type Record struct {
	Name RecordName
	Kind Kind
	// Tags are names by which records are listed. They are zero in a record that was read.
	Tags [Tags]RecordName
	// Mark is a number by which records are counted. It is 0 in a record that was read.
	Mark int16
	// Value is sealed.
	Value []byte
	// WriteTime is when the record was written, by the clock of the store. Put ignores it.
	WriteTime time.Time
	// Lifetime is the time after which the record is gone. It is 0 in a record that was read, and for one that stays.
	Lifetime time.Duration
}

// List says which records to list, the newest first.
type List struct {
	Kind Kind
	// Tag is the place in [Record].Tags at which a record has Name. Without a Name, all records of the kind are listed.
	Tag  int
	Name RecordName
	// Mark, if it is not 0, is the one that records have.
	Mark int16
	// Last is the last record of the page before, or nil. Of it, WriteTime and Name count.
	Last *Record
	// Limit is the maximum number of records.
	Limit int
}

// Count is the number of the records of a kind with a tag and a mark.
type Count struct {
	Tag   RecordName
	Mark  int16
	Count int
}

// Records are the records of a store.
type Records interface {
	// PutRecords writes records in one step, in place of those with the same names.
	PutRecords(ctx context.Context, records ...Record) error
	// Record returns the record with a name. ok reports whether there is one.
	Record(ctx context.Context, name RecordName) (r Record, ok bool, err error)
	// ListRecords returns records, the newest first.
	ListRecords(ctx context.Context, l List) ([]Record, error)
	// CountRecords counts the records of a kind by the tag at a place and by their marks. It reads all of them.
	CountRecords(ctx context.Context, kind Kind, tag int) ([]Count, error)
	// DeleteRecord deletes the record with a name, if there is one.
	DeleteRecord(ctx context.Context, name RecordName) error
	// ResealRecord replaces a value that is the previous one, and reports whether it did. Nothing else of the record changes.
	ResealRecord(ctx context.Context, name RecordName, previous, value []byte) (ok bool, err error)
}
