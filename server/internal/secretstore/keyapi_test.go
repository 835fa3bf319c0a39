package secretstore_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// keyAPI returns a service whose key is public, and which signs by answering sign.
func keyAPI(public string, sign func(body string) (int, string)) secretstore.KeyAPI {
	return secretstore.KeyAPI{
		ID: "json:/kid", DER: true, Clock: time.Now,
		Algorithms: secretstore.Families{ES: "EC-", RS: "RSA-"},
		Public:     secretstore.Request{Path: "/{name}", From: "json:/key", Missing: []string{"404"}},
		Signature:  secretstore.Request{Path: "/{name}/{id}", Body: `{"alg":"{algorithm}","{hash}":"{digest}"}`, From: "json:/signature", Missing: []string{"404"}},
		Service: secretstore.Service{URL: "https://keys.test", Timeout: time.Minute, Transport: exchangeFunc(func(r *http.Request) (int, string) {
			if r.Body == nil {
				return 200, `{"kid":"https://keys.test/orders/v-7","key":` + public + `}`
			}
			var body json.RawMessage
			if r.URL.Path != "/orders/v-7" || json.NewDecoder(r.Body).Decode(&body) != nil {
				return 500, ""
			}
			return sign(string(body))
		})},
	}
}

// A service signs digests by its own names of algorithms. ECDSA signatures come in the form of RFC 7518.
func TestKeysOfAPIs(t *testing.T) {
	ec := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	private := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	data := []byte("what is signed")
	digest := sha256.Sum256(data)
	encode := base64.RawURLEncoding.EncodeToString
	point := testworld.Must(ec.PublicKey.Bytes())(t)
	for _, c := range []struct {
		name, public, algorithm, body string
		key                           crypto.Signer
	}{
		{"a JWK of an EC key", `{"kty":"EC-HSM","crv":"P-256","x":"` + encode(point[1:33]) + `","y":"` + encode(point[33:]) + `"}`, "ES256", `{"alg":"EC-256","sha256":"`, ec},
		{"a JWK of an RSA key", `{"kty":"RSA","e":"AQAB","n":"` + encode(private.N.Bytes()) + `"}`, "RS256", `{"alg":"RSA-256","sha256":"`, private},
		{"DER", `"` + publicDER(t, ec.Public()) + `"`, "ES256", `{"alg":"EC-256","sha256":"`, ec},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := secretstore.Keys(keyAPI(c.public, func(body string) (int, string) {
				if want := c.body + base64.StdEncoding.EncodeToString(digest[:]) + `"}`; body != want {
					t.Errorf("the body is %s, want %s", body, want)
				}
				signature := testworld.Must(c.key.Sign(rand.Reader, digest[:], crypto.SHA256))(t)
				return 200, `{"signature":"` + base64.StdEncoding.EncodeToString(signature) + `"}`
			}))
			info := testworld.Must(store.Describe(t.Context(), host.Key{Name: "orders"}))(t)
			if same, ok := info.Public.(interface{ Equal(crypto.PublicKey) bool }); !ok || !same.Equal(c.key.Public()) {
				t.Errorf("the public half is %v", info.Public)
			}
			signature, version, err := store.Sign(t.Context(), host.Key{Name: "orders"}, c.algorithm, data)
			testworld.Check(t, err)
			valid := false
			switch public := c.key.Public().(type) {
			case *ecdsa.PublicKey:
				valid = len(signature) == 64 && ecdsa.VerifyASN1(public, digest[:], inDER(signature))
			case *rsa.PublicKey:
				valid = rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature) == nil
			}
			if !valid || version != 0 {
				t.Errorf("the signature of version %d is not valid", version)
			}
		})
	}
}

// A service that does not sign is an error, which has nothing of the answer.
func TestFailuresOfKeyAPIs(t *testing.T) {
	const canary = "c4n4ry-of-the-service"
	ec := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	good := `"` + publicDER(t, ec.Public()) + `"`
	bad := testworld.Must(x509.MarshalPKIXPublicKey(ec.Public()))(t)
	bad[len(bad)-1] ^= 1 // of y
	for _, c := range []struct {
		name, public, algorithm string
		key                     host.Key
		status                  int
		answer, want            string
		is                      error
	}{
		{"no such algorithm", good, "EdDSA", host.Key{Name: "orders"}, 0, "", "no algorithm EdDSA", host.ErrKeyRefused},
		{"an HMAC", good, "HS256", host.Key{Name: "orders"}, 0, "", "no algorithm HS256", host.ErrKeyRefused},
		{"no name", good, "ES256", host.Key{Name: "../orders"}, 0, "", "not a key's name", host.ErrKeyNotFound},
		{"a version where there is none", good, "ES256", host.Key{Name: "orders", Version: 2}, 0, "", "name none", host.ErrKeyNotFound},
		{"no public half", `"` + canary + `"`, "ES256", host.Key{Name: "orders"}, 0, "", "no public half", host.ErrKeyRefused},
		{"a point beside the curve", `{"kty":"EC","crv":"P-256","x":"AQ","y":"Ag"}`, "ES256", host.Key{Name: "orders"}, 0, "", "no public half", host.ErrKeyRefused},
		{"one in DER", `"` + base64.StdEncoding.EncodeToString(bad) + `"`, "ES256", host.Key{Name: "orders"}, 200, `{"signature":"MAYCAQECAQE="}`, "no public half", host.ErrKeyRefused},
		{"a refusal", good, "ES256", host.Key{Name: "orders"}, 400, canary, "refuses to use it (400)", host.ErrKeyRefused},
		{"a key that is gone", good, "ES256", host.Key{Name: "orders"}, 404, canary, "none of that name", host.ErrKeyNotFound},
		{"too many requests to AWS", good, "ES256", host.Key{Name: "orders"}, 400, `{"__type":"ThrottlingException","message":"` + canary + `"}`, "too many requests", nil},
		{"an error", good, "ES256", host.Key{Name: "orders"}, 503, canary, "status 503", nil},
		{"no signature", good, "ES256", host.Key{Name: "orders"}, 200, `{"sig":"` + canary + `"}`, "no signature", nil},
		{"a signature that is not DER", good, "ES256", host.Key{Name: "orders"}, 200, `{"signature":"AAAA"}`, "no signature in the form", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := secretstore.Keys(keyAPI(c.public, func(string) (int, string) { return c.status, c.answer }))
			_, _, err := store.Sign(t.Context(), c.key, c.algorithm, []byte("data"))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) || c.is != nil && !errors.Is(err, c.is) || c.is == nil && errors.Is(err, host.ErrKeyRefused) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func publicDER(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(testworld.Must(x509.MarshalPKIXPublicKey(key))(t))
}

// inDER returns an ECDSA signature of RFC 7518 in DER.
func inDER(signature []byte) []byte {
	half := len(signature) / 2
	der, _ := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:])})
	return der
}
