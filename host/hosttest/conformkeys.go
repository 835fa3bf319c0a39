package hosttest

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
)

// algorithm returns the algorithm of a key.
func (c *conformer) algorithm(f *abi.Field, config Config) string {
	if text, ok := config[f.AlgorithmField].(string); ok {
		return text
	}
	for _, other := range c.info.Fields {
		if other.Name == f.AlgorithmField {
			return append(slices.DeleteFunc([]string{other.Default}, func(text string) bool { return text == "" }), append(other.Enum, "HS256")...)[0]
		}
	}
	return "HS256"
}

// keyKinds has for each algorithm the kind of its key, as the name of an algorithm that [Harness.Key] knows.
var keyKinds = map[string]string{
	"RS1": "RS256", "rsa-v1_5-sha256": "RS256", "rsa-pss-sha512": "RS256", "ecdsa-p256-sha256": "ES256", "ecdsa-p384-sha384": "ES384",
	"ed25519": "EdDSA", "hmac-sha256": "HS256",
}

// keySecret returns the name of the secret with a key for an algorithm.
func keySecret(algorithm string) string {
	kind := algorithm
	if other, ok := keyKinds[algorithm]; ok {
		kind = other
	}
	switch kind[:min(2, len(kind))] {
	case "RS", "PS":
		kind = "RS256"
	case "HS":
		kind = "HS256"
	}
	return "key_" + kind
}

const certificateSecret = "certificate"

// keys makes a key of each kind that the fields want, and a certificate.
func (c *conformer) keys() error {
	tb := &Collector{}
	h := &Harness{tb: tb, secrets: c.secrets}
	for _, f := range c.info.Fields {
		switch f.Kind {
		case abi.KindKey:
			algorithms := []string{c.algorithm(&f, nil)}
			for _, other := range c.info.Fields {
				if other.Name == f.AlgorithmField {
					algorithms = append(algorithms, other.Enum...)
				}
			}
			for _, algorithm := range algorithms {
				if name := keySecret(algorithm); c.secrets[name] == "" {
					tb.Run(func() { h.Key(name, strings.TrimPrefix(name, "key_")) })
				}
			}
		case abi.KindCertificate:
			text, err := certificate()
			if err != nil {
				return err
			}
			c.secrets[certificateSecret] = text
		}
	}
	if texts := failuresOf(tb); len(texts) > 0 {
		return errors.New(texts[0])
	}
	return nil
}

// certificate returns a certificate in PEM for the RSA key.
func certificate() (string, error) {
	key, err := rsaKey()
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(4e9, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", fmt.Errorf("making a certificate: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
