package signing_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"errors"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
)

// Sign signs with RSASSA-PKCS1-v1_5 and SHA-1 (RFC 8812 section 2), for OAuth 1.0.
func TestRS1(t *testing.T) {
	key := keys().rsa2048
	signer := signing.New(4)
	for _, text := range []string{pkcs8(key), pkcs1(key), oneLine(pkcs8(key))} {
		signature, warning, err := signer.Sign(contract.SignRS1, text, []byte("GET&https%3A%2F%2Fapi.test%2F&a%3Db"))
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
		_, _, err := signing.New(1).Sign(contract.SignRS1, text, []byte("data"))
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || wrong.Algorithm != contract.SignRS1 {
			t.Errorf("the error is %v, which does not say %q", err, want)
		}
	}
}

// No JWT is signed with RS1, because it is no algorithm of JWS.
func TestRS1SignsNoJWT(t *testing.T) {
	token, _, err := signing.New(1).JWT(contract.SignRS1, pkcs8(keys().rsa2048), nil, map[string]any{"iss": "me"})
	if !errors.Is(err, signing.ErrAlgorithm) || token != "" {
		t.Errorf("token = %q, err = %v", token, err)
	}
	if jws.Method(contract.SignRS1) != nil {
		t.Error("package jws knows it")
	}
}
