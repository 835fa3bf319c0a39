package hostfn

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/abi"
)

// An answer that is an integer, a time or an enum is plain for the guest, and a sealed one that is kept is compared with the one before
// it. If it held a credential, the guest would have its digits, or learn by an echo whether the credential is equal to a guess. So what
// repeats a text of its request is not read. A guess is refused like the credential: otherwise, that would be the answer.

// sentTexts holds the texts that an answer may not repeat.
type sentTexts struct {
	// credentials are the credentials of a request, and request is all that a plugin may have written into it.
	credentials, request []string
}

// repeats reports whether text, a part of an answer, holds a credential or is a part of the request. Neither counts below
// scrubbable, where it happens by chance.
func (t *sentTexts) repeats(text string) bool {
	return slices.ContainsFunc(Decoded([]string{text}), func(text string) bool {
		return len(text) >= scrubbable && (slices.ContainsFunc(t.credentials, func(credential string) bool {
			return len(credential) >= scrubbable && strings.Contains(text, credential)
		}) || slices.ContainsFunc(t.request, func(sent string) bool { return strings.Contains(sent, text) }))
	})
}

// repeated returns the name of the first answer that wanted is true for and that repeats a text, or "". known has values that the
// guest has of earlier answers.
func (p *parts) repeated(list []Answer, found map[string]string, sent func() *sentTexts, known []string) string {
	for i := range list {
		a := &list[i]
		value, ok := found[a.Name]
		if !ok || a.Kind == abi.AnswerSealed && !a.Keep || slices.Contains(known, value) {
			continue
		}
		raw, _ := p.at(a, list)
		text, _ := textOf(raw)
		pieces := append(itemsOf(text), text)
		if a.Kind != abi.AnswerEnum { // whose value is a name of the description
			pieces = append(pieces, value)
		}
		if slices.ContainsFunc(pieces, sent().repeats) {
			return a.Name
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

// sent returns the texts that a mutation of the call brings into its request. earlier are credentials of an earlier attempt.
func (c *Call) sent(m *Mutation, earlier []string) *sentTexts {
	request := []string{m.Query, m.Form}
	for _, pair := range slices.Concat(m.Headers, m.Cookies, m.Path) {
		request = append(request, pair.Value)
	}
	credentials := append(c.Credentials(m), earlier...)
	return &sentTexts{credentials, append(Decoded(request), credentials...)}
}

// endRepeated ends the call if a plain answer of an endpoint repeats a text of its request, or a sealed answer beside it. For an enum,
// only credentials count: endpoints repeat names that were sent, such as a type of token.
func (c *Call) endRepeated(r *http.Request, list []Answer, read *parts, found map[string]string) {
	t := &sentTexts{credentials: slices.Clone(c.inputs.secrets())}
	for v := range c.sealed.Values() {
		t.credentials = append(t.credentials, v.Text)
	}
	for i := range list {
		if a := &list[i]; a.Kind == abi.AnswerSealed {
			raw, _ := read.at(a, list)
			text, _ := textOf(raw)
			t.credentials = append(t.credentials, text)
		}
	}
	t.credentials = Decoded(t.credentials)
	texts := func() *sentTexts { return t }
	name := read.repeated(list, found, texts, nil)
	if name == "" {
		request := []string{r.URL.String()}
		for _, values := range r.Header {
			request = append(request, values...)
		}
		if body, err := r.GetBody(); err == nil { // outgoing has made it of bytes
			text, _ := io.ReadAll(body)
			request = append(request, string(text))
		}
		t.request = Decoded(request)
		numbers := slices.DeleteFunc(slices.Clone(list), func(a Answer) bool { return a.Kind == abi.AnswerEnum })
		name = read.repeated(numbers, found, texts, nil)
	}
	if name != "" {
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
			if a.Kind == abi.AnswerSealed && b.Kind != abi.AnswerSealed && a.Source.from != "" && a.Source.same(&b.Source) {
				return fmt.Errorf("%s and %s are one place of an answer, sealed here and plain there", a.Name, b.Name)
			}
		}
	}
	return nil
}

func (s *Source) same(other *Source) bool {
	return s.from == other.from && strings.EqualFold(s.name, other.name) && s.parameter == other.parameter && slices.Equal(s.pointer, other.pointer)
}
