package conform

import (
	"cmp"
	"crypto"
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
	"github.com/keywright/keywright/host/hosttest"
)

// algorithm returns the algorithm of a key: that of a configuration, or the one that is usual.
func (c *conformer) algorithm(f *abi.Field, config hosttest.Config) string {
	text, _ := config[f.AlgorithmField].(string)
	for _, field := range c.info.Fields {
		if field.Name == f.AlgorithmField {
			text = cmp.Or(text, field.Default, slices.Concat(field.Enum, []string{"HS256"})[0])
		}
	}
	return cmp.Or(text, "HS256")
}

// keySecret returns the name of the secret with a key for an algorithm.
func keySecret(algorithm string) string {
	switch algorithm = strings.ToUpper(algorithm); {
	case strings.HasPrefix(algorithm, "RS"), strings.HasPrefix(algorithm, "PS"):
		return "key_RS256"
	case strings.HasPrefix(algorithm, "H"):
		return "key_HS256"
	case algorithm == "ES384", algorithm == "ECDSA-P384-SHA384":
		return "key_ES384"
	case algorithm == "ES512":
		return "key_ES512"
	case strings.HasPrefix(algorithm, "E") && strings.Contains(algorithm, "256"):
		return "key_ES256"
	}
	return "key_EdDSA"
}

const certificateSecret = "certificate"

// keys makes a key of each kind, and a certificate, if a field wants one.
func (c *conformer) keys() error {
	if !slices.ContainsFunc(c.info.Fields, func(f abi.Field) bool { return f.Kind == abi.KindKey || f.Kind == abi.KindCertificate }) {
		return nil
	}
	making := hosttest.Collect(func(tb hosttest.TB) {
		h := hosttest.New(tb, "keys", c.module)
		for _, algorithm := range []string{"RS256", "ES256", "ES384", "ES512", "EdDSA", "HS256"} {
			name := keySecret(algorithm)
			h.Key(name, algorithm)
			c.secrets[name], _ = h.Render("{{ get_secret('" + name + "') }}") // it is there
		}
	})
	if texts := failures(making); len(texts) > 0 {
		return errors.New(texts[0])
	}
	var err error
	c.secrets[certificateSecret], err = certificate(c.secrets[keySecret("RS256")])
	return err
}

// certificate returns a certificate in PEM for a private key in PEM.
func certificate(key string) (string, error) {
	block, _ := pem.Decode([]byte(key))
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("making a certificate: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(4e9, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.(crypto.Signer).Public(), private)
	if err != nil {
		return "", fmt.Errorf("making a certificate: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
