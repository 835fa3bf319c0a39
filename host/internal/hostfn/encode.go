package hostfn

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
)

// Encode returns text in base64, base64url or hex. If text contains sealed values, the result is one sealed value with
// the sinks that they share.
func (c *Call) Encode(format, text string) string {
	c.need(abi.UserEncode)
	v, sealed := c.combine("the text of encode", text)
	var out string
	size := base64.StdEncoding.EncodedLen(v.Size)
	switch format {
	case abi.FormatBase64:
		out = base64.StdEncoding.EncodeToString([]byte(v.Text))
	case abi.FormatBase64URL:
		out = base64.RawURLEncoding.EncodeToString([]byte(v.Text))
	case abi.FormatHex:
		out, size = hex.EncodeToString([]byte(v.Text)), hex.EncodedLen(v.Size)
	default:
		c.endf(StagePlugin, "encode knows base64, base64url and hex, not the format it was given")
	}
	if !sealed {
		return out
	}
	return c.seal(seal.Value{Text: out, Sinks: v.Sinks, Mask: format + "(" + v.Mask + ")", Size: size, From: v.From})
}

// MAC returns the HMAC of data (RFC 2104) as a sealed value. It is raw bytes and has the sinks of its key.
func (c *Call) MAC(algorithm, key, data string) string {
	c.need(abi.UserMAC)
	c.uncacheable = true
	c.plain("the data of mac", data)
	v, sealed := c.combine("the key of mac", key)
	if !sealed {
		c.end(StagePlugin, errors.New("the key of mac holds no sealed value, so that what it gives would be no credential"))
	}
	if v.Sinks&seal.Sign == 0 {
		c.end(StagePlugin, fmt.Errorf("the key of mac: %w", &seal.Error{Reason: seal.OutOfReach, Sinks: v.Sinks, Sink: seal.Sign}))
	}
	sum, err := signing.MAC(algorithm, []byte(v.Text), []byte(data))
	if err != nil {
		c.end(StageSign, err)
	}
	return c.seal(seal.Value{Text: string(sum), Sinks: v.Sinks, Mask: "mac(" + algorithm + ", " + v.Mask + ")", Raw: true, From: v.From})
}

// notRaw ends the call if text contains a raw value. Otherwise, success or failure would show whether the bytes of a
// MAC happen to be text. A guest would learn something about the key from each MAC.
func (c *Call) notRaw(where, text string) {
	if c.sealed.Raw(text) {
		c.endf(StagePlugin, "%s: what mac returns is raw bytes: encode it first", where)
	}
}

// Reveal returns the bytes of a sealed value. It needs the grant reveal: the operator trusts the guest with them.
func (c *Call) Reveal(value string) []byte {
	c.need(abi.UserReveal)
	c.grant(abi.UserReveal, abi.GrantReveal)
	v, sealed := c.combine("the value of reveal", value)
	if !sealed {
		c.end(StagePlugin, errors.New("reveal was called for a text that holds no sealed value"))
	}
	c.revealed = true
	c.putIn = c.putIn.And(v.From) // the guest may put the bytes in without a reference
	if c.plan.Revealed != nil {
		c.plan.Revealed(v.Text)
	}
	return []byte(v.Text)
}

// forms returns the encodings in which a secret may appear in texts of others.
func forms(secret string) []string {
	quoted := strconv.Quote(secret)
	return []string{
		secret,
		quoted[1 : len(quoted)-1],
		url.QueryEscape(secret),
		url.PathEscape(secret),
		base64.RawStdEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
		hex.EncodeToString([]byte(secret)),
	}
}

// newUUID returns a random UUID (RFC 9562 section 5.4).
func newUUID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}
