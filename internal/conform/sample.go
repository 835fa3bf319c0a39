package conform

import (
	"cmp"
	"crypto"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

// integers returns values for an integer, of those that its description allows.
func integers(f *abi.Field) (all []any) {
	for _, n := range []int64{3600, 1, 0} {
		if f.Maximum != nil {
			n = min(n, *f.Maximum)
		}
		if f.Minimum != nil {
			n = max(n, *f.Minimum)
		}
		if !slices.Contains(all, any(n)) {
			all = append(all, n)
		}
	}
	return all
}

// secretOf is like secret, for a secret that a field names. Its text matches the pattern of the field.
func (c *conformer) secretOf(f *abi.Field, name string) {
	if f.Pattern != "" && c.secrets[name] == "" {
		c.secrets[name] = sample(f.Pattern, cryptorand.Text())
	}
	c.secret(name)
}

// sample returns a text that matches a pattern, of letters and digits where they match. It is random, and the same for a seed.
func sample(pattern, seed string) string {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil { // cannot happen, because the host has parsed the pattern
		return ""
	}
	var text strings.Builder
	writeSample(&text, tree, 24, rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed)))))
	return text.String()
}

// writeSample writes a text that matches a part of a pattern. It repeats a part up to times if that is allowed.
func writeSample(text *strings.Builder, tree *syntax.Regexp, times int, random *rand.Rand) {
	minTimes, maxTimes, partTimes := 1, 1, times
	switch tree.Op {
	case syntax.OpLiteral:
		text.WriteString(string(tree.Rune))
	case syntax.OpCharClass:
		if len(tree.Rune) > 0 { // else no character matches, as in [^\d\D]
			text.WriteRune(oneOf(tree.Rune, random))
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteRune(oneOf([]rune{'a', 'z'}, random))
	case syntax.OpAlternate:
		writeSample(text, tree.Sub[random.IntN(len(tree.Sub))], times, random)
		return
	case syntax.OpStar, syntax.OpPlus:
		maxTimes, partTimes = times, 1 // so that no text grows with each level
	case syntax.OpRepeat:
		minTimes, maxTimes, partTimes = tree.Min, tree.Max, 1
	}
	n := max(minTimes, times)
	if maxTimes >= 0 {
		n = min(n, maxTimes)
	}
	for range n {
		for _, part := range tree.Sub {
			writeSample(text, part, partTimes, random)
		}
	}
}

// oneOf returns a random character of a class: a letter or a digit if it has some, and otherwise its first.
func oneOf(class []rune, random *rand.Rand) rune {
	var usual []rune
	for _, char := range "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		for i := 0; i < len(class); i += 2 {
			if class[i] <= char && char <= class[i+1] {
				usual = append(usual, char)
			}
		}
	}
	if len(usual) == 0 {
		return class[0]
	}
	return usual[random.IntN(len(usual))]
}

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
	var err error
	for _, algorithm := range []string{"RS256", "ES256", "ES384", "ES512", "EdDSA", "HS256"} {
		if c.secrets[keySecret(algorithm)], _, err = testworld.NewKey(algorithm); err != nil {
			return err
		}
	}
	c.secrets[certificateSecret], err = certificate(c.secrets[keySecret("RS256")])
	return err
}

func certificate(key string) (string, error) {
	block, _ := pem.Decode([]byte(key))
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(4e9, 0)}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, private.(crypto.Signer).Public(), private)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), err
}
