package lease

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/keywright/keywright/host/state"
)

type mark byte

const (
	// ready marks a token that was not sent.
	ready mark = iota
	// intent marks a token that may have been sent.
	intent
	// refused marks a token that the server does not take.
	refused
)

// keep is added to the time of a value, so that the token outlives it. What is left above keep is that of the value.
const keep = 100 * 365 * 24 * time.Hour

// pastSeeds is the number of earlier seeds that a record remembers.
const pastSeeds = 256

type seedHash [16]byte

// record is the value of a row of kind Rotating.
type record struct {
	Mark mark
	// Attempt is random for each intent. It shows a node whether an uncertain Put was made.
	Attempt [16]byte
	Seed    seedHash
	Past    []seedHash
	Token   []byte
	Value   []byte
	TTL     time.Duration
}

func (r record) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("lease: a record has no JSON: " + err.Error())
	}
	return text
}

// record returns the record of a row, which is the zero record if the row has no value.
func (n *Node) record(id state.ID, row state.Row) (rec record, err error) {
	if row.Value == nil {
		if seen, ok := n.highest.Get(id); ok && row.Generation <= seen {
			return record{}, ErrRolledBack // a grant was here
		}
		return record{}, nil
	}
	text, err := n.open(id, row)
	if err != nil {
		return record{}, err
	}
	if json.Unmarshal(text, &rec) != nil {
		return record{}, errors.New("a grant in the store of state has another form than this version writes")
	}
	return rec, nil
}

func (n *Node) seedHash(seed []byte) (hash seedHash) {
	mac := hmac.New(sha256.New, n.nameKey)
	mac.Write([]byte("seed"))
	mac.Write(seed)
	copy(hash[:], mac.Sum(nil))
	return hash
}

// seeded returns the record for a seed. A new seed begins a new grant, and an earlier one is an error.
func (r record) seeded(hash seedHash, seed []byte) (record, error) {
	switch {
	case r.Seed == hash:
		return r, nil
	case slices.Contains(r.Past, hash):
		return record{}, ErrSeedUsed
	}
	begin := record{Seed: hash, Token: seed}
	if r.Seed != (seedHash{}) {
		begin.Past = append(slices.Clone(r.Past), r.Seed)
		begin.Past = begin.Past[max(0, len(begin.Past)-pastSeeds):]
	}
	return begin, nil
}

// left returns how long the value may be used. The store counts the time since it was written.
func (r record) left(row state.Row, passed time.Duration) time.Duration {
	if r.TTL <= 0 || row.ExpiresIn == 0 {
		return 0
	}
	return row.ExpiresIn - keep - passed
}
