package signature

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"

	"aead.dev/minisign"
	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"

	"github.com/keywright/keywright/server/internal/registry/artifact"
)

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
		if err != nil {
			return nil, err
		}
		return &Signer{ecdsa: key}, nil
	}
	if minisign.IsEncrypted(text) {
		secret, err := password()
		if err != nil {
			return nil, err
		}
		key, err := minisign.DecryptKey(secret, text)
		if err != nil {
			return nil, errors.New("cannot be decrypted: the password is wrong, or the file was changed")
		}
		return &Signer{minisign: &key}, nil
	}
	var key minisign.PrivateKey
	if err := key.UnmarshalText(text); err != nil {
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
		if der, err = decrypt(block.Bytes, secret); err != nil {
			return nil, err
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
		public, ok := s.minisign.Public().(minisign.PublicKey)
		if !ok {
			return Key{}, errors.New("has no public key")
		}
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
		return Signature{Kind: Minisign, Signature: text, Key: key}, nil
	}
	payload, err := payloadOf(artifact.Digest(manifest), repository)
	if err != nil {
		return Signature{}, err
	}
	sum := sha256.Sum256(payload)
	signed, err := ecdsa.SignASN1(random, s.ecdsa, sum[:])
	return Signature{Kind: Cosign, Signature: signed, Payload: payload, Key: key}, err
}

// payloadOf returns the text that cosign signs.
func payloadOf(digest, repository string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": repository},
			"image":    map[string]string{"docker-manifest-digest": digest},
			"type":     simpleSigning,
		},
		"optional": nil,
	}, json.Deterministic(true))
}

// maxWork limits the memory of scrypt, 128 N r bytes. A key of cosign takes 64 MiB.
const maxWork = 256 << 20

// decrypt decrypts a private key as cosign keeps it: scrypt, and the secret box of NaCl.
func decrypt(text []byte, password string) ([]byte, error) {
	var box struct {
		KDF struct {
			Name   string `json:"name"`
			Params struct {
				N int `json:"N"`
				R int `json:"r"`
				P int `json:"p"`
			} `json:"params"`
			Salt []byte `json:"salt"`
		} `json:"kdf"`
		Cipher struct {
			Name  string `json:"name"`
			Nonce []byte `json:"nonce"`
		} `json:"cipher"`
		Text []byte `json:"ciphertext"`
	}
	errForm := errors.New("is no key of cosign: it is encrypted in another way")
	if err := json.Unmarshal(text, &box); err != nil {
		return nil, errForm
	}
	work := box.KDF.Params
	switch {
	case box.KDF.Name != "scrypt" || box.Cipher.Name != "nacl/secretbox" || len(box.Cipher.Nonce) != 24:
		return nil, errForm
	case work.N <= 0 || work.R <= 0 || work.P <= 0 || work.P > 16 || work.R > 64 || work.N > maxWork/128/work.R:
		return nil, errForm
	}
	derived, err := scrypt.Key([]byte(password), box.KDF.Salt, work.N, work.R, work.P, 32)
	if err != nil {
		return nil, errForm
	}
	plain, ok := secretbox.Open(nil, box.Text, (*[24]byte)(box.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("cannot be decrypted: the password is wrong, or the file was changed")
	}
	return plain, nil
}
