package hostfn

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/printable"
)

type keyUse struct {
	*rendering
	signatures int
	// KeyRequests counts the uses of the store of keys, and KeyTime is the time that it took.
	KeyRequests int
	KeyTime     time.Duration
	// versions has the version of each key that the call has used or shown, so that all its signatures are of one version.
	versions map[view.Key]int
	// pause calls what waits for the store. It is nil for a call outside of a sandbox.
	pause func(wait func())
}

// Waits reports whether functions that use a key may wait for the store of keys.
func (c *keyUse) Waits() bool { return c.mode == Detached && c.plan.AsksKeys }

// PauseWith sets the function with which the call waits for the store of keys. The sandbox lets other guests run meanwhile.
func (c *keyUse) PauseWith(pause func(wait func())) { c.pause = pause }

// storedKey returns the key that a field names with get_key, or nil. An Inline call ends with a Restart, because it may not wait.
func (c *keyUse) storedKey(f *Field) *view.Key {
	if f.Text == nil || f.Text.Key() == nil {
		return nil
	}
	c.detach(Restart{Keys: true})
	return (*view.Key)(f.Text.Key())
}

// storeSigns returns a signature of the store of keys, or an HMAC. If the call is explained, it asks nothing and returns zeros.
func (c *keyUse) storeSigns(field string, key view.Key, algorithm string, data []byte) []byte {
	if len(data) > maxStoreData {
		c.endField(StageSign, field, "%w", errTooMuch)
	}
	if c.mode == Explaining {
		return make([]byte, explainedSize)
	}
	c.useKey()
	var info view.KeyInfo
	if !isMAC(algorithm) {
		info = c.describe(field, key, algorithm)
	}
	var signature []byte
	var version int
	c.ask(field, key, func(ctx context.Context, pinnedKey view.Key) (_ int, err error) {
		signature, version, err = c.plan.Keys.Sign(ctx, pinnedKey, algorithm, data)
		return version, err
	})
	if !isMAC(algorithm) && version != info.Version {
		info = c.describe(field, key, algorithm) // of the version that has signed: the key was rotated meanwhile
	}
	c.checkSignature(field, key, algorithm, info.Public, data, signature)
	return signature
}

// checkSignature ends the call unless a signature of the store of keys is one of data. Nobody but the store can verify an HMAC.
// So an HMAC has to have the right length, and must not be a part of the data: that could be a secret, and be sent to the API.
func (c *keyUse) checkSignature(field string, key view.Key, algorithm string, public crypto.PublicKey, data, signature []byte) {
	size := signing.SignatureSize(algorithm, public)
	switch {
	case len(signature) != size:
		c.endField(StageSign, field, "key %s: the store of keys returned %d bytes, and a signature with %s has %d", keyName(key), len(signature), algorithm, size)
	case isMAC(algorithm) && bytes.Contains(data, signature):
		c.endField(StageSign, field, "key %s: the store of keys returned a part of the data in place of its HMAC", keyName(key))
	case !isMAC(algorithm) && !signing.Verify(algorithm, public, data, signature):
		c.endField(StageSign, field, "key %s: the signature of the store of keys does not verify with the public half of the key", keyName(key))
	}
}

// isMAC reports whether an algorithm is an HMAC, for which a store needs no key of a certain type.
func isMAC(algorithm string) bool { return strings.HasPrefix(algorithm, "HS") }

// useKey counts a use of the store of keys, and ends the call after too many.
func (c *keyUse) useKey() {
	c.impure = true // the next call may get another version of the key
	if c.KeyRequests++; c.KeyRequests > c.plan.Limits.KeyRequests {
		c.endf(StagePlugin, "the store of keys was to be used more than %d times in one call", c.plan.Limits.KeyRequests)
	}
}

// describe returns the description of a key. It ends the call unless the algorithm fits the key.
func (c *keyUse) describe(field string, key view.Key, algorithm string) (info view.KeyInfo) {
	c.ask(field, key, func(ctx context.Context, pinnedKey view.Key) (version int, err error) {
		info, err = c.plan.Keys.Describe(ctx, pinnedKey)
		return 0, err
	})
	if isMAC(algorithm) {
		return info
	}
	if err := signing.CheckPublic(algorithm, printable.Text(info.Type, 64), info.Public); err != nil {
		c.endField(StageSign, field, "key %s: %w", keyName(key), err)
	}
	jwk, err := signing.JWK(info.Public)
	if err != nil {
		c.endField(StageSign, field, "key %s: %w", keyName(key), err)
	}
	c.serve(field, signing.Thumbprint(jwk))
	return info
}

