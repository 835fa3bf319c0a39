package hosttest

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// A secret is found in each of its forms, wherever it stands in an encoded text.
func TestFormsOfASecret(t *testing.T) {
	secrets := []string{"12345678", testworld.RandomSecret(), "a b\"c\\d<e>é\n", strings.Repeat("\xff/", 9)}
	for name, encode := range map[string]func(string) string{
		"plain":            func(s string) string { return s },
		"hex":              func(s string) string { return hex.EncodeToString([]byte(s)) },
		"HEX":              func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"base32":           func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) },
		"base64":           func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64, no =":     func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
		"base64url":        func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
		"base64url, no =":  func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		"query":            url.QueryEscape,
		"path":             url.PathEscape,
		"Go":               func(s string) string { return fmt.Sprintf("%q", s) },
		"JSON":             func(s string) string { document, _ := json.Marshal(s); return string(document) },
		"JSON in an error": func(s string) string { return fmt.Sprintf("bad document %s", mustJSON(s)) },
	} {
		for _, secret := range secrets {
			for before := range 5 {
				for after := range 5 {
					var e evidence
					e.secret("the secret", secret)
					e.text("a text", encode(strings.Repeat("<", before)+secret+strings.Repeat(">", after)))
					if len(e.leaks()) == 0 {
						t.Fatalf("%s: %q with %d bytes before and %d after it is not found", name, secret, before, after)
					}
				}
			}
		}
	}
}

func mustJSON(s string) []byte {
	document, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return document
}

// A single line of a PEM key is a leak. The first and the last line are no secret.
func TestLinesOfAKey(t *testing.T) {
	h := newHarness(t, "", host.Plugin{}, false)
	h.Key("key", "ES256")
	lines := strings.Split(h.secrets["key"], "\n")
	for text, leaks := range map[string]bool{
		lines[0]:                 false,
		lines[1]:                 true,
		lines[2][:20]:            false,
		"x" + lines[2] + "x":     true,
		"-----END PRIVATE KEY--": false,
	} {
		var e evidence
		e.secret("the key", strings.Join(lines, `\n`)) // the form of an environment variable
		e.text("a text", text)
		if got := e.leaks(); (len(got) != 0) != leaks {
			t.Errorf("%q: got = %q", text, got)
		}
	}
}

func TestShortTexts(t *testing.T) {
	var e evidence
	for _, short := range []string{"", "header", "1234567"} {
		e.secret("a short secret", short)
	}
	e.text("a text", "header 1234567")
	if got := e.leaks(); len(got) != 0 {
		t.Error(got)
	}
}
