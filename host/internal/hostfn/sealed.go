package hostfn

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlpath"
)

// maxOpened bounds the total size, in bytes, of the texts that sealed values are put into in a call, and separately of
// those that it encodes or uses as keys. A document can contain thousands of references, each to a long value. Without
// the bound, the time of a call would also show the length of a secret.
const maxOpened = 2 << 20

// rejectSealed ends the call if text, in a place that takes no sealed values, contains one.
func (c *core) rejectSealed(where, text string) {
	if err := c.sealed.Plain(text); err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
}

// unseal returns text with its sealed values put in, and their number. It ends the call if they may not go to sink.
func (c *core) unseal(where, text string, sink seal.Sinks) (string, int) {
	out, count, err := c.sealed.Open(text, sink)
	if err != nil {
		c.notListed(err)
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	if c.openedValues += count; c.sealed.Opened > maxOpened {
		c.endf(StagePlugin, "%s: the sealed values of a call stand for more than %d bytes in all", where, maxOpened)
	}
	return out, count
}

// notListed ends the call if err is that of a token in an exchange with a host that the operator does not list for it.
func (c *core) notListed(err error) {
	if misuse, ok := errors.AsType[*seal.Error](err); ok && misuse.Sink == seal.Token && misuse.Sinks&seal.Listed != 0 {
		place := "that host may get the tokens of users, the operator lists it in UserTokenHosts (gateway.user.jwt.token_hosts)"
		if c.unlisted != template.UserToken {
			place = "that host may get this token, the operator lists it among the hosts of the audience (identities)"
		}
		c.endf(StageConfig, "%s may not go to %s, and nothing was sent: if %s", c.unlisted, c.exchangeHost, place)
	}
}

func (c *core) seal(v seal.Value) string {
	reference, err := c.sealed.Seal(v)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return reference
}

// concat returns text as one value, for a function that makes something from the text and seals that. It reports
// whether text contains a sealed value.
func (c *core) concat(where, text string) (seal.Value, bool) {
	v, sealed, err := c.sealed.Combine(text)
	if err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	c.boundMade(where)
	return v, sealed
}

// boundMade ends the call if what it has made of sealed values counts as too many bytes.
func (c *core) boundMade(where string) {
	if c.sealed.Made > maxOpened {
		c.endf(StagePlugin, "%s: what a call makes of sealed values counts as more than %d bytes in all", where, maxOpened)
	}
}

// notRaw ends the call if text contains a raw value. Otherwise, success or failure would show whether the bytes of a
// MAC happen to be text. A guest would learn something about the key from each MAC.
func (c *core) notRaw(where, text string) {
	if !c.repeating && c.sealed.Raw(text) {
		c.endf(StagePlugin, "%s: what mac, digest, decode and sign_sealed return is raw bytes: encode it first", where)
	}
}

// hash writes data with its sealed values put in to w. It returns a value without Text for what is made from the bytes, and
// whether data contains sealed values other than the body.
func (c *core) hash(where, data string, w io.Writer) (seal.Value, bool) {
	v, sealed, err := c.sealed.Hash(data, w)
	switch {
	case errors.As(err, new(*seal.Error)):
		c.endf(StagePlugin, "%s: %w", where, err)
	case errors.Is(err, errTooMuch), errors.Is(err, errTooLong):
		c.endf(StageSign, "%s: %w", where, err)
	case err != nil:
		c.endf(StageBody, "the request's body cannot be read: %w", c.ScrubError(err))
	}
	c.boundMade(where)
	return v, sealed
}

var errTooMuch = fmt.Errorf("more than %d bytes are to be signed by the store of keys, which are sent to it: sign a digest of the data, such as that of the body, or use get_secret", maxStoreData)

// maxSignedData is the maximum length of data that a key of the host signs, in bytes. All of it is in memory then.
const maxSignedData = 1 << 20

var errTooLong = fmt.Errorf("more than %d bytes are to be signed: sign a digest of the body, such as {body|sha256|hex}", maxSignedData)

// masked returns a text of the mutation as a person may see it. After Reveal it also scrubs the text, because the guest
// may have put a credential in without a reference.
func (c *core) masked(text string) string {
	if c.revealed {
		text = c.Scrub(text)
	}
	return c.sealed.Mask(text)
}

func (c *core) maskedPairs(pairs []abi.Pair) (list []abi.Pair) {
	for _, pair := range pairs {
		list = append(list, abi.Pair{Name: c.masked(pair.Name), Value: c.masked(pair.Value)})
	}
	return list
}

func (c *core) maskedParameters(pairs []abi.Pair) string {
	members := make([]string, len(pairs))
	for i, pair := range c.maskedPairs(pairs) {
		members[i] = pair.Name + "=" + pair.Value
	}
	return strings.Join(members, "&")
}

// mapStrings applies f to the strings of a tree, in place, and returns it. Names of members may not contain sealed values.
func (c *core) mapStrings(where string, tree any, f func(string) (string, error)) any {
	tree, err := strictjson.MapStrings(tree, f, func(name string) {
		if c.sealed.Plain(name) != nil {
			c.rejectSealed("a name in "+where, name)
		}
	})
	if err != nil {
		c.endf(StageSign, "%s: %w", where, err)
	}
	return tree
}

// sealAnswers seals the values of a list that are sealed, and returns all of them as the guest gets them.
func (c *core) sealAnswers(list []answer.Part, found map[string]string) map[string]string {
	for i := range list {
		a := &list[i]
		value, ok := found[a.Name]
		if ok && a.Kind == contract.AnswerSealed {
			if a.Sinks&seal.URL != 0 {
				c.hostURL("the answer "+a.Name, value)
			}
			found[a.Name] = c.seal(a.Value(value))
		}
	}
	return found
}

// Scrub returns text with the call's secrets and sealed values replaced. It is for texts that others wrote and that go
// into errors or logs: the errors of an HTTP client, and the texts of a guest that may reveal. A text that contains a
// secret shorter than leakscan.MinText is replaced as a whole.
func (c *core) Scrub(text string) string {
	forms := c.secretForms()
	if slices.ContainsFunc(forms, func(form string) bool { return len(form) < leakscan.MinText && strings.Contains(text, form) }) {
		return "<a text that may hold a secret>"
	}
	return replaceForms(text, forms, func(string) string { return "<sealed>" })
}

// replaceForms returns text with each of the forms in it replaced. If one begins like another, the first of them counts.
func replaceForms(text string, forms []string, replacement func(form string) string) string {
	var pairs []string
	for _, form := range forms {
		if strings.Contains(text, form) {
			pairs = append(pairs, form, replacement(form))
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
	return answers.Hidden(safe, err)
}

// secretForms returns the call's secrets and sealed values in every form that they may have in texts of others, the longest first.
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
		if !v.Public {
			add(v.Text, v)
		}
	}
	for _, secret := range c.inputs.secrets() {
		add(secret, nil)
	}
	if earlier := c.inputs.Earlier; earlier != nil {
		for _, secret := range earlier.openedTexts {
			add(secret, nil)
		}
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

// sealer replaces the call's secrets in the texts of a request by references. The platform may have put secrets there.
type sealer struct {
	call *core
	// forms are at least leakscan.MinText long: sealing a short one would confirm a user's guess.
	forms []string
	// references maps each form that has been found to its reference, so that each has only one.
	references map[string]string
}

// Text returns text with the forms of secrets replaced by references.
func (s *sealer) Text(text string) string { return replaceForms(text, s.forms, s.reference) }

// Part returns text[from:to] like Text. If a form begins or ends outside of the part, such as a URL that is a secret, the whole part
// becomes a reference.
func (s *sealer) Part(text string, from, to int) string {
	if from == to {
		return ""
	}
	for _, form := range s.forms {
		for start := 0; start < to; start++ {
			i := strings.Index(text[start:], form)
			if i < 0 {
				break
			}
			start += i
			if end := start + len(form); start < to && end > from && (start < from || end > to) {
				return s.reference(text[from:to])
			}
		}
	}
	return s.Text(text[from:to])
}

func (s *sealer) reference(text string) string {
	if s.references[text] == "" {
		// The text is in the request already. A JWT with it can only go there too, since nothing else can be sent any more.
		const requestSinks = seal.Header | seal.Query | seal.Claim
		if s.references == nil {
			s.references = map[string]string{}
		}
		s.call.volatile = true // the next request may have no secret, and then the text has other sinks
		s.references[text] = s.call.seal(seal.Value{Text: text, Sinks: requestSinks | seal.Digest, Derived: requestSinks | seal.Digest})
	}
	return s.references[text]
}

// sealer returns a sealer for texts of the request, of which the longest has longest bytes. It leaves out short secrets, and all that the
// guest has made: a caller could have guessed it, and to seal it would confirm the guess, also of a short secret in it. No form of a secret
// is shorter than the secret, so it also leaves out those that are longer than the longest text. Most keys are.
func (c *core) sealer(longest int) *sealer {
	return &sealer{call: c, forms: c.formsOf(longest, func(secret string, v *seal.Value) bool {
		return len(secret) >= leakscan.MinText && (v == nil || !v.Raw && v.Size == 0)
	})}
}
