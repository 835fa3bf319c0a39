package hostfn

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
)

// JWTSign returns a compact JWT (RFC 7519) as a sealed value. It signs with a key field of the configuration and the
// algorithm that the configuration names. The only sink of the value is the one that the request asks for.
func (c *keyUse) JWTSign(document []byte) string {
	c.requireGroup(contract.UserJWTSign)
	c.impure = true
	request := c.jwtRequest(document)
	sink := seal.Header
	switch request.For {
	case contract.ForHeader:
	case contract.ForQuery:
		sink = seal.Query
	case contract.ForToken:
		sink = seal.Token
	default:
		c.endf(StagePlugin, `the request of jwt_sign: "for" is neither "header" nor "query" nor "token"`)
	}
	mask := "<jwt>"
	if c.explains() {
		mask = c.maskedJWT(c.jwtRequest(document))
	}
	plain, sealed := c.integers(&request)
	start := c.sealed.Opened
	from := c.unsealObject("the header of jwt_sign", request.Header)
	from = from.And(c.unsealObject("the claims of jwt_sign", request.Claims))
	size := len(document) + 3*(c.sealed.Opened-start)/2 + maxSignature
	if err := signing.Integers(request.Claims, plain); err != nil {
		c.end(StageSign, err)
	}
	for i := range sealed {
		_ = signing.Integers(request.Claims, sealed[i:i+1]) // a number that is too large stays a string
	}
	k := c.signs(request.Key, contract.PurposeJWT)
	token, err := signing.JWT(k.algorithm, request.Header, request.Claims, func(input string) ([]byte, error) { return c.signature(k, input), nil })
	if err != nil {
		c.endField(StageSign, k.field, "%w", err)
	}
	return c.seal(seal.Value{Text: token, Sinks: sink, Mask: mask, Size: size, From: from})
}

func (c *keyUse) signature(k signingKey, data string) []byte {
	switch {
	case k.storedKey != nil:
		return c.storeSigns(k.field, *k.storedKey, k.algorithm, []byte(data))
	case c.inputs.MadeUp:
		return make([]byte, explainedSize)
	}
	key, warning, err := c.plan.Signer.Key(k.algorithm, k.text)
	if err != nil {
		c.endField(StageSign, k.field, "%w", err)
	}
	if key.Thumbprint != "" {
		c.serve(k.field, key.Thumbprint)
	}
	c.warning(k.field, warning)
	signature, err := key.Sign(data)
	if err != nil {
		c.endField(StageSign, k.field, "%w", err)
	}
	return signature
}

// integers returns the names of the claims that become integers, separately for plain claims and for claims with sealed values. An error
// must not show that one of the latter is too large. Otherwise, a guest could add digits to a sealed value and learn how large it is.
func (c *keyUse) integers(request *contract.JWTRequest[strictjson.Tree]) (plain, sealed []string) {
	isSealed := func(name string) bool {
		text, ok := request.Claims[name].(string)
		return ok && c.sealed.Plain(text) != nil
	}
	for _, name := range request.Integers {
		if isSealed(name) {
			sealed = append(sealed, name)
		}
	}
	return slices.DeleteFunc(request.Integers, isSealed), sealed
}

func (c *keyUse) jwtRequest(document []byte) (request contract.JWTRequest[strictjson.Tree]) {
	err := strictjson.Decode(document, &request, func(s *strictjson.Simple, name string) (ok bool) {
		switch name {
		case "key":
			request.Key, ok = s.Text()
		case "for":
			request.For, ok = s.Text()
		case "header":
			request.Header, ok = s.Object()
		case "claims":
			request.Claims, ok = s.Object()
		case "integers":
			request.Integers, ok = s.Texts()
		}
		return ok
	})
	if err != nil {
		c.endf(StagePlugin, "the request of jwt_sign %w", err)
	}
	return request
}

