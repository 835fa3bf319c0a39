package hostfn

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/seal"
)

func callWith(secrets map[string]string, sealed ...string) *Call {
	c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{Secrets: slices.Collect(maps.Values(secrets))}, Inline)
	for _, text := range sealed {
		c.seal(seal.Value{Text: text})
	}
	return c
}

// Scrub replaces a secret in texts of others, such as a transport's errors, in every encoding (threats.md 18, 19).
func TestScrub(t *testing.T) {
	const secret = "s3cret/with \"odd\" +%&=ü bytes\n"
	for name, form := range map[string]string{
		"plain":     secret,
		"quoted":    strings.Trim(fmt.Sprintf("%q", secret), `"`),
		"query":     url.QueryEscape(secret),
		"path":      url.PathEscape(secret),
		"base64":    base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64url": base64.URLEncoding.EncodeToString([]byte(secret)),
		"hex":       hex.EncodeToString([]byte(secret)),
	} {
		for how, c := range map[string]*Call{"secret": callWith(map[string]string{"s": secret}), "sealed": callWith(nil, "other value", secret)} {
			got := c.Scrub("before " + form + " between " + form + " after")
			if strings.Contains(got, form) || !strings.HasPrefix(got, "before <sealed>") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s, %s: got = %q", how, name, got)
			}
		}
	}
	c := callWith(map[string]string{"a": "long secret", "b": "long secret and more"})
	if got := c.Scrub("x long secret and more y"); got != "x <sealed> y" {
		t.Errorf("of two that begin alike the longer one is not taken: %q", got)
	}
}

// The forms of a secret are those of Go's own encoders, each of them once, the longest first.
func TestForms(t *testing.T) {
	for _, secret := range []string{"letters-and.digits_0~", "a+b/c", "\xff\xfe\xfb?", "é", "Ł", "a b", `a"b\c`, "\n", "Zm9v+/", "%41"} {
		quoted := strconv.Quote(secret)
		want := []string{
			secret, quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret), base64.RawStdEncoding.EncodeToString([]byte(secret)),
			base64.RawURLEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)),
		}
		slices.Sort(want)
		got := callWith(map[string]string{"s": secret, "same": secret, "none": ""}, secret, "").secretForms()
		if !slices.IsSortedFunc(got, func(a, b string) int { return len(b) - len(a) }) {
			t.Errorf("%q: not by length: %q", secret, got)
		}
		slices.Sort(got)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", secret, got, want)
		}
	}
}

// A secret that is the whole of a request's longest text is sealed for the guest, in each form and each place.
func TestInputSealsTheLongestText(t *testing.T) {
	const secret = "x-long-secret-that-is-longer-than-the-other-texts-of-the-request"
	for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(secret))} {
		for place, r := range map[string]*http.Request{
			"value": {URL: &url.URL{Scheme: "https", Host: "api.test"}, Header: http.Header{"X-A": {"b", form}}},
			"name":  {URL: &url.URL{Scheme: "https", Host: "api.test"}, Header: http.Header{form: {"b"}}},
			"URL":   {URL: &url.URL{Scheme: "https", Host: form}},
			"query": {URL: &url.URL{Scheme: "https", Host: "api.test", RawQuery: form}},
		} {
			c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{Secrets: []string{secret}, Request: r}, Inline)
			if input := string(c.Input()); strings.Contains(input, form) || !strings.Contains(input, "kw_") {
				t.Errorf("%s: input = %s", place, input)
			}
		}
	}
}

// Scrub drops the whole text for a short secret, which the text around a gap would reveal: "unre<sealed>ch<sealed>ble".
func TestScrubOfShortSecrets(t *testing.T) {
	for _, secret := range []string{"a", "un", "reach", "7chars!"} {
		c := callWith(map[string]string{"s": secret})
		if got := c.Scrub("unreachable 7chars!"); strings.Contains(got, "able") || strings.Contains(got, "<sealed>") {
			t.Errorf("%q: got = %q", secret, got)
		}
		if got := c.Scrub("?!"); got != "?!" {
			t.Errorf("%q: a text without it became %q", secret, got)
		}
	}
	if got := callWith(map[string]string{"s": "8 chars!"}).Scrub("un 8 chars! able"); got != "un <sealed> able" {
		t.Errorf("a secret of eight bytes: %q", got)
	}
	if got := callWith(map[string]string{"s": ""}, "").Scrub("text"); got != "text" {
		t.Errorf("with an empty value a text becomes %q", got)
	}
}

func TestScrubErrorCause(t *testing.T) {
	c := callWith(map[string]string{"s": "the secret value"})
	err := c.ScrubError(fmt.Errorf("sending the secret value: %w", context.Canceled))
	if !errors.Is(err, context.Canceled) || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "the secret value") {
		t.Errorf("err = %#v", err)
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if strings.Contains(inner.Error(), "the secret value") {
			t.Errorf("Unwrap results in %v", inner)
		}
	}
	if clean := errors.New("clean"); c.ScrubError(clean) != clean { //nolint:errorlint // the very same
		t.Error("an error without a secret became another one")
	}
}

// Each form of a secret in a request becomes one reference, however often it occurs.
func TestSealerSealsOnce(t *testing.T) {
	c := callWith(map[string]string{"s": "the secret value", "empty": ""})
	s := c.sealer(math.MaxInt)
	first := s.Text("x the secret value y the secret value")
	for range 100 {
		if got := s.Text("x the secret value y the secret value"); got != first {
			t.Fatalf("%q and %q", first, got)
		}
	}
	n := 0
	for range c.sealed.Values() {
		n++
	}
	if n != 1 || strings.Contains(first, "secret") || s.Text("plain") != "plain" {
		t.Errorf("%d values, %q", n, first)
	}
}
