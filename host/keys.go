package host

import (
	"context"
	"crypto"
	"errors"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
)

// Keys is a store of keys that signs with them itself, such as the transit engine of Vault. So the keys never enter the
// process. A field of a configuration names such a key with get_key('name'), or a version of it with get_key('name', 2).
//
// The host calls the methods while no guest runs in their place, within the time of the call. It keeps no signature. An
// error wraps [ErrKeyNotFound] or [ErrKeyRefused] if a person has to fix it. Any other error means that the store cannot
// answer now.
type Keys interface {
	// Describe returns the description of a key. An implementation may remember it for a short time.
	Describe(ctx context.Context, key Key) (KeyInfo, error)
	// Sign returns the signature of data in the form of RFC 7518 section 3, and the version of the key that made it. Algorithms
	// are those of RFC 7518 section 3.1 and EdDSA (RFC 8037), HS1 (HMAC with SHA-1), and RS1 (RFC 8812 section 2). For all but
	// HMACs, the host has checked that the algorithm fits what Describe returned, and verifies the signature with the public half.
	// data has 256 KiB at most.
	Sign(ctx context.Context, key Key, algorithm string, data []byte) (signature []byte, version int, err error)
}

// Key names a key of [Keys].
type Key struct {
	Name string
	// Version is the version of the key. 0 is the newest one.
	Version int
}

// KeyInfo describes a key of [Keys].
type KeyInfo struct {
	// Type is the store's name for the kind of key, such as ecdsa-p256, for errors.
	Type string
	// Version is the version that is described, from 1. It is 0 if the store has no versions.
	Version int
	// Public is the public half: an *rsa.PublicKey, an *ecdsa.PublicKey or an ed25519.PublicKey. It is nil for a key
	// without a public half, which can only make HMACs.
	Public crypto.PublicKey
}

// keyStore implements hostfn.Keys.
type keyStore struct{ keys Keys }

func (s keyStore) Describe(ctx context.Context, key seal.Key) (hostfn.KeyInfo, error) {
	info, err := s.keys.Describe(ctx, Key(key))
	return hostfn.KeyInfo(info), keyError(err)
}

func (s keyStore) Sign(ctx context.Context, key seal.Key, algorithm string, data []byte) (signature []byte, version int, err error) {
	signature, version, err = s.keys.Sign(ctx, Key(key), algorithm, data)
	return signature, version, keyError(err)
}

// keyError marks an error of a store of keys as passing, see [hostfn.Passing], unless a person has to fix it.
func keyError(err error) error {
	if err == nil || errors.Is(err, ErrKeyNotFound) || errors.Is(err, ErrKeyRefused) {
		return err
	}
	return hostfn.Passing(err)
}
