package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry/artifact"
)

var manifest = []byte(`{"schemaVersion":2}`)

func noPassword() (string, error) { return "", errors.New("no password") }

// signers returns a signer of each kind, and the private keys as files.
func signers(t *testing.T) map[string]*Signer {
	t.Helper()
	all := map[string]*Signer{}
	for kind, text := range map[string][]byte{Minisign: minisignFile(t), Cosign: ecdsaFile(t, elliptic.P256())} {
		s := testworld.Must(ParsePrivate(text, noPassword))(t)
		all[kind] = s
	}
	return all
}

func minisignFile(t *testing.T) []byte {
	t.Helper()
	_, private, err := minisign.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	return testworld.Must(private.MarshalText())(t)
}

func ecdsaFile(t *testing.T, curve elliptic.Curve) []byte {
	t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(curve, rand.Reader))(t)
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// A signature counts for its manifest and its key, and for nothing else (threats.md 161).
func TestSignatures(t *testing.T) {
	others := signers(t)
	for kind, s := range signers(t) {
		key := testworld.Must(s.Key())(t)
		signed := testworld.Must(s.Sign(rand.Reader, manifest, "registry.example/acme/hmac", "acme 1.2.0"))(t)
		if err := signed.Verify(key, manifest); err != nil || signed.Key != key {
			t.Errorf("%s: err = %v", kind, err)
		}
		if parsed, err := ParseKey([]byte(key.Text + "\n")); err != nil || parsed != key {
			t.Errorf("%s: the key as a text: %v, %v", kind, parsed, err)
		}
		other, _ := others[kind].Key()
		changed := signed
		changed.Signature = append([]byte{}, signed.Signature...)
		changed.Signature[len(changed.Signature)/2] ^= 1
		another := signed
		another.Kind = map[string]string{Minisign: Cosign, Cosign: Minisign}[kind]
		for name, wrong := range map[string]error{
			"another manifest":   signed.Verify(key, append([]byte(" "), manifest...)),
			"another key":        signed.Verify(other, manifest),
			"a changed one":      changed.Verify(key, manifest),
			"another kind":       another.Verify(key, manifest),
			"no key":             signed.Verify(Key{}, manifest),
			"a key of no kind":   signed.Verify(Key{Kind: kind, Text: "x"}, manifest),
			"nothing":            Signature{Key: Key{Kind: kind}}.Verify(key, manifest),
			"an unknown kind":    Signature{Key: Key{Kind: "pgp"}, Signature: signed.Signature}.Verify(Key{Kind: "pgp"}, manifest),
			"without its kind":   Signature{Signature: signed.Signature, Payload: signed.Payload}.Verify(Key{}, manifest),
			"a key with a space": signed.Verify(Key{Kind: kind, Text: key.Text + " x"}, manifest),
		} {
			if wrong == nil {
				t.Errorf("%s: %s is accepted", kind, name)
			}
		}
		all := []Signature{changed, {Key: Key{Kind: kind}}, signed}
		if found := By(all, key, manifest); found == nil || found.Key != key || string(found.Signature) != string(signed.Signature) {
			t.Errorf("%s: is not found among others", kind)
		}
		if By(all, other, manifest) != nil {
			t.Errorf("%s: is found for another key", kind)
		}
	}
}

// People compare a key of minisign by its line, and one of cosign by half of its digest.
func TestShownKey(t *testing.T) {
	const der = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEnOADRnVkxvDDLpaPGSElKNgvlBNG+S44GyM0Pdomi8CVLD4d0xB/pcKJlVLuw1nQHFJR80Ho/6H11EWsi8FU7A=="
	for key, want := range map[Key]string{
		{Minisign, "RWQ"}: "minisign RWQ", {Cosign, der}: "cosign feabf0d6003aa668f908828515ca533a", {}: "",
	} {
		if got := key.String(); got != want {
			t.Errorf("%q, and not %q", got, want)
		}
	}
}

// A comment of minisign's is signed as well.
func TestTheCommentOfASignature(t *testing.T) {
	s := signers(t)[Minisign]
	key, _ := s.Key()
	signed := testworld.Must(s.Sign(rand.Reader, manifest, "", "acme 1.2.0"))(t)
	signed.Signature = []byte(strings.Replace(string(signed.Signature), "acme 1.2.0", "acme 9.9.9", 1))
	if signed.Verify(key, manifest) == nil {
		t.Error("a changed comment is accepted")
	}
}