// unsealObject puts the sealed values into the strings of an object, in place, and returns the origins of the values.
func (c *keyUse) unsealObject(where string, object map[string]any) (from *seal.Origins) {
	c.mapStrings(where, object, func(text string) (string, error) {
		if c.sealed.Plain(text) == nil { // and so UTF-8, as all of the document
			out, _ := c.unseal(where, text, seal.Claim)
			return out, nil
		}
		c.notRaw(where, text)
		out, _ := c.unseal(where, text, seal.Claim)
		from = from.And(c.sealed.From(text))
		if !utf8.ValidString(out) {
			return "", errors.New("a sealed value that is not UTF-8 cannot stand in JSON; encode it")
		}
		return out, nil
	})
	return from
}

// maskedJWT returns the header and the claims of a JWT for a person to read.
func (c *keyUse) maskedJWT(request contract.JWTRequest[strictjson.Tree]) string {
	mask := func(text string) (string, error) { return c.sealed.Mask(text), nil }
	header, claims := map[string]any(request.Header), map[string]any(request.Claims)
	if header == nil {
		header = map[string]any{}
	}
	algorithm := c.key(request.Key, contract.PurposeJWT).algorithm
	c.mapStrings("the header of jwt_sign", header, mask)
	c.mapStrings("the claims of jwt_sign", claims, mask)
	header["alg"] = algorithm
	if _, set := header["typ"]; !set {
		header["typ"] = "JWT"
	}
	if err := signing.Integers(claims, request.Integers); err != nil {
		c.end(StageSign, err)
	}
	h, _ := strictjson.Marshal(header)
	p, _ := strictjson.Marshal(claims)
	return "<jwt " + string(h) + "." + string(p) + ">"
}

// Sign returns the raw signature of data, which the guest chooses. It needs the grant sign_raw.
func (c *keyUse) Sign(field, data string) []byte {
	c.requireGroup(contract.UserSign)
	c.impure = true
	c.requireGrant(contract.UserSign, abi.GrantSignRaw)
	c.rejectSealed("the data of sign", data)
	if f := c.plan.Fields[field]; f != nil && f.SignsJWS() {
		c.endf(StagePlugin, "%s is a key for %q, which jws_sign alone uses", f.Name, contract.PurposeJWS)
	}
	signature := c.signature(c.signs(field, ""), data)
	// The signature is a credential in plain bytes. Scrub has to know it.
	c.revealed = true
	c.seal(seal.Value{Text: string(signature)})
	return signature
}

type signingKey struct {
	field string
	// text is the key. It is empty if stored is not nil: then the key is in the store of keys.
	text      string
	storedKey *view.Key
	algorithm string
}

// signs returns the key of a field, as key does, for one more signature.
func (c *keyUse) signs(name, purpose string) signingKey {
	k := c.key(name, purpose)
	if c.signatures++; c.signatures > maxSignatures {
		c.endf(StagePlugin, "more than %d signatures in one call", maxSignatures)
	}
	return k
}

// key returns the key of a field and the algorithm that the configuration names for it. It ends the call unless the
// description lists the purpose for the key.
func (c *keyUse) key(name, purpose string) signingKey {
	c.rejectSealed("the name of a key", name)
	f := c.plan.Fields[name]
	if f == nil || f.Kind != abi.KindKey {
		c.endf(StagePlugin, "a key was asked for that is not a field of kind key in this configuration")
	}
	if purpose != "" && !slices.Contains(f.purposes(), purpose) {
		c.endf(StagePlugin, "%s is not a key for this: the plugin's description does not list %q in its purposes", f.Name, purpose)
	}
	k := signingKey{field: f.Name, algorithm: c.algorithm(f), storedKey: c.storedKey(f)}
	switch {
	case k.storedKey != nil:
		return k
	case f.Text != nil:
		k.text = c.decodedSecret(f, k.algorithm)
		return k
	case !f.Generate:
		c.endf(StageSign, "%s is not set", f.Name)
	}
	partition := c.partition()
	var err error
	if k.text, err = c.plan.Signer.Generate(k.algorithm, c.plan.KeySecret, string(partition[:])+f.Name); err != nil {
		c.endField(StageSign, f.Name, "%w", err)
	}
	return k
}

// algorithm returns the algorithm that the configuration names for a key, under its name of RFC 7518 or RFC 8037.
func (c *keyUse) algorithm(f *Field) string {
	a := c.plan.Fields[f.AlgorithmField]
	if a == nil {
		return ""
	}
	name := c.plainText(a)
	return cmp.Or(a.Algorithms[name], name)
}

