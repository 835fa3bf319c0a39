package lease

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Derive returns a secret for a use. It is the same for all nodes of a store, and it does not change with the state keys.
func (n *Node) Derive(use string) (secret [32]byte) {
	mac := hmac.New(sha256.New, n.nameKey)
	mac.Write([]byte("derive"))
	mac.Write([]byte(use))
	mac.Sum(secret[:0])
	return secret
}
