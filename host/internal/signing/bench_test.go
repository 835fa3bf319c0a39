package signing_test

import (
	"crypto"
	"encoding/json"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
)

// BenchmarkJWT compares JWT with a Signer, which gets the text of the key as for every request, with golang-jwt, which gets
// the parsed key.
func BenchmarkJWT(b *testing.B) {
	k := keys()
	parsed := map[string]any{
		"HS256": []byte(hmacText), "HS384": []byte(hmacText), "HS512": []byte(hmacText),
		"RS256": k.rsa2048, "RS384": k.rsa2048, "RS512": k.rsa2048,
		"PS256": k.rsa2048, "PS384": k.rsa2048, "PS512": k.rsa2048,
		"ES256": k.p256, "ES384": k.p384, "ES512": k.p521,
		"EdDSA": crypto.Signer(k.ed25519),
	}
	header := map[string]any{"kid": "2024-01"}
	claims := map[string]any{
		"iss": "client", "sub": "user@example.com", "aud": "https://api.example.com/",
		"iat": json.Number("1700000000"), "exp": json.Number("1700000180"),
	}
	signer := signing.New(20)
	for _, algorithm := range jws.Algorithms() {
		key := fitting(b)[algorithm].private
		b.Run(algorithm+"/signing", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := signJWT(signer, algorithm, key, header, claims); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(algorithm+"/golang-jwt", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims(claims))
				token.Header["kid"] = "2024-01"
				testworld.Must(token.SignedString(parsed[algorithm]))(b)
			}
		})
	}
}
