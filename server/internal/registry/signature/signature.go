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
	"io"
	"strings"

	"aead.dev/minisign"
	"github.com/go-json-experiment/json"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/keywright/keywright/server/internal/registry/artifact"
)

// Kinds of signatures.
const (
	Minisign = "minisign"
	Cosign   = "cosign"
)

// MaxBytes limits a signature or its payload.
const MaxBytes = 64 << 10

// A Signature is a signature of a manifest. Its JSON is that of keywright.lock.
type Signature struct {
	// Key is the key that came with the signature, of which nothing is known but that it came, or the one that has verified it.
	// If no key came, its Text is empty.
	Key
	// Signature is the text of a minisign signature, or the bytes of a cosign signature.
	Signature []byte `json:"signature"`
	// Payload is the text that a cosign signature signs. It has the digest of the manifest.
	Payload []byte `json:"payload,omitempty"`
}

// Same reports whether two signatures have the same key. Both may be nil.
func (s *Signature) Same(t *Signature) bool {
	if s == nil || t == nil {
		return s == t
	}
	return s.Key == t.Key
}

// String returns the key. For nil it returns "".
func (s *Signature) String() string {
	if s == nil {
		return ""
	}
	return s.Key.String()
}

// A Key is a public key.
type Key struct {
	// Kind is minisign or cosign.
	Kind string `json:"kind"`
	// Text is the line of a minisign key, or the Base64 of a PKIX key in DER.
	Text string `json:"key"`
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
		_, err := key.ecdsa()
		return key, err
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
	der, errText := base64.StdEncoding.DecodeString(k.Text)
	public, err := x509.ParsePKIXPublicKey(der)
	if errText != nil || err != nil {
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
		signed = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(s.Payload), s.Payload) // what DSSE signs
	default:
		return errors.New("the signature is of something else than an image")
	}
	switch sum := sha256.Sum256(signed); {
	case !ecdsa.VerifyASN1(public, sum[:], s.Signature):
		return errVerify
	case digest != artifact.Digest(manifest):
		return errors.New("the signature is one of another manifest")
	}
	return nil
}

// By returns the first signature of a manifest with a key, or nil if there is none.
func By(all []Signature, key Key, manifest []byte) *Signature {
	for _, s := range all {
		if s.Verify(key, manifest) == nil {
			s.Key = key
			return &s
		}
	}
	return nil
}

// A Signer signs manifests with a private key.
type Signer struct {
	minisign *minisign.PrivateKey
	ecdsa    *ecdsa.PrivateKey
}

// ParsePrivate reads a private key: a file of minisign, or PEM with an ECDSA key on P-256 (PKCS #8, or as cosign writes it). If the
// key is encrypted, password is called.
func ParsePrivate(text []byte, password func() (string, error)) (*Signer, error) {
	if block, _ := pem.Decode(text); block != nil {
		key, err := ecdsaPrivate(block, password)
		return &Signer{ecdsa: key}, err
	}
	var key minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		secret, err := password()
		if err != nil {
			return nil, err
		}
		if key, err = minisign.DecryptKey(secret, text); err != nil {
			return nil, errors.New("cannot be decrypted: the password is wrong, or the file was changed")
		}
	} else if err := key.UnmarshalText(text); err != nil {
		return nil, errors.New("is no private key: one of minisign, or PEM of an ECDSA key on P-256, is wanted")
	}
	return &Signer{minisign: &key}, nil
}

func ecdsaPrivate(block *pem.Block, password func() (string, error)) (*ecdsa.PrivateKey, error) {
	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		secret, err := password()
		if err != nil {
			return nil, err
		}
		if der, err = encrypted.Decrypt(block.Bytes, []byte(secret)); err != nil { // such as for more work of scrypt than that of cosign
			return nil, errors.New("cannot be decrypted: the password is wrong, or the file was changed, or is encrypted in another way than by cosign")
		}
	default:
		return nil, errors.New("is PEM of another kind: PRIVATE KEY, or that of cosign, is wanted")
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("is no private key")
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("is a key of another kind: an ECDSA key on P-256 is wanted")
	}
	return key, nil
}

// Key returns the public key of the signer.
func (s *Signer) Key() (Key, error) {
	if s.minisign != nil {
		public, _ := s.minisign.Public().(minisign.PublicKey) // its only type
		return Key{Minisign, public.String()}, nil
	}
	der, err := x509.MarshalPKIXPublicKey(&s.ecdsa.PublicKey)
	return Key{Cosign, base64.StdEncoding.EncodeToString(der)}, err
}

// Sign signs a manifest. The repository, as registry/repository, stands in what cosign signs; comment stands in a signature of
// minisign, signed as well. Random is the source of randomness for ECDSA.
func (s *Signer) Sign(random io.Reader, manifest []byte, repository, comment string) (Signature, error) {
	key, err := s.Key()
	if err != nil {
		return Signature{}, err
	}
	if s.minisign != nil {
		text := minisign.SignWithComments(*s.minisign, manifest, comment, "signature of a plugin for Keywright")
		return Signature{Key: key, Signature: text}, nil
	}
	payload, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": repository},
			"image":    map[string]string{"docker-manifest-digest": artifact.Digest(manifest)},
			"type":     simpleSigning,
		},
		"optional": nil,
	}, json.Deterministic(true))
	if err != nil {
		return Signature{}, err
	}
	sum := sha256.Sum256(payload)
	signed, err := ecdsa.SignASN1(random, s.ecdsa, sum[:])
	return Signature{Key: key, Signature: signed, Payload: payload}, err
}
