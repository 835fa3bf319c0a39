// Package signature makes and verifies signatures of plugins in registries: those of minisign, and those of cosign with a key.
// A signature is of a plugin's manifest, which has the digests of everything else.
package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"aead.dev/minisign"
	"github.com/go-json-experiment/json"

	"github.com/keywright/keywright/server/internal/registry/artifact"
)

// Kinds of signatures.
const (
	Minisign = "minisign"
	Cosign   = "cosign"
)

// MaxBytes limits a signature or its payload.
const MaxBytes = 64 << 10

// A Signature is a signature of a manifest.
type Signature struct {
	Kind string
	// Signature is the text of a minisign signature, or the bytes of a cosign signature.
	Signature []byte
	// Payload is the text that a cosign signature signs. It has the digest of the manifest.
	Payload []byte
	// Key is the key that came with the signature, or the zero Key. Nothing is known of it but that it came.
	Key Key
}

// A Key is a public key.
type Key struct {
	Kind string
	// Text is the line of a minisign key, or the Base64 of a PKIX key in DER.
	Text string
}

// String returns the key as people compare it: the line of minisign, or half of the SHA-256 of an ECDSA key in DER, in hex.
func (k Key) String() string {
	if der, err := base64.StdEncoding.DecodeString(k.Text); err == nil && k.Kind == Cosign {
		sum := sha256.Sum256(der)
		return fmt.Sprintf("%s %x", k.Kind, sum[:16])
	}
	return strings.TrimSpace(k.Kind + " " + k.Text)
}

// ParseKey reads a public key: a file or a line of minisign, or PEM with an ECDSA key on P-256.
func ParseKey(text []byte) (Key, error) {
	if block, _ := pem.Decode(text); block != nil {
		key := Key{Cosign, base64.StdEncoding.EncodeToString(block.Bytes)}
		if _, err := key.ecdsa(); err != nil {
			return Key{}, err
		}
		return key, nil
	}
	line := string(bytes.TrimSpace(text))
	if key, err := minisignKey(line); err == nil {
		return Key{Minisign, key.String()}, nil
	}
	if _, err := (Key{Cosign, line}).ecdsa(); err == nil {
		return Key{Cosign, line}, nil
	}
	return Key{}, errors.New("is no public key: a key of minisign, or PEM of an ECDSA key on P-256, is wanted")
}

func minisignKey(text string) (key minisign.PublicKey, err error) {
	return key, key.UnmarshalText([]byte(text))
}

func (k Key) ecdsa() (*ecdsa.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(k.Text)
	if err != nil {
		return nil, errors.New("is no public key")
	}
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("is no public key")
	}
	key, ok := public.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("is a key of another kind: an ECDSA key on P-256 is wanted")
	}
	return key, nil
}

// Verify returns an error unless the signature is of a manifest, with a key.
func (s Signature) Verify(key Key, manifest []byte) error {
	switch {
	case s.Kind != key.Kind:
		return errors.New("the signature is of another kind than the key")
	case s.Kind == Minisign:
		return s.minisign(key, manifest)
	case s.Kind == Cosign:
		return s.cosign(key, manifest)
	}
	return fmt.Errorf("there are no signatures of the kind %q", s.Kind)
}

var errVerify = errors.New("the signature is not one of this manifest with this key")

func (s Signature) minisign(key Key, manifest []byte) error {
	public, err := minisignKey(key.Text)
	if err != nil {
		return errors.New("is no key of minisign")
	}
	if !minisign.Verify(public, manifest, s.Signature) {
		return errVerify
	}
	return nil
}

// The types of what cosign signs.
const (
	simpleSigning = "cosign container image signature"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://sigstore.dev/cosign/sign/v1"
	payloadType   = "application/vnd.in-toto+json"
)

func (s Signature) cosign(key Key, manifest []byte) error {
	public, err := key.ecdsa()
	if err != nil {
		return err
	}
	var payload struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
		Type      string `json:"_type"`
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest struct {
				SHA256 string `json:"sha256"`
			} `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(s.Payload, &payload); err != nil {
		return errors.New("the signature is of no JSON, or of some with a member twice")
	}
	var digest string
	signed := s.Payload
	switch {
	case payload.Critical.Type == simpleSigning && payload.Type == "":
		digest = payload.Critical.Image.Digest
	case payload.Critical.Type == "" && payload.Type == statementType && payload.Predicate == predicateType && len(payload.Subject) == 1:
		digest = "sha256:" + payload.Subject[0].Digest.SHA256
		signed = preAuthentication(s.Payload)
	default:
		return errors.New("the signature is of something else than an image")
	}
	sum := sha256.Sum256(signed)
	switch {
	case !ecdsa.VerifyASN1(public, sum[:], s.Signature):
		return errVerify
	case digest != artifact.Digest(manifest):
		return errors.New("the signature is one of another manifest")
	}
	return nil
}

// preAuthentication returns the text that a signature of DSSE signs.
func preAuthentication(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// By returns the first signature of a manifest with a key, and whether there is one.
func By(all []Signature, key Key, manifest []byte) (Signature, bool) {
	for _, s := range all {
		if s.Verify(key, manifest) == nil {
			return s, true
		}
	}
	return Signature{}, false
}
