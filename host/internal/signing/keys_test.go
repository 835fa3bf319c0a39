package signing_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
)

// Of all kinds of keys, each algorithm signs only with those that fit (threats.md 36, 37, 35a, specification.md "RSA under
// 2048 bits"). An RSA key beyond 8,192 bits is refused before it is parsed, which takes seconds. A tenant's bad key is checked again
// for each request, because only good keys are kept (threats.md 3).
func TestOnlyFittingKeysSign(t *testing.T) {
	k := keys()
	var (
		rsaFamily  = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		hmacFamily = []string{"HS256", "HS384", "HS512"}
		none       []string
	)
	ecParameters := encodePEM("EC PARAMETERS", []byte{6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7})
	legacyEncrypted := string(pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: randomBytes(64),
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00112233445566778899AABBCCDDEEFF"},
	}))
	tests := []struct {
		name    string
		key     string
		signs   []string // the algorithms that take the key
		problem string   // a part of the error of other algorithms; those of HMAC refuse all PEM
	}{
		{"shared secret", hmacText, hmacFamily, "is not PEM, nor a JWK"},
		{"shared secret that is binary", "\x00\xff\xfe" + hmacText, hmacFamily, "is not PEM, nor a JWK"},
		{"empty", "", none, "is empty or blank"},
		{"blank", " \t\r\n\u00a0 ", none, "is empty or blank"},
		{"garbage", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", hmacFamily, "is not PEM, nor a JWK"},

		{"RSA 1024", pkcs8(k.rsa1024), none, "is an RSA key of 1024 bits"},
		{"RSA 512, PKCS #1", encodePEM("RSA PRIVATE KEY", rsaOfSize(512)), none, "is an RSA key of 512 bits"},
		{"RSA 2047, PKCS #1", encodePEM("RSA PRIVATE KEY", rsaOfSize(2047)), none, "is an RSA key of 2047 bits"},
		{"RSA 2048, PKCS #8", pkcs8(k.rsa2048), rsaFamily, "is an RSA key: an E"},
		{"RSA 2048, PKCS #1", pkcs1(k.rsa2048), rsaFamily, "is an RSA key: an E"},
		{"RSA 2048 for RSASSA-PSS", pssOnly(k.rsa2048), []string{"PS256", "PS384", "PS512"}, "is an RSA key"},
		{"RSA 1024 for RSASSA-PSS", pssOnly(k.rsa1024), none, "is an RSA key of 1024 bits"},
		{"RSA 3072", pkcs8(k.rsa3072), rsaFamily, "is an RSA key: an E"},
		{"RSA 8192, PKCS #1, that is parsed", encodePEM("RSA PRIVATE KEY", rsaOfSize(8192)), none, "is damaged"}, // it has a modulus and nothing else
		{"RSA 8193, PKCS #1", encodePEM("RSA PRIVATE KEY", rsaOfSize(8193)), none, "is an RSA key of 8193 bits: from 2048 to 8192 are allowed"},
		{"RSA 16448, PKCS #1", encodePEM("RSA PRIVATE KEY", rsaOfSize(16448)), none, "is an RSA key of 16448 bits"},
		{"RSA 4,000,000", encodePEM("RSA PRIVATE KEY", rsaOfSize(4_000_000)), none, "is longer than 16384 bytes"},
		{"RSA modulus only", encodePEM("RSA PRIVATE KEY", rsaOfSize(2048)), none, "is damaged, or of an unknown kind"},

		{"EC P-224", pkcs8(k.p224), none, "is an EC key on P-224: "},
		{"EC P-256, PKCS #8", pkcs8(k.p256), []string{"ES256"}, "is an EC key on P-256: "},
		{"EC P-256, SEC 1", sec1(k.p256), []string{"ES256"}, "is an EC key on P-256: "},
		{"EC P-256 after its parameters", ecParameters + sec1(k.p256), []string{"ES256"}, "is an EC key on P-256: "},
		{"EC P-384", pkcs8(k.p384), []string{"ES384"}, "is an EC key on P-384: "},
		{"EC P-521", sec1(k.p521), []string{"ES512"}, "is an EC key on P-521: "},
		{"EC secp256k1", encodePEM("EC PRIVATE KEY", k.secp256k1), none, "of an unknown kind"},
		{"Ed25519", pkcs8(k.ed25519), []string{"EdDSA"}, "is an Ed25519 key: "},
		{"Ed448", encodePEM("PRIVATE KEY", k.ed448), none, "of an unknown kind"},
		{"X25519", pkcs8(k.x25519), none, "is an X25519 key, which cannot sign: "},

		{"RSA on one line", oneLine(pkcs8(k.rsa2048)), rsaFamily, "is an RSA key: "},
		{"EC on one line with CR LF", strings.ReplaceAll(sec1(k.p256), "\n", `\r\n`), []string{"ES256"}, "is an EC key"},
		{"EC after its parameters on one line", oneLine(ecParameters + sec1(k.p256)), []string{"ES256"}, "is an EC key"},
		{"RSA with CR LF", strings.ReplaceAll(pkcs8(k.rsa2048), "\n", "\r\n"), rsaFamily, "is an RSA key: "},
		{"Ed25519 with blanks around", "\n  " + pkcs8(k.ed25519) + " \n", []string{"EdDSA"}, "is an Ed25519 key: "},
		{"Ed25519 in 16384 bytes", strings.Repeat(" ", 16384-len(pkcs8(k.ed25519))) + pkcs8(k.ed25519), []string{"EdDSA"}, "is an Ed25519 key: "},
		{"RSA, PKCS #8 that is called PKCS #1", strings.ReplaceAll(pkcs8(k.rsa2048), "PRIVATE", "RSA PRIVATE"), rsaFamily, "is an RSA key: "},
		{"EC with text before", "Key Attributes: none\n" + pkcs8(k.p256), []string{"ES256"}, "is an EC key"},

		{"public RSA", publicKey(k.rsa2048.Public()), none, "is a public key"},
		{"public RSA on one line", oneLine(publicKey(k.rsa2048.Public())), none, "is a public key"},
		{"public RSA, PKCS #1", encodePEM("RSA PUBLIC KEY", randomBytes(40)), none, "is a public key"},
		{"public EC", publicKey(k.p256.Public()), none, "is a public key"},
		{"public Ed25519", publicKey(k.ed25519.Public()), none, "is a public key"},
		{"certificate", certificate(k.rsa2048), none, "is a certificate"},
		{"certificate and key", certificate(k.rsa2048) + pkcs8(k.rsa2048), none, "has more than one PEM block"},
		{"two keys", pkcs8(k.rsa2048) + pkcs8(k.rsa3072), none, "has more than one PEM block"},
		{"encrypted, PKCS #8", encodePEM("ENCRYPTED PRIVATE KEY", randomBytes(64)), none, "is encrypted"},
		{"encrypted, PKCS #1", legacyEncrypted, none, "is encrypted"},
		{"encrypted, PKCS #1, on one line", oneLine(legacyEncrypted), none, "is encrypted"},
		{"OpenSSH", encodePEM("OPENSSH PRIVATE KEY", randomBytes(64)), none, "is in OpenSSH's own format"},
		{"parameters without a key", ecParameters, none, "is damaged PEM"},
		{"message", encodePEM("PGP MESSAGE", randomBytes(64)), none, "is PEM, but no private key"},
		{"key of noise", encodePEM("PRIVATE KEY", append([]byte{0}, randomBytes(299)...)), none, "is damaged"},
		{"key with its end cut off", pkcs8(k.rsa2048)[:900], none, "is damaged PEM"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			signer := signing.New(100)
			for _, algorithm := range jws.Algorithms() {
				signature, _, err := signer.Sign(algorithm, test.key, "eyJhbGciOiJYIn0.e30")
				if slices.Contains(test.signs, algorithm) {
					if err != nil || len(signature) == 0 {
						t.Errorf("%s does not sign: %v", algorithm, err)
					}
					continue
				}
				if err == nil {
					t.Errorf("%s signs", algorithm)
					continue
				}
				problem := test.problem
				if strings.HasPrefix(algorithm, "HS") && strings.Contains(test.key, "-----") {
					problem = "is PEM: a shared secret is needed"
				}
				var keyError *signing.KeyError
				if !errors.As(err, &keyError) || keyError.Algorithm != algorithm || !strings.Contains(keyError.Problem, problem) {
					t.Errorf("%s says %v, want a KeyError with %q", algorithm, err, problem)
				}
				if !strings.Contains(err.Error(), algorithm) || leaks(err.Error(), test.key) {
					t.Errorf("the error does not name %s, or holds some of the key: %v", algorithm, err)
				}
			}
		})
	}
}

