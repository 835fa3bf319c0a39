package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/state"
)

type mark byte

const (
	// ready marks a token that was not sent.
	ready mark = iota
	// intent marks a token that may have been sent. While the lease holds, it may be on its way.
	intent
	// rejected marks a token that the server does not take.
	rejected
)

// pastSeeds is the number of earlier seeds that a record remembers.
const pastSeeds = 256

// record is the value of the row of a grant.
type record struct {
	Mark mark `json:",omitempty"`
	// Seed and Past are hashes of the present seed and of earlier ones.
	Seed []byte   `json:",omitempty"`
	Past [][]byte `json:",omitempty"`
	// Grant is random for each [Node.Renew]. It is the name of the grant.
	Grant []byte `json:",omitempty"`
	// Token is nil if there is no grant, or no longer.
	Token []byte `json:",omitempty"`
	// Tries counts the attempts whose outcome nobody knows, with the one under way. Wait is the time between the last write and the
	// next attempt. Lost is set if there is no next one.
	//
	// All of them stand beside the mark intent, so that nodes of a version without them do not send the token.
	Tries int           `json:",omitempty"`
	Wait  time.Duration `json:",omitempty"`
	Lost  bool          `json:",omitempty"`
	// Open is set while nobody has written the end of the attempt. Its node may still know more than the store.
	Open bool `json:",omitempty"`
	// Seen is the age of the row when a node first saw that the lease of an open attempt is over, or 0.
	Seen time.Duration `json:",omitempty"`
}

func (r record) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("lease: a record has no JSON: " + err.Error())
	}
	return text
}

// withAttempt returns the record after one attempt more.
func (r record) withAttempt() record {
	next := r.with(intent, r.Token)
	next.Tries = r.Tries + 1
	next.Wait = tokencache.Wait(next.Tries, 0, 0)
	return next
}

// lost returns the record of a token that is not sent again.
func (r record) lost() record {
	next := r.with(intent, r.Token)
	next.Lost = true
	return next
}

// with returns the record with another mark and token, and without attempts.
func (r record) with(mark mark, token []byte) record {
	return record{Mark: mark, Seed: r.Seed, Past: r.Past, Grant: r.Grant, Token: token}
}

var errForm = errors.New("a grant in the store of state has another form than this version writes: run the version that wrote it, or renew the grant")

// record returns the record of a row, which is the zero record if the row has no value.
func (n *Node) record(id state.ID, row reading) (rec record, err error) {
	if row.Value == nil {
		if row.highest > 0 {
			return record{}, ErrRolledBack // a record was here, and nobody removes records
		}
		return record{}, nil
	}
	text, err := n.open(id, row)
	if err != nil {
		return record{}, err
	}
	if json.Unmarshal(text, &rec) != nil {
		return record{}, errForm
	}
	return rec, nil
}

// seeded returns the record for a seed. A new seed begins a new grant, and an earlier one is an error. Without a seed the
// record stays.
func (n *Node) seeded(r record, seed []byte) (record, error) {
	if len(seed) == 0 {
		return r, nil
	}
	sum := n.hash(useSeed, seed)
	hash := sum[:16]
	switch {
	case bytes.Equal(r.Seed, hash):
		return r, nil
	case slices.ContainsFunc(r.Past, func(past []byte) bool { return bytes.Equal(past, hash) }):
		return record{}, ErrSeedUsed
	}
	begin := record{Seed: hash, Past: r.Past, Token: seed}
	if r.Seed != nil {
		begin.Past = append(slices.Clone(r.Past), r.Seed)
		begin.Past = begin.Past[max(0, len(begin.Past)-pastSeeds):]
	}
	return begin, nil
}