// decodedSecret returns the text of a key. If the key is the secret of an HMAC, it is decoded as the configuration says.
func (c *keyUse) decodedSecret(f *Field, algorithm string) string {
	text, encoding := c.plainText(f), c.plan.Fields[f.EncodingField]
	if encoding == nil || !jws.Symmetric(algorithm) || c.inputs.MadeUp {
		return text
	}
	format := c.plainText(encoding)
	decode := compose.Formats[format].Decode
	if decode == nil { // text, or a default that names no format
		return text
	}
	secret, err := decode(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil { // its text would quote the secret
		c.endField(StageConfig, f.Name, "is not in %s, as %s says", format, encoding.Name)
	}
	return string(secret)
}

// MAC returns the HMAC of data (RFC 2104) as a sealed value of raw bytes. Its sinks are the derived sinks of its key, as far
// as the sealed values in data share them.
func (c *keyUse) MAC(algorithm, key, data string) string {
	c.requireGroup(contract.UserMAC)
	c.impure = true
	k := c.macKey(key)
	var v seal.Value
	var sum []byte
	if k.Key != nil {
		c.volatile = true
		sum, v = c.storeMAC(algorithm, *k.Key, data)
	} else {
		mac, err := signing.NewMAC(algorithm, []byte(k.Text))
		if err != nil {
			c.end(StageSign, fmt.Errorf("%s: %w", k.Mask, err))
		}
		v, _ = c.hash("the data of mac", data, mac)
		sum = mac.Sum(nil)
	}
	c.explainSigned("mac "+algorithm, data)
	sinks := k.Derived & v.Derived
	mask := "mac(" + algorithm + ", " + k.Mask + ", " + v.Mask + ")"
	return c.seal(seal.Value{Text: string(sum), Sinks: sinks, Derived: sinks, Mask: mask, Raw: true, Later: k.Later || v.Later, From: k.From.And(v.From)})
}

// macKey returns the value of the key of mac. It ends the call unless that is sealed and reaches Sign. That of a field of kind key
// does not.
func (c *keyUse) macKey(key string) (k seal.Value) {
	if v := c.sealed.Key(key); v != nil {
		k = *v
	} else {
		var sealed bool
		if k, sealed = c.concat("the key of mac", key); !sealed {
			c.end(StagePlugin, errors.New("the key of mac holds no sealed value, so that what it gives would be no credential"))
		}
	}
	if k.Sinks&seal.Sign == 0 {
		misuse := &seal.Error{Reason: seal.OutOfReach, Sinks: k.Sinks, Sink: seal.Sign}
		c.end(StagePlugin, fmt.Errorf("the key of mac: %w (the sink sign is in sinks of its field, and in derived for what is made of that; a field of kind key signs with sign_sealed)", misuse))
	}
	return k
}

// CheckKey asks the store of keys about the key that a field names with get_key. It returns a failure unless the key is there
// and fits its algorithm.
func (c *keyUse) CheckKey(f *Field) *Failure {
	return c.try(func() {
		algorithm := "HS256" // of a secret for mac, whose algorithm the plugin chooses
		if f.Kind == abi.KindKey {
			algorithm = c.algorithm(f)
		}
		c.describe(f.Name, view.Key(*f.Text.Key()), algorithm)
	})
}

// SignSealed returns the signature of data as a sealed value of raw bytes. Its sinks are the derived sinks of the key, as far
// as the sealed values in data share them. The description lists the purposes of the key, and data must fit the one that the
// guest names. So a plugin cannot have a message of another protocol signed.
func (c *keyUse) SignSealed(field, purpose, data string) string {
	c.requireGroup(contract.UserSignSealed)
	c.impure = true
	c.rejectSealed("the purpose of sign_sealed", purpose)
	k := c.signs(field, purpose)
	for v := range c.sealed.In(data) {
		if v.Stream != nil && purpose != contract.PurposeMessage { // its lines would count as those of a signature base
			c.endf(StagePlugin, "%s: %w", signedData, &seal.Error{Reason: seal.OnlyHashed})
		}
	}
	if k.algorithm == contract.SignRS1 && purpose != contract.PurposeMessage {
		c.endf(StagePlugin, "a key with the algorithm %s signs for %q only", contract.SignRS1, contract.PurposeMessage)
	}
	buffer := signedBuffer(k, c.sealed.Rounding(data))
	// The body is the caller's, and so it is plain text where the form of the data is concerned.
	open, rest := c.sealed.CutSecret(data)
	v, _ := c.hash(signedData, open, buffer)
	begin := string(buffer.bytes)
	if rest != "" {
		v, _ = c.hash(signedData, rest, buffer)
	}
	// A word alone has the form of no other protocol: none of their data is so short, or without a dot, quote, space, brace or zero byte.
	word := purpose == contract.PurposeMessage && c.sealed.Word(data)
	if problem := signing.CheckPurpose(purpose, begin+rest, begin); problem != "" && !word {
		c.endf(StagePlugin, "%s %s", signedData, problem)
	}
	signature := c.signature(k, string(buffer.bytes))
	c.explainSigned("sign_sealed "+k.algorithm, data)
	derived := v.Derived & c.plan.Fields[field].Derived
	mask := "signature(" + k.algorithm + ", " + c.sealed.Mask(data) + ")"
	return c.seal(seal.Value{Text: string(signature), Sinks: derived, Derived: derived, Mask: mask, Raw: true, From: v.From})
}

const signedData = "the data of sign_sealed"

// PublicKey returns the public half of a key, or a certificate, in a form of package contract. It is plain text, because it is
// public by nature.
func (c *keyUse) PublicKey(field, form string) string {
	c.requireGroup(contract.UserPublicKey)
	c.rejectSealed("the form of public_key", form)
	switch form {
	case contract.PublicJWK, contract.PublicThumbprint:
		k := c.key(field, "")
		if c.mode == Explaining && (k.storedKey != nil || c.inputs.MadeUp) {
			return c.explainedPublic(c.plan.Fields[field], form)
		}
		jwk := c.publicJWK(k)
		if form == contract.PublicThumbprint {
			return signing.Thumbprint(jwk)
		}
		return jwk
	case contract.PublicX5T, contract.PublicX5C:
		return c.certificate(field, form)
	}
	c.endf(StagePlugin, "public_key knows %s, %s, %s and %s, not the form it was given", contract.PublicJWK, contract.PublicThumbprint, contract.PublicX5T, contract.PublicX5C)
	return ""
}

func (c *keyUse) publicJWK(k signingKey) string {
	if k.storedKey != nil {
		return c.storeJWK(k.field, *k.storedKey, k.algorithm)
	}
	jwk, err := c.plan.Signer.PublicJWK(k.algorithm, k.text)
	if err != nil {
		c.endField(StageSign, k.field, "%w", err)
	}
	return jwk
}

// certificate returns the thumbprint of the certificate in a field, or its chain.
func (c *keyUse) certificate(field, form string) string {
	c.rejectSealed("the name of a certificate", field)
	f := c.plan.Fields[field]
	if f == nil || f.Kind != abi.KindCertificate {
		c.end(StagePlugin, errors.New("a certificate was asked for that is not a field of kind certificate in this configuration"))
	}
	switch {
	case f.Text == nil:
		c.endf(StageSign, "%s is not set", f.Name)
	case c.inputs.MadeUp:
		return c.explainedPublic(f, form)
	}
	text := c.plainText(f)
	if len(text) > maxChain {
		c.endf(StageSign, "%s is longer than %d bytes", f.Name, maxChain)
	}
	chain, err := signing.Certificates(text)
	if err != nil {
		c.endf(StageSign, "%s %w", f.Name, err)
	}
	chain = chain[:min(len(chain), maxCertificates)]
	if form == contract.PublicX5T {
		sum := sha256.Sum256(chain[0].Raw)
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	list := make([]any, len(chain))
	for i, certificate := range chain {
		list[i] = base64.StdEncoding.EncodeToString(certificate.Raw)
	}
	return string(c.marshal(list))
}
