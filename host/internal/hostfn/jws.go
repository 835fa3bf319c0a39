package hostfn

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
)

// JWSSign returns a JWS, without its payload unless that is attached, as a sealed value. Its sinks are the derived sinks of the key, as
// far as the sealed values in the payload share them.
func (c *keyUse) JWSSign(document []byte) string {
	c.requireGroup(contract.UserJWSSign)
	c.impure = true
	request := c.jwsRequest(document)
	k := c.signs(request.Key, contract.PurposeJWS)
	if jws.Method(k.algorithm) == nil || jws.Symmetric(k.algorithm) {
		c.endField(StageSign, k.field, "signs no JWS with its algorithm: use RS, PS, ES or EdDSA, in the spelling of RFC 7518")
	}
	mask := "<jws>"
	if c.explains() {
		mask = c.maskedJWS(c.jwsRequest(document), k.algorithm)
	}
	if err := signing.Integers(request.Header, request.Integers); err != nil { // before values are unsealed, which stay strings
		c.end(StageSign, err)
	}
	start := c.sealed.Opened
	from := c.unsealObject("the header of jws_sign", request.Header)
	valueBytes := c.sealed.Opened - start
	size := len(document) + 3*valueBytes/2 + maxSignature
	header, err := signing.JWSHeader(k.algorithm, request.Header, request.Crit, request.Unencoded)
	if err != nil {
		c.endField(StageSign, k.field, "JWS header: %w", err)
	}
	buffer := signedBuffer(k, 2*(len(document)-len(request.Payload))+8*valueBytes+100) // the header is never longer, though JSON may have six characters for one
	input, v := c.jwsInput(header, request, buffer)
	signature := "." + base64.RawURLEncoding.EncodeToString(c.signature(k, input))
	c.explainSigned("jws_sign "+k.algorithm, request.Payload)
	text := header + "." + signature
	if request.Attached {
		text = input + signature
	}
	sinks := v.Derived & c.plan.Fields[k.field].Derived
	return c.seal(seal.Value{Text: text, Sinks: sinks, Derived: sinks, Mask: mask, Size: size, From: from.And(v.From)})
}

// jwsInput returns what is signed of a JWS (RFC 7515 section 5.1, RFC 7797 section 3), and a value for what is made of the payload. It is as
// long as buffer allows at most. As elsewhere, the lengths of sealed values do not decide.
func (c *keyUse) jwsInput(header string, request contract.JWSRequest[strictjson.Tree], buffer *boundedBuffer) (string, seal.Value) {
	if !request.Unencoded {
		buffer.room = buffer.room / 4 * 3
	}
	buffer.room -= c.sealed.Rounding(request.Payload)
	v, _ := c.hash("the payload of jws_sign", request.Payload, buffer)
	payload := string(buffer.bytes)
	if !request.Unencoded {
		payload = base64.RawURLEncoding.EncodeToString(buffer.bytes)
	}
	return header + "." + payload, v
}

func (c *keyUse) jwsRequest(document []byte) (request contract.JWSRequest[strictjson.Tree]) {
	c.unmarshal(document, "the request of jws_sign", &request)
	typ, _ := request.Header["typ"].(string) // an error must not say whether it is a sealed value
	c.rejectSealed("typ and crit in jws_sign", strings.Join(append(request.Crit, typ), " "))
	if request.Attached {
		c.rejectSealed("the attached payload of jws_sign", request.Payload)
	}
	if request.Attached && request.Unencoded {
		c.endf(StagePlugin, "the request of jws_sign: a payload that is attached has to be encoded")
	}
	return request
}

// maskedJWS returns the header of a JWS and what it signs, for a person to read.
func (c *keyUse) maskedJWS(request contract.JWSRequest[strictjson.Tree], algorithm string) string {
	header := map[string]any(request.Header)
	if header == nil {
		header = map[string]any{}
	}
	c.mapStrings("the header of jws_sign", header, func(text string) (string, error) { return c.sealed.Mask(text), nil })
	header["alg"] = algorithm
	document, _ := strictjson.Marshal(header)
	return "<jws " + string(document) + "." + c.sealed.Mask(request.Payload) + ">"
}

// serve ends the call if the key of a field is for JWS and serves something else, also in another connector of the host. That of
// another field is recorded, so that no later call signs a JWS with it.
func (c *keyUse) serve(field, thumbprint string) {
	f := c.plan.Fields[field]
	switch {
	case f.Text == nil: // the host has made the key for this field alone
	case !f.SignsJWS():
		c.plan.Signer.Uses.Add(thumbprint, c.plan.Owner)
	default:
		for _, key := range append(f.KeyNames(), thumbprint) {
			if connector, ok := c.plan.Signer.Uses.Connector(key); ok {
				c.endField(StageSign, field, "%w", &SharedKeyError{connector})
			}
		}
	}
}

// SharedKeyError is the error for a key of a JWS that serves something else in a connector.
type SharedKeyError struct{ Connector string }

func (e *SharedKeyError) Error() string {
	return fmt.Sprintf("signs JWS and is a key of connector %q too, for something else: a caller's body, with its signature, could pass for a JWT there. Use a key of its own", e.Connector)
}
