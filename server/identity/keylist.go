package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"slices"

	"github.com/keywright/keywright/host"
)

// list returns the keys for people.
func (c *keyCache) list() Keys {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := Keys{Read: c.since, Err: c.err}
	if c.set == nil {
		return all
	}
	all.Ignored = slices.Clone(c.set.ignored)
	for _, k := range c.set.keys {
		all.List = append(all.List, Key{ID: host.Printable(k.id), Algorithm: host.Printable(k.algorithm), Kind: k.kind(), First: k.first})
	}
	return all
}

// kind returns the kind of a key with its size or curve.
func (k *key) kind() string {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", public.N.BitLen())
	case *ecdsa.PublicKey:
		return public.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	case []byte:
		return "HMAC"
	}
	return ""
}
