package pkcs12

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/asn1"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/keywright/keywright/internal/testworld"
)

// exported returns what openssl exports of a new key, its certificate, and an issuer's certificate behind it.
func exported(t *testing.T, algorithm []string, arguments ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	openssl := func(arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "openssl", arguments...)
		command.Dir = dir
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", arguments, err, text)
		}
	}
	openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=issuer")
	openssl(append([]string{"req", "-x509", "-nodes", "-keyout", "client.key", "-out", "client.pem", "-subj", "/CN=client", "-newkey"}, algorithm...)...)
	openssl(append([]string{"pkcs12", "-export", "-inkey", "client.key", "-in", "client.pem", "-certfile", "ca.pem", "-out", "file.p12"}, arguments...)...)
	return testworld.Must(os.ReadFile(filepath.Join(dir, "file.p12")))(t)
}

var rsa = []string{"rsa:2048"}

// Files as openssl writes them, today and in the past, have the client's certificate with its key, and its issuer's behind it.
func TestFilesOfOpenSSL(t *testing.T) {
	for name, c := range map[string]struct {
		algorithm, arguments []string
		passphrase           string
	}{
		"RSA, AES":      {rsa, []string{"-passout", "pass:pass word"}, "pass word"},
		"RSA, legacy":   {rsa, []string{"-passout", "pass:legacy", "-legacy"}, "legacy"},
		"3DES":          {rsa, []string{"-passout", "pass:x", "-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1"}, "x"},
		"AES-128":       {rsa, []string{"-passout", "pass:x", "-keypbe", "AES-128-CBC", "-certpbe", "AES-128-CBC"}, "x"},
		"EC":            {[]string{"ec", "-pkeyopt", "ec_paramgen_curve:P-256"}, []string{"-passout", "pass:x"}, "x"},
		"Ed25519":       {[]string{"ed25519"}, []string{"-passout", "pass:x"}, "x"},
		"no passphrase": {rsa, []string{"-passout", "pass:"}, ""},
		"iterations":    {rsa, []string{"-passout", "pass:x", "-iter", "100000"}, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			file := exported(t, c.algorithm, c.arguments...)
			both := testworld.Must(Read(file, c.passphrase))(t)
			if len(both.Certificate) != 2 || both.Leaf.Subject.CommonName != "client" || !bytes.Equal(both.Certificate[0], both.Leaf.Raw) {
				t.Errorf("%d certificates, the first of %s", len(both.Certificate), both.Leaf.Subject)
			}
			if _, err := Read(file, c.passphrase+"-"); err == nil || err.Error() != "the passphrase is wrong" {
				t.Errorf("another passphrase: %v", err)
			}
		})
	}
}

// Each file that is of no use has an error of its own, which has nothing of the file (threats.md 411).
func TestUselessFiles(t *testing.T) {
	good := exported(t, rsa, "-passout", "pass:x")
	plain := exported(t, rsa, "-passout", "pass:", "-keypbe", "NONE", "-certpbe", "NONE", "-nomac")
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"no key":              {exported(t, rsa, "-passout", "pass:x", "-nokeys"), "has no private key"},
		"no certificate":      {without(t, plain, certBag, 0), "has no certificate"},
		"several keys":        {without(t, plain, keyBag, 2), "several private keys"},
		"too many iterations": {exported(t, rsa, "-passout", "pass:x", "-iter", "100001"), "more than 100000 iterations"},
		"half of it":          {good[:len(good)/2], "is damaged"},
		"more than it":        {append(bytes.Clone(good), 0), "is damaged"},
		"nothing":             {nil, "is damaged"},
		"a certificate":       {[]byte("-----BEGIN CERTIFICATE-----"), "is damaged"},
	} {
		passphrase := "x"
		if strings.Contains(name, "certificate") || name == "several keys" {
			passphrase = ""
		}
		testworld.WantError(t, name, testworld.ErrorOf(Read(c.file, passphrase)), c.want)
	}
	if _, err := Read(good, "🔑"); err == nil || err.Error() != "the passphrase has a character that no such file can have" {
		t.Errorf("a passphrase with a character beyond U+FFFF: %v", err)
	}
}

