package answer

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/internal/contract"
)

// An answer that is an integer, a time or an enum is plain for the guest, and a sealed one that is kept is compared with the one before
// it. If it held a credential, the guest would have its digits, or learn by an echo whether the credential is equal to a guess. So what
// repeats a text of its request is not read. A guess is refused like the credential: otherwise, that would be the answer.

// Sent holds the texts that an answer may not repeat, in lower case.
type Sent struct {
	// credentials are the credentials of a request, and request is all that a plugin may have written into it.
	credentials, request []string
	// Names reports whether an enum may repeat its own names that were sent: endpoints do that, with a type of token.
	Names bool
}

// NewSent returns the credentials of a request, and what a plugin may have written into it. The words of known answers, which
// the request has, do not count: an API's next nonce may share them.
func NewSent(credentials, request []string, previous ...map[string]string) *Sent {
	var values []string
	for _, answers := range previous {
		values = slices.AppendSeq(values, maps.Values(answers))
	}
	values = partsOf(values)
	parts := slices.DeleteFunc(partsOf(request), func(part string) bool {
		_, found := slices.BinarySearch(values, part)
		return found
	})
	return &Sent{credentials: lowered(credentials), request: parts}
}

// repeats reports whether text, a part of an answer, holds a credential or a text of the request, or is a part of one. None of them
// counts below leakscan.MinText, where it happens by chance. Of a name, only credentials count.
func (s *Sent) repeats(text string, name bool) bool {
	return slices.ContainsFunc(leakscan.Decoded([]string{text}), func(text string) bool {
		text = strings.ToLower(text)
		appears := func(value string) bool { return len(value) >= leakscan.MinText && strings.Contains(text, value) }
		return len(text) >= leakscan.MinText && (slices.ContainsFunc(s.credentials, appears) || !name && slices.ContainsFunc(s.request, func(value string) bool {
			return appears(value) || strings.Contains(value, text)
		}))
	})
}

// Repeated returns the name of the first part that is not sealed, or is kept, and that repeats a text, or "". previous are the values of
// earlier answers, by their names. The API may repeat these. Repeated calls sent at most once, if it needs the texts.
func (r *Reply) Repeated(found map[string]string, load func() *Sent, previous ...map[string]string) string {
	load = sync.OnceValue(load)
	for i := range r.List {
		a := &r.List[i]
		value, ok := found[a.Name]
		if !ok || a.Kind == contract.AnswerSealed && !a.Keep {
			continue
		}
		text := r.Text(a)
		pieces := []string{text, value}
		if a.Kind == contract.AnswerEnum { // whose value is a name of the description
			pieces = append(itemsOf(text), text)
		}
		for _, piece := range pieces {
			if slices.ContainsFunc(previous, func(values map[string]string) bool { return strings.EqualFold(values[a.Name], piece) }) {
				continue
			}
			if s := load(); s.repeats(piece, s.Names && slices.ContainsFunc(a.Enum, func(name string) bool { return strings.EqualFold(name, piece) })) {
				return a.Name
			}
		}
	}
	return ""
}

// Text returns the value of a part as a text, or "".
func (r *Reply) Text(a *Part) string {
	raw, _ := r.At(a)
	text, _ := textOf(raw)
	return text
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

// lowered returns texts, and what an API may read in them, in lower case.
func lowered(texts []string) []string {
	texts = leakscan.Decoded(texts)
	for i, text := range texts {
		texts[i] = strings.ToLower(text)
	}
	return texts
}

// partsOf returns texts, the words in them, and what an API may read in each of these, in lower case. An API may repeat one with other
// text around it. What is shorter than leakscan.MinText is left out.
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
	return slices.DeleteFunc(slices.Compact(all), func(part string) bool { return len(part) < leakscan.MinText })
}
