package hostfn

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// hashes are the algorithms of digest. MD5 and SHA-1 are there for the protocols that need them: HTTP Digest (RFC 7616) and
// OAuth 1.0 (RFC 5849).
var hashes = map[string]func() hash.Hash{
	contract.DigestMD5: md5.New, contract.DigestSHA1: sha1.New, contract.DigestSHA256: sha256.New,
	contract.DigestSHA384: sha512.New384, contract.DigestSHA512: sha512.New, contract.DigestSHA512256: sha512.New512_256,
}

// Digest returns the digest of data. If data contains sealed values other than the body, the result is a sealed value of raw
// bytes. Its sinks are the derived sinks that they share.
func (c *report) Digest(algorithm, data string) string {
	c.requireGroup(contract.UserDigest)
	newHash := hashes[algorithm]
	if newHash == nil {
		c.endf(StagePlugin, "digest knows %s, not the algorithm it was given", strings.Join(contract.Digests, ", "))
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
