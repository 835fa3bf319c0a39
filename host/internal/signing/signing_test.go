package signing_test

import (
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

func unbase64(text string) []byte {
	return must(base64.RawURLEncoding.DecodeString(text))
}

// Sign returns the signatures of the examples in the RFCs, if they are deterministic.
func TestRFCExamples(t *testing.T) {
	joe := "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	p := new(big.Int).SetBytes(unbase64("4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9" +
		"AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc"))
	q := new(big.Int).SetBytes(unbase64("uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6" +
		"ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc"))
	one := big.NewInt(1)
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	rsaKey := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537},
		D:         new(big.Int).ModInverse(big.NewInt(65537), phi),
		Primes:    []*big.Int{p, q},
	}
	tests := []struct{ name, algorithm, key, data, signature string }{
		{
			"RFC 7515 A.1", "HS256",
			string(unbase64("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")),
			"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + joe,
			"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
		},
		{
			"RFC 7515 A.2", "RS256", pkcs8(rsaKey), "eyJhbGciOiJSUzI1NiJ9." + joe,
			"cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU" +
				"Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO-" +
				"-xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_I" +
				"oypGlUPQGe77Rw",
		},
		{
			"RFC 8037 A.4", "EdDSA",
			pkcs8(ed25519.NewKeyFromSeed(unbase64("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))),
			"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
			"hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
		},
	}
	signer := signing.New(10)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			signature, warning, err := signer.Sign(test.algorithm, test.key, test.data)
			if err != nil || warning != "" {
				t.Fatalf("warning %q, error %v", warning, err)
			}
			if got := base64.RawURLEncoding.EncodeToString(signature); got != test.signature {
				t.Errorf("signature %s, want %s", got, test.signature)
			}
		})
	}
}

// MAC returns the results of RFC 4231, sections 4.3 (test case 2) and 4.7 (test case 6, a key longer than a block).
func TestMAC(t *testing.T) {
	const question = "what do ya want for nothing?"
	for _, test := range []struct{ algorithm, key, data, want string }{
		{contract.MACSHA256, "Jefe", question, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{contract.MACSHA384, "Jefe", question, "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"},
		{
			contract.MACSHA512, "Jefe", question,
			"164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
		},
		{
			contract.MACSHA256, strings.Repeat("\xaa", 131), "Test Using Larger Than Block-Size Key - Hash Key First",
			"60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
		},
	} {
		mac := testworld.Must(signing.NewMAC(test.algorithm, []byte(test.key)))(t)
		mac.Write([]byte(test.data))
		if got := hex.EncodeToString(mac.Sum(nil)); got != test.want {
			t.Errorf("%s of %q: %s, want %s", test.algorithm, test.data, got, test.want)
		}
	}
}

// NewMAC refuses blank keys and unknown algorithms (threats.md 35a).
func TestMACRefuses(t *testing.T) {
	for _, key := range []string{"", " ", "\t\n"} {
		var keyError *signing.KeyError
		if _, err := signing.NewMAC(contract.MACSHA256, []byte(key)); !errors.As(err, &keyError) {
			t.Errorf("key %q: %v, want a KeyError", key, err)
		}
	}
	for _, algorithm := range []string{"", "RS256", "hs256", "SHA256"} {
		if _, err := signing.NewMAC(algorithm, []byte(hmacText)); !errors.Is(err, signing.ErrMACAlgorithm) {
			t.Errorf("algorithm %q: %v, want ErrMACAlgorithm", algorithm, err)
		}
	}
}

// Goroutines can share a Signer, even with more keys than it keeps. Run it with -race.
func TestConcurrentUse(t *testing.T) {
	signer := signing.New(2)
	pairs := fitting(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for algorithm, pair := range pairs {
				if _, err := signJWT(signer, algorithm, pair.private, nil, map[string]any{"iss": "me"}); err != nil {
					t.Errorf("%s: err = %v", algorithm, err)
				}
			}
		})
	}
	wg.Wait()
}
