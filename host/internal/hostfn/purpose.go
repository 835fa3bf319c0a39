package hostfn

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/contract"
)

// SignSealed returns the signature of data as a sealed value of raw bytes. Its sinks are the derived sinks of the key, as far
// as the sealed values in data share them. The description lists the purposes of the key, and data must fit the one that the
// guest names. So a plugin cannot have a message of another protocol signed.
func (c *keyUse) SignSealed(field, purpose, data string) string {
	c.requireGroup(contract.UserSignSealed)
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
	if k.algorithm == contract.SignRS1 && purpose != contract.PurposeMessage {
		c.endf(StagePlugin, "a key with the algorithm %s signs for %q only", contract.SignRS1, contract.PurposeMessage)
	}
	if problem := signing.CheckPurpose(purpose, data, c.sealed.Before(data)); problem != "" {
		c.endf(StagePlugin, "the data of sign_sealed %s", problem)
	}
	signature := c.signature(k, v.Text)
	c.explainSigned("sign_sealed "+k.algorithm, data)
	derived &= c.plan.Fields[field].Derived
	mask := "signature(" + k.algorithm + ", " + v.Mask + ")"
	return c.seal(seal.Value{Text: string(signature), Sinks: derived, Derived: derived, Mask: mask, Raw: true, From: v.From})
}

// PublicKey returns the public half of a key, or a certificate, in a form of package contract. It is plain text, because it is
// public by nature.
func (c *keyUse) PublicKey(field, form string) string {
	c.requireGroup(contract.UserPublicKey)
	c.rejectSealed("the form of public_key", form)
	switch form {
	case contract.PublicJWK, contract.PublicThumbprint:
		k := c.key(field, "")
		if k.storedKey != nil && c.mode == Explaining {
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

// publicJWK returns the public half of a key as a JWK.
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
	if f.Text == nil {
		c.endf(StageSign, "%s is not set", f.Name)
	}
	chain, err := signing.Certificates(c.plainText(f))
	if err != nil {
		c.endf(StageSign, "%s %w", f.Name, err)
	}
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
