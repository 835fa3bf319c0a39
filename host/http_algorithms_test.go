package host_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/sdk"
)

// httpSigner returns a guest with a key, and the configuration of a connector for it.
func httpSigner(algorithm string, authenticate func(contract.Env) (string, error), purposes ...string) (*guest, config) {
	g := &guest{
		about: abi.Description{Uses: []string{contract.GroupSign}, Fields: []abi.Field{
			{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: purposes, Derived: []string{abi.SinkHeader}},
			{Name: "algorithm", Kind: abi.KindString, Enum: append(sdk.HTTPSignatureAlgorithms(), sdk.Algorithms()...)},
		}},
		authenticate: authenticate,
	}
	return g, config{"key": "{{ get_secret('key') }}", "algorithm": algorithm}
}

// A key signs with the algorithm that the configuration names, by its name of RFC 9421 as by that of RFC 7518.
func TestAlgorithmsHaveTheirNamesOfHTTPMessageSignatures(t *testing.T) {
	const base = "\"@method\": GET\n\"@signature-params\": (\"@method\");created=1"
	names := map[string]string{
		"hmac-sha256": "HS256", "ed25519": "EdDSA", "ecdsa-p256-sha256": "ES256", "ecdsa-p384-sha384": "ES384",
		"rsa-pss-sha512": "PS512", "rsa-v1_5-sha256": "RS256",
	}
	if listed := sdk.HTTPSignatureAlgorithms(); len(listed) != len(names) {
		t.Errorf("the SDK lists %q", listed)
	}
	for _, name := range sdk.HTTPSignatureAlgorithms() {
		for _, algorithm := range []string{name, names[name]} {
			t.Run(algorithm, func(t *testing.T) {
				g, c := httpSigner(algorithm, func(env contract.Env) (string, error) {
					signature := env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeHTTPSignature, base))
					output, err := json.Marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Signature", Value: signature}}})
					return string(output), err
				}, contract.PurposeHTTPSignature)
				w := newWorld(t, withGuest(g), withoutBuiltIns)
				private, public := keyFor(t, names[name])
				w.setSecret("key", private)
				signature, err := base64.StdEncoding.DecodeString(w.get(w.connect("custom", c)).Header.Get("X-Signature"))
				if err != nil {
					t.Fatal(err)
				}
				if err := jws.Method(names[name]).Verify(base, signature, verifier(t, names[name], public)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// verifier returns the key that verifies, as golang-jwt takes it.
func verifier(t *testing.T, algorithm, public string) any {
	t.Helper()
	var key any
	var err error
	switch algorithm[:2] {
	case "HS":
		return []byte(public)
	case "ES":
		key, err = jwt.ParseECPublicKeyFromPEM([]byte(public))
	case "Ed":
		key, err = jwt.ParseEdPublicKeyFromPEM([]byte(public))
	default:
		key, err = jwt.ParseRSAPublicKeyFromPEM([]byte(public))
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The names of RFC 9421 are none for a JWT, whose header has the name.
func TestJWTsHaveNoAlgorithmsOfHTTPMessageSignatures(t *testing.T) {
	if slices.ContainsFunc(sdk.HTTPSignatureAlgorithms(), func(name string) bool { return jws.Method(name) != nil }) {
		t.Error("a name is that of a JWS algorithm")
	}
	g, c := httpSigner("ed25519", func(env contract.Env) (string, error) {
		return env.JWTSign([]byte(`{"key":"key","for":"header","claims":{}}`)), nil
	}, contract.PurposeJWT, contract.PurposeHTTPSignature)
	w := newWorld(t, withGuest(g), withoutBuiltIns)
	private, _ := keyFor(t, "EdDSA")
	w.setSecret("key", private)
	w.refuse(w.connect("custom", c), get(context.Background()), host.StageSign, "unknown algorithm")
}