// leaks reports whether text contains eight consecutive bytes of a key, without the first and the last line of PEM.
func leaks(text, key string) bool {
	for line := range strings.SplitSeq(strings.ReplaceAll(key, `\n`, "\n"), "\n") {
		if strings.HasPrefix(line, "-----") {
			continue
		}
		for i := 0; i+8 <= len(line); i++ {
			if strings.Contains(text, line[i:i+8]) {
				return true
			}
		}
	}
	return false
}

// An HMAC key shorter than the hash signs, with a warning (specification.md "HS key shorter than the hash").
func TestShortSharedSecretWarns(t *testing.T) {
	tests := []struct {
		algorithm string
		length    int
		warning   string
	}{
		{"HS256", 31, "HS256 key is shorter than 32 bytes"},
		{"HS256", 32, ""},
		{"HS384", 47, "HS384 key is shorter than 48 bytes"},
		{"HS384", 48, ""},
		{"HS512", 63, "HS512 key is shorter than 64 bytes"},
		{"HS512", 64, ""},
		{"HS512", 1, "HS512 key is shorter than 64 bytes"},
	}
	signer := signing.New(1)
	for _, test := range tests {
		key := strings.Repeat("k", test.length)
		for range 2 { // the second call warns too
			signature, warning, err := signer.Sign(test.algorithm, key, "x")
			if err != nil || len(signature) == 0 || warning != test.warning {
				t.Errorf("%s with %d bytes: warning %q, error %v, want %q", test.algorithm, test.length, warning, err, test.warning)
			}
		}
	}
}

