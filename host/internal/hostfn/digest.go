package hostfn

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
)

// hashes are the algorithms of digest. MD5 and SHA-1 are there for the protocols that need them: HTTP Digest (RFC 7616) and
// OAuth 1.0 (RFC 5849).
var hashes = map[string]func() hash.Hash{
	abi.DigestMD5: md5.New, abi.DigestSHA1: sha1.New, abi.DigestSHA256: sha256.New,
	abi.DigestSHA384: sha512.New384, abi.DigestSHA512: sha512.New, abi.DigestSHA512256: sha512.New512_256,
}

// Digest returns the digest of data. If data contains sealed values other than the body, the result is a sealed value of raw
// bytes. Its sinks are the derived sinks that they share.
func (c *Call) Digest(algorithm, data string) string {
	c.need(abi.UserDigest)
	newHash := hashes[algorithm]
	if newHash == nil {
		c.endf(StagePlugin, "digest knows %s, not the algorithm it was given", strings.Join(abi.Digests, ", "))
	}
	h := newHash()
	v, sealed := c.hash("the data of digest", data, h)
	c.explainSigned("digest "+algorithm, data)
	sum := string(h.Sum(nil))
	if !sealed {
		return sum
	}
	v.Text, v.Raw, v.Mask = sum, true, algorithm+"("+v.Mask+")"
	return c.seal(v)
}

// hash writes data with its sealed values put in to w. It returns a value without Text for what is made from the bytes, and
// whether data contains sealed values other than the body.
func (c *core) hash(where, data string, w io.Writer) (seal.Value, bool) {
	v, sealed, err := c.sealed.Hash(data, w)
	var misuse *seal.Error
	switch {
	case errors.As(err, &misuse):
		c.endf(StagePlugin, "%s: %w", where, err)
	case errors.Is(err, errTooMuch):
		c.endf(StageSign, "%s: %w", where, err)
	case err != nil:
		c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
	}
	c.boundMade(where)
	return v, sealed
}

// MAC returns the HMAC of data (RFC 2104) as a sealed value of raw bytes. Its sinks are the derived sinks of its key, as far
// as the sealed values in data share them.
func (c *keyUse) MAC(algorithm, key, data string) string {
	c.need(abi.UserMAC)
	c.uncacheable = true
	var k, v seal.Value
	var sum []byte
	if stored := c.sealed.Key(key); stored != nil {
		k = *stored
		c.checkMACKey(&k)
		sum, v = c.storeMAC(algorithm, *k.Key, data)
	} else {
		k = c.macKey(key)
		mac, err := signing.NewMAC(algorithm, []byte(k.Text))
		if err != nil {
			c.end(StageSign, err)
		}
		v, _ = c.hash("the data of mac", data, mac)
		sum = mac.Sum(nil)
	}
	c.explainSigned("mac "+algorithm, data)
	sinks := k.Derived & v.Derived
	mask := "mac(" + algorithm + ", " + k.Mask + ", " + v.Mask + ")"
	return c.seal(seal.Value{Text: string(sum), Sinks: sinks, Derived: sinks, Mask: mask, Raw: true, From: k.From.And(v.From)})
}

// macKey returns the value of the key of mac. It ends the call unless that is sealed and reaches Sign.
func (c *keyUse) macKey(key string) seal.Value {
	k, sealed := c.combine("the key of mac", key)
	if !sealed {
		c.end(StagePlugin, errors.New("the key of mac holds no sealed value, so that what it gives would be no credential"))
	}
	c.checkMACKey(&k)
	return k
}

// checkMACKey ends the call unless a value reaches Sign. That of a field of kind key does not.
func (c *keyUse) checkMACKey(k *seal.Value) {
	if k.Sinks&seal.Sign == 0 {
		misuse := &seal.Error{Reason: seal.OutOfReach, Sinks: k.Sinks, Sink: seal.Sign}
		c.end(StagePlugin, fmt.Errorf("the key of mac: %w (the sink sign is in sinks of its field, and in derived for what is made of that; a field of kind key signs with sign_sealed)", misuse))
	}
}
