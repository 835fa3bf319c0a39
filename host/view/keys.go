package view

import "crypto"

// Key names a key of a host.Keys.
type Key struct {
	Name string
	// Version is the version of the key. 0 is the newest one.
	Version int
}

// KeyInfo describes a key of a host.Keys.
type KeyInfo struct {
	// Type is the store's name for the kind of key, such as ecdsa-p256, for errors.
	Type string
	// Version is the version that is described, from 1. It is 0 if the store has no versions.
	Version int
	// Public is the public half: an *rsa.PublicKey, an *ecdsa.PublicKey or an ed25519.PublicKey. It is nil for a key
	// without a public half, which can only make HMACs.
	Public crypto.PublicKey
}