// ask calls a method of the store of keys with the version of the key that this call uses. f returns the version that the
// store has used, or 0.
func (c *keyUse) ask(field string, key view.Key, f func(ctx context.Context, pinnedKey view.Key) (version int, err error)) {
	ctx, cancel := context.WithTimeout(c.ctx, c.plan.ExchangeTime)
	defer cancel()
	pinnedKey := view.Key{Name: key.Name, Version: cmp.Or(c.versions[key], key.Version)}
	var version int
	var err error
	wait := func() {
		spanCtx, span := c.plan.Events.Start(ctx, event.Span{Name: event.Key, Field: field})
		began := c.plan.Clock()
		version, err = f(spanCtx, pinnedKey)
		if err != nil && !errors.Is(err, ErrKeyNotFound) && !errors.Is(err, ErrKeyRefused) {
			err = Passing(err)
		}
		c.KeyTime += c.plan.Clock().Sub(began)
		span.End(event.End{Err: err})
	}
	if c.pause == nil {
		wait()
	} else {
		c.pause(wait)
	}
	switch {
	case err != nil:
		scrubbed := c.ScrubError(err)
		if IsPassing(err) {
			scrubbed = Passing(scrubbed)
		}
		c.endField(StageSign, field, "key %s: %w", keyName(key), scrubbed)
	case pinnedKey.Version != 0 && version != 0 && version != pinnedKey.Version:
		c.endField(StageSign, field, "key %s: the store of keys used version %d, and version %d was wanted", keyName(key), version, pinnedKey.Version)
	case version != 0:
		c.useVersion(key, version)
	}
}

func (c *keyUse) useVersion(key view.Key, version int) {
	if c.versions == nil {
		c.versions = map[view.Key]int{}
	}
	c.versions[key] = version
}

// keyName returns a key for errors.
func keyName(key view.Key) string {
	if key.Version != 0 {
		return fmt.Sprintf("%q, version %d", key.Name, key.Version)
	}
	return fmt.Sprintf("%q", key.Name)
}

// storeJWK returns the public half of a key of the store of keys as a JWK. The call's signatures are of the same version.
func (c *keyUse) storeJWK(field string, key view.Key, algorithm string) string {
	if isMAC(algorithm) {
		c.endField(StageSign, field, "%w", &signing.KeyError{Algorithm: algorithm, Problem: "is a shared secret, which has no public half"})
	}
	c.useKey()
	info := c.describe(field, key, algorithm)
	c.useVersion(key, info.Version)
	jwk, _ := signing.JWK(info.Public) // describe has made it too
	return jwk
}

// explainedPublic returns what stands for the public half of a key, or a certificate, in an explained call that cannot read it: it is in
// the store of keys or made up, or the host makes it.
func (c *keyUse) explainedPublic(f *Field, form string) string {
	source := f.Name
	if f.Text != nil && f.Text.Key() != nil {
		source = "get_key('" + f.Text.Key().Name + "')"
	}
	text := "<" + form + " of " + source + ">"
	if form == contract.PublicJWK {
		return string(c.marshal(map[string]any{"kty": text}))
	}
	return text
}

// storeMAC returns an HMAC of the store of keys over data with its sealed values put in, and a value for what is made from
// the data. The values count towards maxStoreData as they do elsewhere, and the body with its length.
func (c *keyUse) storeMAC(algorithm string, key view.Key, data string) ([]byte, seal.Value) {
	c.detach(Restart{Keys: true})
	if signing.SignatureSize(algorithm, nil) == 0 {
		c.end(StageSign, signing.ErrMACAlgorithm)
	}
	buffer := &boundedBuffer{room: maxStoreData - c.sealed.Rounding(data), full: errTooMuch}
	v, _ := c.hash("the data of mac", data, buffer)
	return c.storeSigns(c.fieldOf(key), key, algorithm, buffer.bytes), v
}

// fieldOf returns the name of the field that names a key of the store of keys.
func (c *keyUse) fieldOf(key view.Key) string {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Fields)) {
		if f := c.plan.Fields[name]; f.Text != nil && f.Text.Key() != nil && view.Key(*f.Text.Key()) == key {
			return name
		}
	}
	return "the key of mac"
}

// boundedBuffer holds up to room bytes. With more, full is the error.
type boundedBuffer struct {
	bytes []byte
	room  int
	full  error
}

// signedBuffer returns a buffer for what a key signs, with less room by an overhead.
func signedBuffer(k signingKey, overhead int) *boundedBuffer {
	if k.storedKey != nil {
		return &boundedBuffer{room: maxStoreData - overhead, full: errTooMuch}
	}
	return &boundedBuffer{room: maxSignedData - overhead, full: errTooLong}
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.bytes)+len(p) > b.room {
		return 0, b.full
	}
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

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
