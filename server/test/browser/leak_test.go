package browser

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// leaks returns the number and the encoding of each secret in text, without the secrets.
func (w *deployment) leaks(text string) []string {
	w.api.mu.Lock()
	secrets := slices.Clone(w.api.secrets)
	w.api.mu.Unlock()
	return leaks(text, secrets)
}

func leaks(text string, secrets []string) (found []string) {
	lower := strings.ToLower(text)
	for i, secret := range secrets {
		for what, form := range forms(secret) {
			in := text
			if what == "hex" || strings.HasPrefix(what, "URL") { // hexadecimal digits may have either case
				in, form = lower, strings.ToLower(form)
			}
			if strings.Contains(in, form) {
				found = append(found, fmt.Sprintf("secret %d as %s", i, what))
			}
		}
	}
	return found
}

// forms returns the encodings of a secret by name.
func forms(secret string) map[string]string {
	all := map[string]string{
		"text": secret, "hex": hex.EncodeToString([]byte(secret)),
		"URL's query": url.QueryEscape(secret), "URL's path": url.PathEscape(secret), "URL, each byte": percent(secret),
	}
	// In base64, a secret has one of three encodings, depending on its offset. Characters that also depend on the bytes before
	// or after the secret are left out.
	for before := range 3 {
		bytes := append(make([]byte, before), secret...)
		bytes = bytes[:len(bytes)/3*3]
		from := (before*8 + 5) / 6
		all[fmt.Sprintf("base64 at %d", before)] = base64.StdEncoding.EncodeToString(bytes)[from:]
		all[fmt.Sprintf("base64url at %d", before)] = base64.URLEncoding.EncodeToString(bytes)[from:]
	}
	// A part of a JWT is a leak too, except for the header, which many JWTs share.
	if parts := strings.Split(secret, "."); len(parts) == 3 {
		all["claims"], all["signature"] = parts[1], parts[2]
	}
	return all
}

func percent(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// leaks finds secrets in each encoding.
func TestFoundLeaks(t *testing.T) {
	const secret = headerKey
	for name, text := range map[string]string{
		"text": "x" + secret + "y", "hex": "00" + strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": "?a=" + url.QueryEscape(secret), "path": "/" + url.PathEscape(secret), "each byte": percent(secret),
		"base64":             base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64url":          base64.RawURLEncoding.EncodeToString([]byte(secret)),
		"base64 after one":   base64.StdEncoding.EncodeToString([]byte(":" + secret + ":and more")),
		"base64 after two":   base64.StdEncoding.EncodeToString([]byte("a:" + secret + "and more")),
		"base64 after three": base64.URLEncoding.EncodeToString([]byte("ab:" + secret)),
	} {
		if len(leaks(text, []string{secret})) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	if found := leaks("signature=c2ln", []string{"aGVhZA.Y2xhaW1z.c2ln"}); len(found) == 0 {
		t.Error("a JWT's signature is not found")
	}
	if found := leaks("nothing of it: "+queryKey, []string{secret}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
