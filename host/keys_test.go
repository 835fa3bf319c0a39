package host_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

// Keys that sign for a purpose, and keys that the host makes.

// hashing is the configuration of a connector of keysWorld.
var hashing = config{"hashed": "{{ get_secret('s') }}", "to_header": "{{ get_secret('s') }}"}

// keysWorld returns a world whose guest does do, and has a key that the host makes.
func keysWorld(t *testing.T, purposes []string, do func(contract.Env) (string, error)) (*world, *host.Connector) {
	t.Helper()
	g := &guest{about: abi.Description{Uses: contract.Groups, Anonymous: true, Fields: []abi.Field{
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Generate: true, Purposes: purposes, Derived: []string{contract.SinkHeader}},
		{Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "ES256"},
		{Name: "certificate", Kind: abi.KindCertificate},
		sealedField("hashed", contract.SinkDigest), sealedField("to_header", contract.SinkHeader),
	}}, authenticate: do}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	return w, w.connect("custom", hashing)
}

// The signature of a generated key verifies with the public key that the guest gets.
func TestAGeneratedKeySigns(t *testing.T) {
	const base = "\"@method\": GET\n\"@signature-params\": (\"@method\");keyid=\"k\""
	document := ""
	w, connector := keysWorld(t, []string{contract.PurposeHTTPSignature}, func(env contract.Env) (string, error) {
		document = env.PublicKey("key", contract.PublicJWK)
		signature := env.SignSealed("key", contract.PurposeHTTPSignature, base)
		return header("X-Signature", env.Encode(contract.FormatBase64, signature)), nil
	})
	signature, err := base64.StdEncoding.DecodeString(w.get(connector).Header.Get("X-Signature"))
	if err != nil || len(signature) != 64 {
		t.Fatalf("%d bytes, %v", len(signature), err)
	}
	var jwk struct{ Crv, Kty, X, Y string }
	if err := json.Unmarshal([]byte(document), &jwk); err != nil || jwk.Crv != "P-256" || jwk.Kty != "EC" {
		t.Fatalf("%s: err = %v", document, err)
	}
	point := []byte{4} // uncompressed
	for _, coordinate := range []string{jwk.X, jwk.Y} {
		b := must(base64.RawURLEncoding.DecodeString(coordinate))(t)
		point = append(point, b...)
	}
	public := must(ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point))(t)
	sum := sha256.Sum256([]byte(base))
	if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		t.Error("the signature does not verify")
	}
}

// A generated key is the same in every call of a connector, and another one in any other (threats.md 89).
func TestAGeneratedKeyBelongsToItsConnector(t *testing.T) {
	thumbprint := ""
	w, connector := keysWorld(t, nil, sendsKeyAfter(func(env contract.Env) {
		thumbprint = env.PublicKey("key", contract.PublicThumbprint)
		env.TimeNow() // keeps the mutation from being used again
	}))
	seen := map[string]bool{}
	of := func(c *host.Connector) string {
		w.get(c)
		seen[thumbprint] = true
		return thumbprint
	}
	first := of(connector)
	if again := of(connector); again != first || len(first) != 43 {
		t.Errorf("%s, then %s", first, again)
	}
	of(w.connectAs("other", "custom", hashing))
	of(w.connect("custom", with(hashing, "algorithm", "ES384")))
	of(w.connect("custom", with(hashing, "algorithm", "EdDSA")))
	w.setSecret("s", w.Secret("another secret"))
	of(connector)
	if len(seen) != 5 {
		t.Errorf("%d keys for 5 partitions", len(seen))
	}
}