// certBag is the kind of a bag, RFC 7292 appendix D.
var certBag = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}

// A key within the encrypted part is refused before it is decrypted: its iterations show only then (threats.md 411).
func TestEncryptedKeyInEncryptedPart_threats_411(t *testing.T) {
	type params struct {
		Salt       []byte
		Iterations int
	}
	type algorithm struct {
		Algorithm asn1.ObjectIdentifier
		Params    any
	}
	// by is PBES2 with PBKDF2 of HMAC-SHA1 and AES-128.
	by := func(iterations int) algorithm {
		kdf := algorithm{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}, params{[]byte("salt"), iterations}}
		aes := algorithm{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}, make([]byte, aes.BlockSize)}
		return algorithm{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, []algorithm{kdf, aes}}
	}
	explicit := func(value any) asn1.RawValue {
		return asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: marshal(value)}
	}
	shrouded := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 2}
	bags := marshal([]safeBag{{shrouded, explicit(struct {
		By   algorithm
		Data []byte
	}{by(1 << 40), make([]byte, aes.BlockSize)})}})
	padding := aes.BlockSize - len(bags)%aes.BlockSize
	for _, password := range []string{"", "x"} {
		key := testworld.Must(pbkdf2.Key(sha1.New, password, []byte("salt"), 1, 16))(t)
		block := testworld.Must(aes.NewCipher(key))(t)
		encrypted := append(bytes.Clone(bags), bytes.Repeat([]byte{byte(padding)}, padding)...)
		cipher.NewCBCEncrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(encrypted, encrypted)
		part := marshal(safeBag{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}, explicit(struct {
			Version int
			Content any
		}{0, struct {
			Kind asn1.ObjectIdentifier
			By   algorithm
			Data []byte `asn1:"tag:0"`
		}{plainData, by(1), encrypted}})})
		file := marshal(struct {
			Version int
			Safe    plainContent
		}{3, plainContent{plainData, marshal([]asn1.RawValue{{FullBytes: part}})}})
		if !hidesKey(file, password) {
			t.Errorf("passphrase %q: the key is not found", password)
		}
		if password != "" {
			continue // Read wants a MAC
		}
		if _, _, _, err := pkcs12.DecodeChain(behindKey(asn1.RawValue{FullBytes: part}, nil), ""); !secondKey(err) {
			t.Errorf("with a MAC of no bytes, the error is %v, want that of a second key", err)
		}
		if _, err := Read(file, password); !errors.Is(err, errUnknownForm) {
			t.Errorf("the error is %v, want %v", err, errUnknownForm)
		}
	}
}

// without returns a file that is not encrypted, with each bag of a kind a number of times.
func without(t *testing.T, file []byte, kind asn1.ObjectIdentifier, times int) []byte {
	t.Helper()
	read := func(der []byte, into any) {
		t.Helper()
		testworld.Must(asn1.Unmarshal(der, into))(t)
	}
	var outer struct {
		Version int
		Safe    plainContent
	}
	var infos []plainContent
	read(file, &outer)
	read(outer.Safe.Data, &infos)
	for i := range infos {
		var bags, changed []asn1.RawValue
		read(infos[i].Data, &bags)
		for _, bag := range bags {
			var one safeBag
			n := 1
			if _, err := asn1.Unmarshal(bag.FullBytes, &one); err == nil && one.Kind.Equal(kind) {
				n = times
			}
			changed = append(changed, slices.Repeat([]asn1.RawValue{bag}, n)...)
		}
		infos[i].Data = marshal(changed)
	}
	outer.Safe.Data = marshal(infos)
	return marshal(outer)
}
