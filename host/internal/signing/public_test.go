package signing_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/testworld"
)

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