// A key signs for the purposes of the description, and only data that has their form (threats.md 85).
func TestKeysSignForTheirPurposesOnly(t *testing.T) {
	jws := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + ".e30"
	both := []string{contract.PurposeHTTPSignature, contract.PurposeMessage}
	for name, c := range map[string]struct {
		purposes      []string
		purpose, data string
		words         string // of the error, or "" if it is signed
	}{
		"a message":                      {both, contract.PurposeMessage, "GET&https%3A%2F%2Fapi.test", ""},
		"an empty message":               {both, contract.PurposeMessage, "", ""},
		"a number and a body":            {both, contract.PurposeMessage, "1700000000.{}", ""},
		"a signature base":               {both, contract.PurposeHTTPSignature, "\"a\": 1\n\"@signature-params\": ()", ""},
		"a JWS":                          {both, contract.PurposeMessage, jws, "has the form of a JWS"},
		"a JWS without a payload":        {both, contract.PurposeMessage, strings.TrimSuffix(jws, "e30"), "has the form of a JWS"},
		"a JWS with any payload":         {both, contract.PurposeMessage, strings.TrimSuffix(jws, "e30") + "a.b c", "has the form of a JWS"},
		"a JWS with padding":             {both, contract.PurposeMessage, base64.URLEncoding.EncodeToString([]byte(`{"alg":"RS256"}a`[:15])) + "==.e30", "has the form of a JWS"},
		"an SSH signature":               {both, contract.PurposeMessage, "SSHSIG\x00", "has the form of an SSH signature"},
		"a TLS handshake":                {both, contract.PurposeMessage, strings.Repeat(" ", 64) + "TLS 1.3, client CertificateVerify", "has the form of a TLS handshake"},
		"a signature base as a message":  {both, contract.PurposeMessage, "\"@signature-params\": ()", "signature base"},
		"a message as a signature base":  {both, contract.PurposeHTTPSignature, "GET", "is no signature base"},
		"a base without parameters":      {both, contract.PurposeHTTPSignature, "\"a\": 1", "is no signature base"},
		"parameters that are not last":   {both, contract.PurposeHTTPSignature, "\"@signature-params\": ()\n\"a\": 1", "is no signature base"},
		"a secret where it may not be":   {both, contract.PurposeMessage, "HEADER", "its sinks"},
		"a secret where it may be":       {both, contract.PurposeMessage, "x HASHED", ""},
		"a base with a secret":           {both, contract.PurposeHTTPSignature, "\"a\": HASHED\n\"@signature-params\": ()", ""},
		"a base that a secret begins":    {both, contract.PurposeHTTPSignature, "HASHED\n\"@signature-params\": ()", "depending on a sealed value"},
		"a base as a message":            {both, contract.PurposeMessage, "x \"@signature-params\": HASHED", "signature base"},
		"a secret alone":                 {both, contract.PurposeMessage, "HASHED", "depending on a sealed value"},
		"a JWS with a secret":            {both, contract.PurposeMessage, strings.TrimSuffix(jws, "e30") + "HASHED", "has the form of a JWS"},
		"a number and a secret":          {both, contract.PurposeMessage, "1700000000.HASHED", ""},
		"what a JWS may begin with":      {both, contract.PurposeMessage, "eyJ\r\n-_HASHED", "depending on a sealed value"},
		"what an SSH signature may":      {both, contract.PurposeMessage, "SSHSHASHED", "depending on a sealed value"},
		"what a handshake may":           {both, contract.PurposeMessage, "    HASHED", "depending on a sealed value"},
		"what a signature base may":      {both, contract.PurposeMessage, `"a": HASHED`, "depending on a sealed value"},
		"a slash and a secret":           {both, contract.PurposeMessage, "/HASHED", "depending on a sealed value"},
		"a path and a secret":            {both, contract.PurposeMessage, "/v1/HASHED", ""},
		"a purpose that is not stated":   {both[:1], contract.PurposeMessage, "x", `does not list "message"`},
		"no purpose is stated":           {nil, contract.PurposeMessage, "x", `does not list "message"`},
		"a JWT by sign_sealed":           {[]string{contract.PurposeJWT}, contract.PurposeJWT, jws, "jwt_sign signs JWTs"},
		"an unknown purpose":             {both, "other", "x", `does not list "other"`},
		"a secret that ends the purpose": {both, "HASHED", "x", "only plain text"},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := keysWorld(t, c.purposes, func(env contract.Env) (string, error) {
				put := strings.NewReplacer("HASHED", value(env, "hashed"), "HEADER", value(env, "to_header"))
				signature := env.Encode(contract.FormatHex, env.SignSealed("key", put.Replace(c.purpose), put.Replace(c.data)))
				if strings.Contains(c.data, "HASHED") { // its derived sinks are its sinks, which have no header
					return header("X-Key", value(env, "to_header")), nil
				}
				return header("X-Signature", signature), nil
			})
			if c.words == "" {
				w.get(connector)
				return
			}
			w.refuse(connector, get(t.Context()), host.StagePlugin, c.words)
		})
	}
}

