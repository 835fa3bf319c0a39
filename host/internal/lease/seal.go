package lease

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"

	"github.com/keywright/keywright/host/state"
)

const (
	keyIDSize = 8
	nonceSize = 12
)

// errSealed says that a value does not open: its key is not there, or it was changed or moved.
var errSealed = errors.New("a value in the store of state does not open: its state key is missing, so add the key that other nodes have; or else somebody changed or moved the value")

// keyring seals with its first key and opens with each. Its keys are made from state keys.
type keyring struct {
	keys   []sealKey
	random io.Reader
}

type sealKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// newKeyring makes a keyring of state keys, which have 32 bytes each. Errors do not hold them.
func newKeyring(stateKeys [][]byte, random io.Reader) (*keyring, error) {
	if len(stateKeys) == 0 {
		return nil, errors.New("no state key: set one of 32 random bytes")
	}
	ring := &keyring{random: random}
	for _, stateKey := range stateKeys {
		if len(stateKey) != 32 {
			return nil, errors.New("a state key has not 32 bytes: make one of 32 random bytes")
		}
		id, err := hkdf.Key(sha256.New, stateKey, nil, "keywright state key id", keyIDSize)
		if err != nil {
			return nil, err
		}
		key, err := hkdf.Key(sha256.New, stateKey, nil, "keywright state value", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		ring.keys = append(ring.keys, sealKey{[keyIDSize]byte(id), aead})
	}
	return ring, nil
}

// bound returns what a sealed value is bound to: its row and the generation at which it is written.
func bound(id state.ID, generation int64) []byte {
	return binary.BigEndian.AppendUint64(id[:len(id):len(id)], uint64(generation))
}

// seal seals a value for a row that will have a generation: the ID of the key, a nonce, and the sealed text.
func (r *keyring) seal(id state.ID, generation int64, value []byte) ([]byte, error) {
	first := r.keys[0]
	sealed := make([]byte, keyIDSize+nonceSize, keyIDSize+nonceSize+len(value)+first.aead.Overhead())
	copy(sealed, first.id[:])
	nonce := sealed[keyIDSize:]
	if _, err := io.ReadFull(r.random, nonce); err != nil {
		return nil, err
	}
	return first.aead.Seal(sealed, nonce, value, bound(id, generation)), nil
}

// open opens what seal has sealed for the same row and generation.
func (r *keyring) open(id state.ID, generation int64, sealed []byte) ([]byte, error) {
	if len(sealed) < keyIDSize+nonceSize {
		return nil, errSealed
	}
	for _, key := range r.keys {
		if key.id == [keyIDSize]byte(sealed) {
			rest := sealed[keyIDSize:]
			value, err := key.aead.Open(nil, rest[:nonceSize], rest[nonceSize:], bound(id, generation))
			if err != nil {
				return nil, errSealed
			}
			return value, nil
		}
	}
	return nil, errSealed
}

// use keeps hashes of different use apart.
type use byte

const (
	useFetched use = iota + 1
	useGrant
	useHeld
	useRefusal
	useSeed
	usePartition
)

// hash returns a hash of parts under the name key. Lists of parts that differ have different hashes.
func (n *Node) hash(use use, parts ...[]byte) (sum [32]byte) {
	mac := hmac.New(sha256.New, n.nameKey)
	mac.Write([]byte{byte(use)})
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	mac.Sum(sum[:0])
	return sum
}

// id returns the ID of the row that a key names.
func (n *Node) id(use use, key Key) state.ID {
	return n.hash(use, key.Partition[:], []byte(key.Name))
}

// Partition returns a partition for a list of parts. All nodes with the same store have the same partition for the same
// list, and nobody without a state key can find out which list a partition is for.
func (n *Node) Partition(parts ...string) [32]byte {
	list := make([][]byte, len(parts))
	for i, part := range parts {
		list[i] = []byte(part)
	}
	return n.hash(usePartition, list...)
}

// Rekeyed counts the values that [Node.Rekey] has seen.
type Rekeyed struct {
	// Sealed is the number of values that Rekey has sealed under the first state key.
	Sealed int
	// Current is the number of those that were sealed under it before.
	Current int
	// Unopened is the number of those that no state key opens. Rekey leaves them as they are.
	Unopened int
}

// Rekey seals all values under the first state key. Nodes may go on meanwhile. Those whose first key is another one write
// values under that, so all nodes get the new first key before, and Rekey is called again if some did not. When Sealed is 0,
// the other keys are no longer needed.
func (n *Node) Rekey(ctx context.Context) (Rekeyed, error) {
	var counts Rekeyed
	err := n.c.Store.Rows(ctx, func(id state.ID, row state.Row) (err error) {
		for done := false; !done && err == nil; {
			if done, err = n.rekey(ctx, id, row, &counts); !done && err == nil {
				var now reading
				now, err = n.get(ctx, id) // somebody has written it meanwhile
				row = now.Row
			}
		}
		return err
	})
	return counts, err
}

// rekey seals the value of a row under the first key, and counts it. It returns false if somebody has written the row since
// it was read.
func (n *Node) rekey(ctx context.Context, id state.ID, row state.Row, counts *Rekeyed) (done bool, err error) {
	switch {
	case row.Value == nil:
		return true, nil
	case bytes.HasPrefix(row.Value, n.ring.keys[0].id[:]):
		counts.Current++
		return true, nil
	}
	value, err := n.ring.open(id, row.Generation, row.Value)
	if errors.Is(err, errSealed) {
		counts.Unopened++
		return true, nil
	}
	sealed, err := n.ring.seal(id, row.Generation, value)
	if err != nil {
		return false, err
	}
	if done, err = n.reseal(ctx, id, row.Generation, sealed); done {
		counts.Sealed++
	}
	return done, err
}
