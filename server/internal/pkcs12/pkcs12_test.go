package pkcs12

import (
	"bytes"
	"encoding/asn1"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	file, err := os.ReadFile(filepath.Join(dir, "file.p12"))
	if err != nil {
		t.Fatal(err)
	}
	return file
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
			both, err := Read(file, c.passphrase)
			if err != nil {
				t.Fatal(err)
			}
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
func TestFilesThatAreOfNoUse(t *testing.T) {
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
		if _, err := Read(c.file, passphrase); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(good, "🔑"); err == nil || err.Error() != "the passphrase has a character that no such file can have" {
		t.Errorf("a passphrase with a character beyond U+FFFF: %v", err)
	}
}

// Kinds of bags, RFC 7292 appendix D.
var keyBag, certBag = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 1}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}

// without returns a file that is not encrypted, with each bag of a kind a number of times.
func without(t *testing.T, file []byte, kind asn1.ObjectIdentifier, times int) []byte {
	t.Helper()
	type data struct {
		Type    asn1.ObjectIdentifier
		Content []byte `asn1:"tag:0,explicit"`
	}
	var outer struct {
		Version int
		Safe    data
	}
	var infos []data
	read := func(der []byte, into any) {
		t.Helper()
		if _, err := asn1.Unmarshal(der, into); err != nil {
			t.Fatal(err)
		}
	}
	write := func(value any) []byte {
		t.Helper()
		der, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	read(file, &outer)
	read(outer.Safe.Content, &infos)
	for i := range infos {
		var bags, changed []asn1.RawValue
		read(infos[i].Content, &bags)
		for _, bag := range bags {
			var one struct {
				Kind  asn1.ObjectIdentifier
				Value asn1.RawValue
			}
			if _, err := asn1.Unmarshal(bag.FullBytes, &one); err == nil && one.Kind.Equal(kind) {
				for range times {
					changed = append(changed, bag)
				}
				continue
			}
			changed = append(changed, bag)
		}
		infos[i].Content = write(changed)
	}
	outer.Safe.Content = write(infos)
	return write(outer)
}