// A key that states other purposes does not sign JWTs.
func TestKeyPurposeRefusesJWT(t *testing.T) {
	w, connector := keysWorld(t, []string{contract.PurposeMessage}, func(env contract.Env) (string, error) {
		return header("Authorization", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader})), nil
	})
	w.refuse(connector, get(t.Context()), host.StagePlugin, `does not list "jwt"`)
}

// public_key returns the thumbprint and the chain of a certificate, and refuses what is none.
func TestThumbprintOfACertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	certificate := server.Certificate().Raw
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	sum := sha256.Sum256(certificate)
	for name, c := range map[string]struct{ text, words string }{
		"one":               {text, ""},
		"with its key":      {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" + text, ""},
		"on one line":       {strings.ReplaceAll(text, "\n", `\n`), ""},
		"no certificate":    {"hunter2hunter2", "has no certificate in PEM"},
		"damaged":           {strings.Replace(text, "MII", "MIJ", 1), "has a certificate, number 1, that cannot be parsed"},
		"none at all":       {"", "is not set"},
		"not the right PEM": {"-----BEGIN X-----\nAAAA\n-----END X-----", "has no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			got, chain := "", ""
			w, _ := keysWorld(t, nil, sendsKeyAfter(func(env contract.Env) {
				got, chain = env.PublicKey("certificate", contract.PublicX5T), env.PublicKey("certificate", contract.PublicX5C)
			}))
			given := hashing
			if c.text != "" {
				w.setSecret("certificate", c.text)
				given = with(hashing, "certificate", "{{ get_secret('certificate') }}")
			}
			connector := w.connect("custom", given)
			if c.words != "" {
				w.refuse(connector, get(t.Context()), host.StageSign, c.words)
				return
			}
			w.get(connector)
			if want := base64.RawURLEncoding.EncodeToString(sum[:]); got != want || chain != `["`+base64.StdEncoding.EncodeToString(certificate)+`"]` {
				t.Errorf("%s, want %s; the chain is %.60s", got, want, chain)
			}
		})
	}
}

// threats.md 340: a call makes 16 signatures, of whatever kind.
func TestACallSignsAFewTimesOnly(t *testing.T) {
	for name, sign := range map[string]func(env contract.Env){
		"sign_sealed": func(env contract.Env) { env.SignSealed("key", contract.PurposeMessage, "m") },
		"sign":        func(env contract.Env) { env.Sign("key", "m") },
		"jws_sign":    func(env contract.Env) { signJWS(env, contract.JWSRequest[config]{Payload: "m"}) },
		"jwt_sign": func(env contract.Env) {
			env.JWTSign([]byte(marshal(contract.JWTRequest[config]{Key: "key", For: contract.ForHeader, Claims: config{"iss": "me"}})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			g := storedGuest(func(env contract.Env) (string, error) {
				env.SignSealed("key", contract.PurposeMessage, "m")
				for made = 1; made < 100; made++ {
					sign(env)
				}
				return header("X", "y"), nil
			})
			w := newWorld(t, withoutBuiltIns, withGuest(g, abi.GrantSignRaw))
			w.setSecret("k", privateKey(t, "ES256"))
			w.setSecret("own", privateKey(t, "ES256"))
			w.refuse(w.connect("custom", config{"key": "{{ get_secret('k') }}", "jws": "{{ get_secret('own') }}"}), get(t.Context()), host.StagePlugin, "more than 16 signatures in one call")
			if made != 16 {
				t.Errorf("it made %d signatures", made)
			}
		})
	}
}

// A plugin signs messages with RSA and SHA-1, as OAuth 1.0 needs it.
func TestSignaturesWithRS1(t *testing.T) {
	w, c, public := keyGuestWorld(t, keyGuest(contract.SignRS1, func(env contract.Env) (string, error) {
		return header("X-Key", env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeMessage, "a message"))), nil
	}, notJWS...), "RS256")
	signature := must(base64.StdEncoding.DecodeString(w.get(c).Header.Get("X-Key")))(t)
	sum := sha1.Sum([]byte("a message"))
	check(t, rsa.VerifyPKCS1v15(public.(*rsa.PublicKey), crypto.SHA1, sum[:], signature))
}