// Any name except those of the 13 algorithms is refused (specification.md "algorithm").
func TestUnknownAlgorithm(t *testing.T) {
	signer := signing.New(1)
	for _, algorithm := range []string{"", "none", "None", "NONE", "hs256", "Hs256", "RS2", "ES256K", "EDDSA", "Ed25519", "HS256 ", "PS256\n"} {
		if _, _, err := signer.Sign(algorithm, hmacText, ""); !errors.Is(err, signing.ErrAlgorithm) {
			t.Errorf("Sign with %q: %v, want ErrAlgorithm", algorithm, err)
		}
		if _, err := signJWT(signer, algorithm, hmacText, nil, nil); !errors.Is(err, signing.ErrAlgorithm) {
			t.Errorf("JWT with %q: %v, want ErrAlgorithm", algorithm, err)
		}
	}
	if n := len(jws.Algorithms()); n != 13 {
		t.Errorf("there are %d algorithms, want 13", n)
	}
}

// The JWK of a private key is that of RFC 8037 appendix A.2, and its thumbprint that of appendix A.3.
func TestPublicJWK(t *testing.T) {
	seed := testworld.Must(base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))(t)
	jwk, err := signing.New(1).PublicJWK("EdDSA", pkcs8(ed25519.NewKeyFromSeed(seed)))
	if want := `{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`; err != nil || jwk != want {
		t.Errorf("the JWK is %s, %v", jwk, err)
	}
	if got, want := signing.Thumbprint(jwk), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("the thumbprint is %s", got)
	}
}

// Sign signs with RSASSA-PKCS1-v1_5 and SHA-1 (RFC 8812 section 2), for OAuth 1.0.
func TestRS1(t *testing.T) {
	key := keys().rsa2048
	signer := signing.New(4)
	for _, text := range []string{pkcs8(key), pkcs1(key), oneLine(pkcs8(key))} {
		signature, warning, err := signer.Sign(contract.SignRS1, text, "GET&https%3A%2F%2Fapi.test%2F&a%3Db")
		if err != nil || warning != "" {
			t.Fatalf("warning %q, error %v", warning, err)
		}
		sum := sha1.Sum([]byte("GET&https%3A%2F%2Fapi.test%2F&a%3Db"))
		testworld.Check(t, rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA1, sum[:], signature))
	}
	jwk, err := signer.PublicJWK(contract.SignRS1, pkcs8(key))
	if want, wantErr := signer.PublicJWK("RS256", pkcs8(key)); err != nil || wantErr != nil || jwk != want {
		t.Errorf("the public half is %s, %v, not %s, %v", jwk, err, want, wantErr)
	}
}

// RS1 has the rules of the other RSA algorithms for keys.
func TestRS1Refuses(t *testing.T) {
	k := keys()
	for text, want := range map[string]string{
		pkcs8(k.rsa1024): "1024 bits", pkcs8(k.p256): "an RSA key is needed", hmacText: "is not PEM", " ": "is empty or blank",
	} {
		var wrong *signing.KeyError
		_, _, err := signing.New(1).Sign(contract.SignRS1, text, "data")
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || wrong.Algorithm != contract.SignRS1 {
			t.Errorf("the error is %v, which does not say %q", err, want)
		}
	}
}

