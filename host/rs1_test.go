package host_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// rs1Guest returns a guest with a key of the algorithm RS1 for all purposes.
func rs1Guest(do func(contract.Env) (string, error)) *guest {
	g := &guest{authenticate: do}
	g.about.Uses = []string{contract.GroupSign}
	g.about.Fields = []abi.Field{
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: contract.Purposes, Derived: []string{abi.SinkHeader}},
		{Name: "algorithm", Kind: abi.KindString, Enum: []string{contract.SignRS1}, Default: contract.SignRS1},
	}
	return g
}

// A plugin signs messages with RSA and SHA-1, as OAuth 1.0 needs it.
func TestSignaturesWithRS1(t *testing.T) {
	private, public := keyFor(t, "RS256")
	w := newWorld(t, withoutBuiltIns, withGuest(rs1Guest(func(env contract.Env) (string, error) {
		return header("X-Key", env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeMessage, "a message"))), nil
	})))
	w.setSecret("k", private)
	got := w.get(w.connect("custom", config{"key": "{{ get_secret('k') }}"}))
	signature, err := base64.StdEncoding.DecodeString(got.Header.Get("X-Key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(public))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum([]byte("a message"))
	if err := rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), crypto.SHA1, sum[:], signature); err != nil {
		t.Error(err)
	}
}

// A key with the algorithm RS1 signs messages only: no JWT (threats.md 36), and no signature base.
func TestRS1Limits(t *testing.T) {
	private, _ := keyFor(t, "RS256")
	for _, c := range []misuse{
		{"a JWT", func(env contract.Env) (string, error) {
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader})), nil
		}, host.StageSign, "unknown algorithm"},
		{"a JWT by sign_sealed", func(env contract.Env) (string, error) {
			return header("X-Key", env.SignSealed("key", contract.PurposeMessage, "eyJhbGciOiJSUzI1NiJ9.e30")), nil
		}, host.StagePlugin, "the form of a JWS"},
		{"a signature base", func(env contract.Env) (string, error) {
			return header("X-Key", env.SignSealed("key", contract.PurposeHTTPSignature, `"@signature-params": ()`)), nil
		}, host.StagePlugin, `RS1 signs for "message" only`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, withGuest(rs1Guest(c.do)))
			w.setSecret("k", private)
			w.refuse(w.connect("custom", config{"key": "{{ get_secret('k') }}"}), get(t.Context()), c.stage, c.words)
		})
	}
}