// A key with the algorithm RS1 signs messages only: no JWT (threats.md 36), and no signature base.
func TestRS1Limits(t *testing.T) {
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
			w, connector, _ := keyGuestWorld(t, keyGuest(contract.SignRS1, c.do, notJWS...), "RS256")
			w.refuse(connector, get(t.Context()), c.stage, c.words)
		})
	}
}

// notJWS are the purposes that a key may have together.
var notJWS = []string{contract.PurposeJWT, contract.PurposeHTTPSignature, contract.PurposeMessage}

// keyGuest returns a guest with a key of an algorithm.
func keyGuest(algorithm string, do func(contract.Env) (string, error), purposes ...string) *guest {
	return &guest{
		about: abi.Description{Uses: []string{contract.GroupSign}, Fields: []abi.Field{
			{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Purposes: purposes, Derived: []string{contract.SinkHeader}},
			{Name: "algorithm", Kind: abi.KindString, Enum: []string{algorithm}, Default: algorithm, Algorithms: standsFor[algorithm]},
		}},
		authenticate: do,
	}
}

// keyGuestWorld returns a world with a keyGuest and its connector, and the key that verifies what it signs. It is one for the
// algorithm.
func keyGuestWorld(t *testing.T, g *guest, algorithm string) (w *world, c *host.Connector, public any) {
	t.Helper()
	w = newWorld(t, withoutBuiltIns, withGuest(g))
	private, public := keyFor(t, algorithm)
	w.setSecret("k", private)
	return w, w.connect("custom", config{"key": "{{ get_secret('k') }}"}), public
}

// standsFor has the Algorithms of the names of RFC 9421, of which each has its own.
var standsFor = func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, p := range sdk.HTTPSignatureAlgorithms() {
		all[p.Name] = map[string]string{p.Name: p.Value}
	}
	return all
}()

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
	for _, name := range sdk.Names(sdk.HTTPSignatureAlgorithms()) {
		for _, algorithm := range []string{name, names[name]} {
			t.Run(algorithm, func(t *testing.T) {
				w, c, public := keyGuestWorld(t, keyGuest(algorithm, func(env contract.Env) (string, error) {
					return header("X-Signature", env.Encode(contract.FormatBase64, env.SignSealed("key", contract.PurposeHTTPSignature, base))), nil
				}, contract.PurposeHTTPSignature), names[name])
				signature := must(base64.StdEncoding.DecodeString(w.get(c).Header.Get("X-Signature")))(t)
				check(t, jws.Method(names[name]).Verify(base, signature, public))
			})
		}
	}
}

// A JWT has the algorithm's name of RFC 7518 in its header, under whatever name a configuration knows it.
func TestJWTsHaveTheirNamesOfAlgorithms(t *testing.T) {
	if slices.ContainsFunc(sdk.Names(sdk.HTTPSignatureAlgorithms()), func(name string) bool { return jws.Method(name) != nil }) {
		t.Error("a name of RFC 9421 is that of a JWS algorithm")
	}
	w, c, _ := keyGuestWorld(t, keyGuest("ed25519", func(env contract.Env) (string, error) {
		return header("X-Key", env.JWTSign([]byte(`{"key":"key","for":"header","claims":{}}`))), nil
	}, contract.PurposeJWT, contract.PurposeHTTPSignature), "EdDSA")
	first, _, _ := strings.Cut(w.get(c).Header.Get("X-Key"), ".")
	if got := string(must(base64.RawURLEncoding.DecodeString(first))(t)); !strings.Contains(got, `"alg":"EdDSA"`) {
		t.Errorf("the header of the JWT is %s", got)
	}
}

// algorithms are the 13 algorithms of specification.md 3.17.
var algorithms = []string{
	"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA",
}

// keyFor returns a new key pair for an algorithm: the key that signs, as a text, and the key that verifies.
func keyFor(t *testing.T, algorithm string) (private string, public any) {
	t.Helper()
	private, public, err := testworld.NewKey(algorithm)
	check(t, err)
	return private, public
}

// signJWS signs with the key jws.
func signJWS(env contract.Env, r contract.JWSRequest[config]) string {
	r.Key = "jws"
	return env.JWSSign([]byte(marshal(r)))
}