// No JWT is signed with RS1, because it is no algorithm of JWS.
func TestRS1SignsNoJWT(t *testing.T) {
	token, err := signJWT(signing.New(1), contract.SignRS1, pkcs8(keys().rsa2048), nil, map[string]any{"iss": "me"})
	if !errors.Is(err, signing.ErrAlgorithm) || token != "" {
		t.Errorf("token = %q, err = %v", token, err)
	}
	if jws.Method(contract.SignRS1) != nil {
		t.Error("package jws knows it")
	}
}

// A message whose sealed value an API may have chosen is signed only if the text in front of that excludes other protocols. A
// header of a JWS consists of these characters, and decoders skip padding and line breaks (threats.md 101).
func TestTextInFrontOfASealedValue_threats_101(t *testing.T) {
	const open = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=\r\n"
	for r := range rune(0x100) {
		problem := signing.CheckPurpose(contract.PurposeMessage, "a"+string(r)+"SEALED", "a"+string(r))
		if refused := problem != ""; refused != strings.ContainsRune(open, r) {
			t.Errorf("%q in front of a sealed value: %q", r, problem)
		}
	}
	for _, begin := range []string{"", " ", `"`, `"a/`, strings.Repeat(" ", 63), "/", "$e$", "ey A:", "e yJ/", "?77", "//", "/v8A?", "A:A:"} {
		if signing.CheckPurpose(contract.PurposeMessage, begin+"SEALED", begin) == "" {
			t.Errorf("%q in front of a sealed value is enough", begin)
		}
	}
}

// A key for HTTP signatures signs nothing but a signature base, each of whose lines has a name in quotes, a colon and a space
// (RFC 9421 section 2.5, threats.md 85).
func TestLinesOfASignatureBase_threats_85(t *testing.T) {
	const last = "\n\"@signature-params\": ()"
	for line, fits := range map[string]bool{
		`"a": 1`: true, `"a";sf: 1`: true, `"a": `: true,
		`a": 1`: false, `"a: 1`: false, `"": 1`: false, `"a" 1`: false, `"a":1`: false, `"a"`: false, `"a`: false, `a: 1`: false, ``: false, `": 1`: false,
	} {
		if got := signing.CheckPurpose(contract.PurposeHTTPSignature, line+last, line+last); (got == "") != fits {
			t.Errorf("%s: got = %q", line, got)
		}
	}
}

// threats.md 560: libraries that skip characters of no alphabet, as those of Python and PHP do, or read JSON in UTF-16 or behind a byte order
// mark, find no JWS in what is signed for another purpose.
func TestFormsOfAJWS_threats_560(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	utf16 := func(text string) (wide string) {
		for _, r := range text {
			wide += string(r) + "\x00"
		}
		return wide
	}
	const header = `{"alg":"RS256"}`
	token := encode([]byte(header))
	for name, first := range map[string]string{
		"as it is": token, "a sign within": token[:2] + "!" + token[2:], "a sign in front": "$" + token, "spaces": " e y\tJ" + token[3:], "quotes": `"` + token + `"`,
		"another alphabet": strings.ReplaceAll(encode([]byte(`{"a":"?>?"}`)), "_", "/"), "padding within": token[:4] + "==" + token[4:], "a letter beyond ASCII": token[:3] + "é" + token[3:],
		"a byte order mark": encode([]byte("\ufeff" + header)), "UTF-16": encode([]byte(utf16(header))), "its mark": encode([]byte("\xff\xfe" + utf16(header))),
		"UTF-16, the other way": encode([]byte("\x00" + utf16(header))), "white space": encode([]byte(" \n{ \r" + header[1:])), "a number of no JSON": encode([]byte(`{"alg":"RS256","a":NaN}`)), "nothing": encode([]byte("{}")),
	} {
		if problem := signing.CheckPurpose(contract.PurposeMessage, first+".e30", first+".e30"); !strings.Contains(problem, "the form of a JWS") {
			t.Errorf("%s: the problem is %q", name, problem)
		}
		base := `"` + first + `": .e30` + "\n\"@signature-params\": ()"
		if problem := signing.CheckPurpose(contract.PurposeHTTPSignature, base, base); !strings.Contains(problem, "the form of a JWS") {
			t.Errorf("%s as a component: the problem is %q", name, problem)
		}
	}
	for _, message := range []string{"e7ab5c.1700000000.{}", "eyes.e30", "POST\n/v1.0/x\n", "ewe.x", "{\"a\":1.5}", encode([]byte(`["a"]`)) + ".e30"} {
		if problem := signing.CheckPurpose(contract.PurposeMessage, message, message); problem != "" {
			t.Errorf("%q: the problem is %q", message, problem)
		}
	}
}
