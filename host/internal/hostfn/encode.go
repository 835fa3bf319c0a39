package hostfn

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/contract"
)

// Encode returns text in a format. If text contains sealed values, the result is one sealed value with the sinks that they share.
func (c *core) Encode(format, text string) string {
	c.requireGroup(contract.UserEncode)
	v, sealed := c.concat("the text of encode", text)
	f, ok := compose.Formats[format]
	if !ok {
		c.endf(StagePlugin, "encode knows %s, not the format it was given", strings.Join(slices.Sorted(maps.Keys(compose.Formats)), ", "))
	}
	out := f.Encode(v.Text)
	if !sealed {
		return out
	}
	v.Text, v.Mask, v.Size, v.Raw, v.Encoding = out, format+"("+v.Mask+")", f.Size(v.Size), f.Raw && v.Raw, format
	if v.Public {
		v.Mask = out
	}
	return c.seal(v)
}

// Decode returns the bytes of a text in base64, base64url, base32 or hex, with or without padding. If text contains sealed
// values, the result is one sealed value of raw bytes with the sinks that they share.
func (c *core) Decode(format, text string) string {
	c.requireGroup(contract.UserDecode)
	v, sealed := c.concat("the text of decode", text)
	f := compose.Formats[format]
	if f.Decode == nil {
		c.endf(StagePlugin, "decode knows %s, %s, %s and %s, not the format it was given", contract.FormatBase64, contract.FormatBase64URL, contract.FormatBase32, contract.FormatHex)
	}
	if sealed && !c.decodable(format, text) {
		c.endf(StagePlugin, "decode takes a sealed value alone, as it is configured or answered, or as encode made it in the same format")
	}
	out, err := f.Decode(strings.TrimRight(strings.TrimSpace(v.Text), "="))
	if err != nil { // its text would quote the secret
		c.endf(StageConfig, "a value of the configuration is not in %s", format)
	}
	if !sealed {
		return string(out)
	}
	v.Text, v.Mask, v.Raw = string(out), "decoded("+v.Mask+")", true
	return c.seal(v)
}

// decodable reports whether text is one sealed value that a guest did not make, or made with encode in the same format.
// Otherwise, success or failure would show something about the value: with a digit behind it, whether its length is odd.
func (c *core) decodable(format, text string) bool {
	for v := range c.sealed.In(text) {
		same := v.Encoding == format || v.Encoding == format+"_padded" || v.Encoding == format+"_upper"
		return len(text) == len(contract.SealedPrefix)+contract.SealedLength && !v.Raw && (v.Size == 0 || same)
	}
	return false
}

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
	if err := signing.CheckFIPS(algorithm); err != nil {
		c.end(StageSign, err)
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

// Random returns random bytes in hex.
func (c *core) Random(bytes int64) string {
	c.requireGroup(contract.UserRandom)
	c.impure = true
	if bytes < 1 || bytes > contract.MaxRandom {
		c.endf(StagePlugin, "random returns 1 to %d bytes", contract.MaxRandom)
	}
	if c.plan.RandomText != nil {
		if text := c.plan.RandomText(bytes); text != "" {
			return text
		}
	}
	buffer := make([]byte, bytes)
	if _, err := io.ReadFull(c.plan.Random, buffer); err != nil {
		c.end(StagePlugin, err)
	}
	return hex.EncodeToString(buffer)
}
