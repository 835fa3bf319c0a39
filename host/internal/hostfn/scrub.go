package hostfn

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
)

// Scrub returns text with the call's secrets and sealed values replaced. It is for texts that others wrote and that go
// into errors or logs: the errors of an HTTP client, and the texts of a guest that may reveal. A text that contains a
// secret shorter than leakscan.MinText is replaced as a whole.
func (c *core) Scrub(text string) string {
	var pairs []string
	for _, form := range c.secretForms() {
		switch {
		case !strings.Contains(text, form):
		case len(form) < leakscan.MinText:
			return "<a text that may hold a secret>"
		default:
			pairs = append(pairs, form, "<sealed>")
		}
	}
	if pairs == nil {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// ScrubError returns err if its text is printable and contains no secret. Otherwise it returns an error with a scrubbed
// text, for which errors.Is reports the same as for err. Unwrap and errors.As do not reach err.
func (c *core) ScrubError(err error) error {
	text := err.Error()
	safe := printable.Text(c.Scrub(text), 2048)
	if safe == text {
		return err
	}
	return &scrubbed{safe, func(target error) bool { return errors.Is(err, target) }}
}

// scrubbed is an error with a scrubbed text. It has no Unwrap, because that would reveal the text of the original
// error. Its Is finds sentinels such as context.Canceled. It holds the original error only in a closure, where %#v does
// not find it either.
type scrubbed struct {
	text string
	is   func(target error) bool
}

func (s *scrubbed) Error() string { return s.text }

func (s *scrubbed) Is(target error) bool { return s.is(target) }

// secretForms returns the call's secrets and sealed values in every form that they may have in texts of others, the
// longest first.
func (c *core) secretForms() []string {
	return c.formsOf(math.MaxInt, func(string, *seal.Value) bool { return true })
}

// formsOf returns the forms of the secrets and sealed values that include is true for, and that may be in a text of longest bytes. v
// is nil for a secret.
func (c *core) formsOf(longest int, include func(secret string, v *seal.Value) bool) []string {
	var all []string
	add := func(secret string, v *seal.Value) {
		if secret != "" && include(secret, v) { // an expression with a secret may render to an empty text
			all = appendForms(all, secret, longest)
		}
	}
	for v := range c.sealed.Values() {
		add(v.Text, &v)
	}
	for _, secret := range c.inputs.secrets() {
		add(secret, nil)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(all)
}

// appendForms appends the encodings in which a secret may appear in texts of others, as far as they fit into longest bytes.
func appendForms(all []string, secret string, longest int) []string {
	if len(secret) > longest {
		return all
	}
	all = append(all, secret)
	if base64.RawStdEncoding.EncodedLen(len(secret)) <= longest {
		standard := base64.RawStdEncoding.EncodeToString([]byte(secret))
		all = append(all, standard)
		if strings.ContainsAny(standard, "+/") {
			all = append(all, base64.RawURLEncoding.EncodeToString([]byte(secret)))
		}
	}
	if hex.EncodedLen(len(secret)) <= longest {
		all = append(all, hex.EncodeToString([]byte(secret)))
	}
	if strings.ContainsFunc(secret, escaped) {
		quoted := strconv.Quote(secret)
		all = append(all, quoted[1:len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret))
	}
	return all
}

// escaped reports whether a quoted text or a URL may have another form of r. It is an approximation that saves time for most
// secrets, which have unreserved characters only.
func escaped(r rune) bool { return r >= utf8.RuneSelf || !urlpath.Unreserved(byte(r)) }
