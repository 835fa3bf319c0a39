package hostfn

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// SignSealed returns the signature of data as a sealed value of raw bytes. Its sinks are the derived sinks of the key, as far
// as the sealed values in data share them. The description lists the purposes of the key, and data must fit the one that the
// guest names. So a plugin cannot have a message of another protocol signed.
func (c *keyUse) SignSealed(field, purpose, data string) string {
	c.requireGroup(abi.UserSignSealed)
	c.impure = true
	c.rejectSealed("the purpose of sign_sealed", purpose)
	k := c.signs(field, purpose)
	v, sealed := c.concat("the data of sign_sealed", data)
	derived := seal.All
	if sealed {
		if v.Sinks&seal.Digest == 0 {
			c.end(StagePlugin, &seal.Error{Reason: seal.OutOfReach, Sinks: v.Sinks, Sink: seal.Digest})
		}
		derived = v.Derived
	}
	if k.algorithm == abi.SignRS1 && purpose != abi.PurposeMessage {
		c.endf(StagePlugin, "a key with the algorithm %s signs for %q only", abi.SignRS1, abi.PurposeMessage)
	}
	if problem := checkPurpose(purpose, data, c.sealed.Before(data)); problem != "" {
		c.endf(StagePlugin, "the data of sign_sealed %s", problem)
	}
	signature := c.signature(k, v.Text)
	c.explainSigned("sign_sealed "+k.algorithm, data)
	derived &= c.plan.Fields[field].Derived
	mask := "signature(" + k.algorithm + ", " + v.Mask + ")"
	return c.seal(seal.Value{Text: string(signature), Sinks: derived, Derived: derived, Mask: mask, Raw: true, From: v.From})
}

// checkPurpose returns the reason why data may not be signed for a purpose, or "". It does not look into sealed values, because
// the refusal would show what they are. begin is data in front of the first of them, or all of it. An API may have chosen a
// sealed value, so begin must exclude the forms of other protocols whatever the value is.
func checkPurpose(purpose, data, begin string) string {
	switch purpose {
	case abi.PurposeJWT:
		return `cannot be for "jwt": jwt_sign signs JWTs`
	case abi.PurposeHTTPSignature:
		lines := strings.Split(data, "\n")
		for i, line := range lines {
			if name, _, ok := component(line); !ok || (name == "@signature-params") != (i == len(lines)-1) {
				return "is no signature base (RFC 9421 section 2.5)"
			}
		}
	case abi.PurposeMessage:
		switch {
		case isJWS(begin):
			return "has the form of a JWS (RFC 7515 section 5.1)"
		case strings.HasPrefix(begin, "SSHSIG"):
			return "has the form of an SSH signature"
		case strings.HasPrefix(begin, strings.Repeat(" ", 64)):
			return "has the form of a TLS handshake (RFC 8446 section 4.4.3)"
		case strings.Contains(data, "\"@signature-params\": "):
			return `has the form of a signature base (RFC 9421 section 2.5), which is for "http_signature"`
		case len(begin) < len(data) && !settled(begin):
			return "may have the form of another protocol, depending on a sealed value: put plain text in front of it that has a character which is not of base64url, such as a slash"
		}
	}
	return ""
}

// settled reports whether no text that begins with begin can have a form that a message may not have. A
// signature base begins with a quote, a TLS handshake with spaces, and all others with characters of base64url. isJWS has
// looked at what is in front of a dot.
func settled(begin string) bool {
	if strings.Trim(begin, " ") == "" || begin[0] == '"' {
		return false
	}
	header, _, found := strings.Cut(begin, ".")
	return found || strings.ContainsFunc(header, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_=\r\n", r) // a decoder may skip the last ones
	})
}

// component returns the name and the rest of a line of a signature base (RFC 9421 section 2.5).
func component(line string) (name, rest string, ok bool) {
	line, quoted := strings.CutPrefix(line, `"`)
	name, rest, found := strings.Cut(line, `"`)
	_, _, valued := strings.Cut(rest, ": ")
	return name, rest, quoted && found && name != "" && valued
}

// isJWS reports whether data is the signing input of a JWS: a JSON object in base64url, and a payload after a dot. The payload
// may be anything (RFC 7797).
func isJWS(data string) bool {
	header, _, found := strings.Cut(data, ".")
	if !found {
		return false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(header, "="))
	return err == nil && json.Unmarshal(decoded, &struct{}{}) == nil
}

// PublicKey returns the public half of a key, or a certificate, in a form of package abi. It is plain text, because it is
// public by nature.
func (c *keyUse) PublicKey(field, form string) string {
	c.requireGroup(abi.UserPublicKey)
	c.rejectSealed("the form of public_key", form)
	switch form {
	case abi.PublicJWK, abi.PublicThumbprint:
		k := c.key(field, "")
		if k.stored != nil && c.mode == Explaining {
			return c.explainedPublic(c.plan.Fields[field], form)
		}
		jwk := c.publicJWK(k)
		if form == abi.PublicThumbprint {
			return signing.Thumbprint(jwk)
		}
		return jwk
	case abi.PublicX5T, abi.PublicX5C:
		return c.certificate(field, form)
	}
	c.endf(StagePlugin, "public_key knows %s, %s, %s and %s, not the form it was given", abi.PublicJWK, abi.PublicThumbprint, abi.PublicX5T, abi.PublicX5C)
	return ""
}

// publicJWK returns the public half of a key as a JWK.
func (c *keyUse) publicJWK(k signingKey) string {
	if k.stored != nil {
		return c.storeJWK(k.field, *k.stored, k.algorithm)
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
	if f.Text == nil {
		c.endf(StageSign, "%s is not set", f.Name)
	}
	chain, err := signing.Certificates(c.plainText(f))
	if err != nil {
		c.endf(StageSign, "%s %w", f.Name, err)
	}
	if form == abi.PublicX5T {
		sum := sha256.Sum256(chain[0].Raw)
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	list := make([]any, len(chain))
	for i, certificate := range chain {
		list[i] = base64.StdEncoding.EncodeToString(certificate.Raw)
	}
	document, err := strictjson.Marshal(list)
	if err != nil {
		c.end(StageSign, err)
	}
	return string(document)
}