// The same key signs other things than images, and they do not count as signatures of a manifest (threats.md 161).
func TestSignaturesOfSomethingElse(t *testing.T) {
	s := signers(t)[Cosign]
	key, _ := s.Key()
	digest := artifact.Digest(manifest)
	image := fmt.Sprintf(`{"critical":{"identity":{"docker-reference":"r.example/a"},"image":{"docker-manifest-digest":"%s"},"type":"cosign container image signature"},"optional":{"who":"me"}}`, digest)
	statement := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"%s"}}],"predicateType":"https://sigstore.dev/cosign/sign/v1"}`, digest[7:])
	dsse := func(text string) string {
		return fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(text), text)
	}
	for name, c := range map[string]struct {
		payload, signed string
		good            bool
	}{
		"of an image":              {image, image, true},
		"of a statement":           {statement, dsse(statement), true},
		"of an attestation":        {strings.Replace(statement, "cosign/sign", "cosign/scan", 1), dsse(strings.Replace(statement, "cosign/sign", "cosign/scan", 1)), false},
		"of a statement as it is":  {statement, statement, false},
		"of an image as DSSE":      {image, dsse(image), false},
		"of another type":          {strings.Replace(image, "cosign container", "other", 1), strings.Replace(image, "cosign container", "other", 1), false},
		"of another manifest":      {strings.Replace(image, digest, artifact.Digest(nil), 1), strings.Replace(image, digest, artifact.Digest(nil), 1), false},
		"of two subjects":          {strings.Replace(statement, `[{`, `[{"digest":{"sha256":"00"}},{`, 1), dsse(strings.Replace(statement, `[{`, `[{"digest":{"sha256":"00"}},{`, 1)), false},
		"with the digest twice":    {strings.Replace(image, `"docker-m`, `"docker-manifest-digest":"x","docker-m`, 1), strings.Replace(image, `"docker-m`, `"docker-manifest-digest":"x","docker-m`, 1), false},
		"of both":                  {image[:len(image)-1] + "," + statement[1:], image[:len(image)-1] + "," + statement[1:], false},
		"of the manifest's digest": {digest, digest, false},
		"of nothing":               {"", "", false},
	} {
		sum := sha256.Sum256([]byte(c.signed))
		signed := testworld.Must(ecdsa.SignASN1(rand.Reader, s.ecdsa, sum[:]))(t)
		err := Signature{Key: Key{Kind: Cosign}, Payload: []byte(c.payload), Signature: signed}.Verify(key, manifest)
		if (err == nil) != c.good {
			t.Errorf("a signature %s: %v", name, err)
		}
	}
}

// Private keys are read as minisign and cosign write them, encrypted or not. An error names no part of them.
func TestPrivateKeys(t *testing.T) {
	minisigned := lightly(t, minisignFile(t), "correct horse")
	block, _ := pem.Decode(ecdsaFile(t, elliptic.P256()))
	box := sealed(t, block.Bytes, "correct horse", 1<<15)
	for name, c := range map[string]struct {
		text, password, want string
	}{
		"of minisign, encrypted":   {minisigned, "correct horse", ""},
		"with a wrong password":    {minisigned, "battery", "the password is wrong"},
		"of cosign, encrypted":     {box, "correct horse", ""},
		"of cosign, wrongly":       {box, "battery", "the password is wrong"},
		"without a password":       {box, "", "no password"},
		"of much work":             {sealed(t, block.Bytes, "x", 1<<30), "correct horse", "encrypted in another way"},
		"on another curve":         {string(ecdsaFile(t, elliptic.P384())), "", "on P-256 is wanted"},
		"of another kind of PEM":   {"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", "", "PEM of another kind"},
		"that is no key at all":    {"hello", "", "is no private key"},
		"that is no PKCS #8":       {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "", "is no private key"},
		"of cosign that is no box": {"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n", "x", "encrypted in another way"},
	} {
		s, err := ParsePrivate([]byte(c.text), func() (string, error) {
			if c.password == "" {
				return noPassword()
			}
			return c.password, nil
		})
		if testworld.WantError(t, name, err, c.want); err != nil {
			continue
		}
		key, _ := s.Key()
		if signed, err := s.Sign(rand.Reader, manifest, "r.example/a", "c"); err != nil || signed.Verify(key, manifest) != nil {
			t.Errorf("a key %s signs wrongly: %v", name, err)
		}
	}
	for name, text := range map[string]string{"nothing": "", "a word": "key", "a private key": string(ecdsaFile(t, elliptic.P256()))} {
		if key, err := ParseKey([]byte(text)); err == nil {
			t.Errorf("%s is a public key: %v", name, key)
		}
	}
}

// sealed returns a private key as cosign keeps it, which says that work is the work of scrypt.
func sealed(t *testing.T, der []byte, password string, work int) string {
	t.Helper()
	text := testworld.Must(encrypted.EncryptWithCustomKDFParameters(der, []byte(password), encrypted.Legacy))(t)
	text = bytes.Replace(text, []byte(`"N":32768`), fmt.Appendf(nil, `"N":%d`, work), 1)
	return string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: text}))
}

// lightly encrypts a private key of minisign, with less work for scrypt than the program takes.
func lightly(t *testing.T, file []byte, password string) string {
	t.Helper()
	const comment = "untrusted comment: minisign encrypted secret key\n"
	b := testworld.Must(base64.StdEncoding.DecodeString(strings.TrimPrefix(string(file), comment)))(t)
	copy(b[2:], "Sc")
	binary.LittleEndian.PutUint64(b[38:], 1<<15) // operations
	binary.LittleEndian.PutUint64(b[46:], 1<<21) // memory
	sum := blake2b.Sum256(append([]byte("Ed"), b[54:126]...))
	copy(b[126:], sum[:])
	stream := testworld.Must(scrypt.Key([]byte(password), b[6:38], 1<<10, 8, 1, 104))(t)
	for i, k := range stream {
		b[54+i] ^= k
	}
	return comment + base64.StdEncoding.EncodeToString(b)
}
