package hostfn

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/leakscan"
)

// An answer that is an integer, a time or an enum is plain for the guest, and a sealed one that is kept is compared with the one before
// it. If it held a credential, the guest would have its digits, or learn by an echo whether the credential is equal to a guess. So what
// repeats a text of its request is not read. A guess is refused like the credential: otherwise, that would be the answer.

// sentTexts holds the texts that an answer may not repeat, in lower case.
type sentTexts struct {
	// credentials are the credentials of a request, and request is all that a plugin may have written into it.
	credentials, request []string
	// names reports whether an enum may repeat its own names that were sent: endpoints do that, with a type of token.
	names bool
}

// repeats reports whether text, a part of an answer, holds a credential or a text of the request, or is a part of one. None of them
// counts below scrubbable, where it happens by chance. Of a name, only credentials count.
func (t *sentTexts) repeats(text string, name bool) bool {
	return slices.ContainsFunc(leakscan.Decoded([]string{text}), func(text string) bool {
		text = strings.ToLower(text)
		held := func(sent string) bool { return len(sent) >= scrubbable && strings.Contains(text, sent) }
		return len(text) >= scrubbable && (slices.ContainsFunc(t.credentials, held) || !name && slices.ContainsFunc(t.request, func(sent string) bool {
			return held(sent) || strings.Contains(sent, text)
		}))
	})
}

// repeated returns the name of the first answer that is not sealed, or is kept, and that repeats a text, or "". known are the values of
// earlier answers, by their names. The API may repeat these.
func (p *parts) repeated(list []Answer, found map[string]string, sent func() *sentTexts, known []map[string]string) string {
	for i := range list {
		a := &list[i]
		value, ok := found[a.Name]
		if !ok || a.Kind == abi.AnswerSealed && !a.Keep {
			continue
		}
		raw, _ := p.at(a, list)
		text, _ := textOf(raw)
		pieces := []string{text, value}
		if a.Kind == abi.AnswerEnum { // whose value is a name of the description
			pieces = append(itemsOf(text), text)
		}
		for _, piece := range pieces {
			if slices.ContainsFunc(known, func(values map[string]string) bool { return strings.EqualFold(values[a.Name], piece) }) {
				continue
			}
			if t := sent(); t.repeats(piece, t.names && slices.ContainsFunc(a.Enum, func(name string) bool { return strings.EqualFold(name, piece) })) {
				return a.Name
			}
		}
	}
	return ""
}

// textOf returns a value of an answer as a text, and whether it is a string, a number or a bool.
func textOf(raw any) (text string, ok bool) {
	switch raw := raw.(type) {
	case string:
		return raw, true
	case json.Number:
		return raw.String(), true
	case bool:
		return strconv.FormatBool(raw), true
	}
	return "", false
}

// Texts returns the texts that a mutation of the call brings into its request, and their credentials.
func (c *Call) Texts(m *Mutation) []string {
	texts := append(c.Credentials(m), m.Query, m.Form)
	for _, pair := range slices.Concat(m.Headers, m.Cookies, m.Path) {
		texts = append(texts, pair.Value)
	}
	return texts
}

// lowered returns texts, and what an API may read in them, in lower case.
func lowered(texts []string) []string {
	texts = leakscan.Decoded(texts)
	for i, text := range texts {
		texts[i] = strings.ToLower(text)
	}
	return texts
}

// partsOf returns texts, the words in them, and what an API may read in each of these, in lower case. An API may repeat one with other
// text around it. What is shorter than scrubbable is left out.
func partsOf(texts []string) []string {
	word := func(signs string) func(r rune) bool {
		return func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(signs, r)
		}
	}
	var all []string
	for _, text := range leakscan.Decoded(texts) {
		for _, packed := range append(strings.FieldsFunc(text, word("+/-_")), text) { // the signs of Base64
			for _, part := range lowered([]string{packed}) {
				all = append(append(all, part), strings.FieldsFunc(part, word(""))...)
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(part string) bool { return len(part) < scrubbable })
}

// sent returns the texts that a mutation of the call brings into its request. earlier are texts of an earlier attempt. Words of known
// answers, which the request has, do not count: an API's next nonce may share them.
func (c *Call) sent(m *Mutation, earlier []string, known []map[string]string) *sentTexts {
	var before []string
	for _, values := range known {
		before = slices.AppendSeq(before, maps.Values(values))
	}
	before = partsOf(before)
	request := slices.DeleteFunc(partsOf(append(c.Texts(m), earlier...)), func(part string) bool {
		_, found := slices.BinarySearch(before, part)
		return found
	})
	return &sentTexts{credentials: lowered(append(c.Credentials(m), earlier...)), request: request}
}

// endRepeated ends the call if a plain answer of an endpoint repeats a text of its request, or a sealed answer beside it.
func (c *Call) endRepeated(r *http.Request, list []Answer, read *parts, found map[string]string) {
	sent := sync.OnceValue(func() *sentTexts {
		credentials := slices.Clone(c.inputs.secrets())
		for v := range c.sealed.Values() {
			credentials = append(credentials, v.Text)
		}
		for i := range list {
			if a := &list[i]; a.Kind == abi.AnswerSealed {
				raw, _ := read.at(a, list)
				text, _ := textOf(raw)
				credentials = append(credentials, text)
			}
		}
		request := []string{r.URL.String()}
		for _, values := range r.Header {
			request = append(request, values...)
		}
		if body, err := r.GetBody(); err == nil { // outgoing has made it of bytes
			text, _ := io.ReadAll(body)
			request = append(request, string(text))
		}
		return &sentTexts{lowered(credentials), partsOf(request), true}
	})
	if name := read.repeated(list, found, sent, nil); name != "" {
		c.end(StageToken, fmt.Errorf("the endpoint's answer repeats in %s a text of its request, or a sealed answer, and the plugin would see it", name))
	}
}

// tokenAnswers are the answers of token_request that endRepeated looks at.
var tokenAnswers = []Answer{
	{Answer: abi.Answer{Name: "access_token", Kind: abi.AnswerSealed}, Source: Source{from: abi.FromJSON, pointer: []string{"access_token"}}},
	{Answer: abi.Answer{Name: "expires_in", Kind: abi.AnswerInteger}, Source: Source{from: abi.FromJSON, pointer: []string{"expires_in"}}},
}

// CheckSources returns an error if a sealed answer and one that is not have the same source.
func CheckSources(list []Answer) error {
	for i := range list {
		for j := range list {
			a, b := &list[i], &list[j]
			if a.Kind == abi.AnswerSealed && b.Kind != abi.AnswerSealed && a.shares(b) {
				return fmt.Errorf("%s and %s are one place of an answer, sealed here and plain there", a.Name, b.Name)
			}
		}
	}
	return nil
}

// shares reports whether two answers have a place in common.
func (a *Answer) shares(b *Answer) bool {
	for _, one := range []*Source{&a.Source, &a.Alternative} {
		for _, other := range []*Source{&b.Source, &b.Alternative} {
			if one.from != "" && one.same(other) {
				return true
			}
		}
	}
	return false
}

func (s *Source) same(other *Source) bool {
	return s.from == other.from && strings.EqualFold(s.name, other.name) && s.parameter == other.parameter && slices.Equal(s.pointer, other.pointer)
}
