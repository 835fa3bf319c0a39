package hostfn

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/printable"
)

// MaskedAnswer is an answer of a token endpoint or the API, masked: its texts are replaced by made-up ones. Numbers, booleans,
// times, and words that a standard or the plugin's description lists stay.
type MaskedAnswer struct {
	// Status is the HTTP status. It is 0 if there is no answer.
	Status int `json:"status"`
	// Error is the error if there is no answer, or not all of it, or "". It holds no credential.
	Error string `json:"error,omitempty"`
	// Headers are sorted by name. A header whose value is not shown has an empty one.
	Headers []abi.Pair `json:"headers,omitempty"`
	// Body is the masked body if it is JSON or a form, or "". Of the API's answers, there is a body only if the plugin reads it. Length
	// is the length of the whole body in bytes, if it was read.
	Body   string `json:"body,omitempty"`
	Length int    `json:"length,omitempty"`
	// Description is the error_description of a token endpoint (RFC 6749 section 5.2) if the trace asks for it, or "". It is
	// printable, cut after 500 bytes, and not masked. One that holds a secret or a sealed value of the call is not there.
	Description string `json:"error_description,omitempty"`
	// Milliseconds is the time until the answer, by the host's clock.
	Milliseconds float64 `json:"milliseconds"`
}

// String returns the answer for people to read: a line with the status and the time, and then headers and body with two spaces before
// each line. Control characters are escaped.
func (a MaskedAnswer) String() string {
	heading := "no answer"
	if a.Status != 0 {
		heading = strings.TrimRight(fmt.Sprintf("the answer %d %s", a.Status, http.StatusText(a.Status)), " ")
	}
	var lines, hidden []string
	if a.Error != "" {
		lines = append(lines, a.Error)
	}
	for _, pair := range a.Headers {
		if pair.Value == "" {
			hidden = append(hidden, pair.Name)
		} else {
			lines = append(lines, pair.Name+": "+pair.Value)
		}
	}
	if len(hidden) > 0 {
		lines = append(lines, "not shown: "+strings.Join(hidden, ", "))
	}
	switch {
	case a.Body != "":
		lines = append(lines, a.Body)
	case a.Length > 0:
		lines = append(lines, fmt.Sprintf("(a body of %d bytes)", a.Length))
	}
	if a.Description != "" {
		lines = append(lines, "the endpoint's error_description: "+a.Description)
	}
	return indented(fmt.Sprintf("%s, after %d ms", heading, int64(a.Milliseconds)), lines...)
}

// Took sets the time until the answer, and the error in place of one, scrubbed, or nil.
func (a *MaskedAnswer) Took(took time.Duration, err error) {
	a.Milliseconds = float64(took.Microseconds()) / 1000
	if err != nil {
		a.Error = printable.Text(err.Error(), maxShownLine)
	}
}

// Masker masks answers. It numbers the texts that it makes up, so that no two are equal.
type Masker struct {
	made int
	// path has the names and indexes that lead to the value of a JSON document that is masked.
	path []string
}

// traced calls Trace with an exchange.
func (c *Call) traced(a *answer.Reply, took time.Duration, err error) {
	if c.Trace == nil {
		return
	}
	c.Trace(func(m *Masker, descriptions bool) (e Exchange) {
		for _, step := range slices.Backward(c.steps) {
			if step.Exchange != nil {
				e = *step.Exchange
				break
			}
		}
		masked := m.Answer(c.plan.Answers, a.Status, a.Header, a.Body)
		masked.Took(took, err)
		if descriptions {
			masked.Description = c.description(a)
		}
		e.Answer = &masked
		return e
	})
}

// Answer returns an answer without the texts that may be a credential or name somebody. list says what the plugin reads of it:
// such a value is replaced by another of its kind, or stays if it is a number, a time, or a name of an enum.
func (m *Masker) Answer(list []answer.Part, status int, header http.Header, body []byte) MaskedAnswer {
	masked := MaskedAnswer{Status: status, Length: len(body)}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		masked.Headers = append(masked.Headers, abi.Pair{Name: m.name(name, nil), Value: m.header(list, name, header)})
	}
	var tree any
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case len(body) == 0:
	case strictjson.UnmarshalOpen(body, &tree) == nil:
		if document, err := strictjson.Marshal(m.value(list, tree)); err == nil {
			masked.Body = string(document)
		}
	case media == formType:
		form, err := url.ParseQuery(string(body))
		if err != nil {
			break
		}
		shown := url.Values{}
		for _, name := range slices.Sorted(maps.Keys(form)) {
			value := m.known(list, []string{name}, form.Get(name))
			shown.Set(m.name(name, func(a *answer.Part) bool { return a.Source.From == abi.FromForm && a.Source.Name == name }, list...), value)
		}
		masked.Body = shown.Encode()
	}
	return masked
}

// value returns a value of a JSON document, masked.
func (m *Masker) value(list []answer.Part, value any) any {
	switch v := value.(type) {
	case map[string]any:
		shown := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			wanted := func(a *answer.Part) bool {
				return slices.Contains(a.Source.Pointer, name) || slices.Contains(a.Alternative.Pointer, name)
			}
			shown[m.name(name, wanted, list...)] = m.below(list, name, v[name])
		}
		return shown
	case []any:
		shown := make([]any, len(v))
		for i := range v {
			shown[i] = m.below(list, strconv.Itoa(i), v[i])
		}
		return shown
	case string:
		return m.known(list, m.path, v)
	case json.Number:
		switch {
		case len(v) > longestNumber:
			return json.Number("1")
		case m.isCredential(list):
			return json.Number(strings.Repeat("1", len(v)))
		}
	}
	return value
}

// below returns a member or element of the value at the path, masked. The documents of hostile endpoints are deep, so that the path
// is not copied.
func (m *Masker) below(list []answer.Part, name string, value any) any {
	m.path = append(m.path, name)
	defer func() { m.path = m.path[:len(m.path)-1] }()
	return m.value(list, value)
}

// isCredential reports whether the number at the path may be a credential, such as a one-time code: one that the plugin's description
// seals, one whose name says so, and a document that is a number.
func (m *Masker) isCredential(list []answer.Part) bool {
	if len(m.path) == 0 {
		return true
	}
	name := m.path[len(m.path)-1]
	return credentialName.MatchString(name) && !slices.Contains(durations, name) || slices.ContainsFunc(list, func(a answer.Part) bool {
		return a.Kind == abi.AnswerSealed && at(&a, m.path)
	})
}

// credentialName matches the names of members that have credentials.
var credentialName = regexp.MustCompile(`(?i)((^|[_.-])(pin|otp|passcode|sid)|token|assertion|secret|password|passwd|api_?key|access_?key|cookie|session|nonce)$`)

// longestNumber is the maximum length of a number that is shown. A time in milliseconds has 13 digits.
const longestNumber = 15

// known returns a text that is no credential by its place and its form, and otherwise a made-up one.
func (m *Masker) known(list []answer.Part, path []string, text string) string {
	name := ""
	if len(path) > 0 {
		name = path[len(path)-1]
	}
	switch {
	case strings.TrimSpace(text) == "", isTime(text):
		return text
	case name == "error" && slices.Contains(answer.ErrorCodes, text):
		return text
	case name == "token_type" && slices.Contains(answer.TokenTypes, strings.ToLower(text)):
		return text
	case name == "issued_token_type" && slices.Contains(issuedTypes, text):
		return text
	case slices.Contains(durations, name) && shortNumber.MatchString(text):
		return text
	}
	for i := range list {
		if a := &list[i]; at(a, path) || a.Source.From == abi.FromForm && a.Source.Name == name {
			if shows(a, text) {
				return text
			}
		}
	}
	return m.text(text)
}

// at reports whether the part is read from a place of the JSON.
func at(a *answer.Part, path []string) bool {
	return slices.ContainsFunc([]answer.Source{a.Source, a.Alternative}, func(s answer.Source) bool {
		return s.From == abi.FromJSON && slices.Equal(s.Pointer, path)
	})
}

// shows reports whether the value of an answer is a number, a time or a name, and no credential.
func shows(a *answer.Part, text string) bool {
	switch a.Kind {
	case abi.AnswerInteger, abi.AnswerTime:
		return shortNumber.MatchString(text) || isTime(text)
	case abi.AnswerEnum:
		return slices.ContainsFunc(a.Enum, func(name string) bool { return strings.EqualFold(name, text) })
	}
	return false
}

// durations are the names of numbers that some endpoints write as texts.
var durations = []string{"expires_in", "ext_expires_in", "refresh_expires_in", "refresh_token_expires_in", "expires_on", "expires_at", "not_before", "interval"}

// issuedTypes are the token types of RFC 8693 section 3.
var issuedTypes = []string{
	"urn:ietf:params:oauth:token-type:access_token", "urn:ietf:params:oauth:token-type:refresh_token", "urn:ietf:params:oauth:token-type:id_token",
	"urn:ietf:params:oauth:token-type:saml1", "urn:ietf:params:oauth:token-type:saml2", "urn:ietf:params:oauth:token-type:jwt",
}

var shortNumber = regexp.MustCompile(`^[0-9]{1,13}(\.[0-9]{1,3})?$`)

// isTime reports whether text is a date of RFC 3339 or HTTP. A fraction of a second has at most nine digits.
func isTime(text string) bool {
	if len(text) > len("2006-01-02T15:04:05.999999999-07:00") {
		return false
	}
	_, err := time.Parse(time.RFC3339, text)
	if err != nil {
		_, err = http.ParseTime(text)
	}
	return err == nil
}

// text returns a made-up text in place of another one. If that has a character that no token may have, the made-up one has
// such a character too, because the host or the plugin may refuse it.
func (m *Masker) text(text string) string {
	if strings.TrimSpace(text) == "" {
		return text
	}
	m.made++
	made := fmt.Sprintf("masked-%d-", m.made)
	fill := strings.Repeat(fmt.Sprintf("%dx", m.made), 32) // no two have a long word in common, which would count as an echo
	made += fill[:min(max(len(text), 16), 64)-len(made)]
	for _, odd := range []struct {
		is func(rune) bool
		by string
	}{
		{unicode.IsControl, "\n"},
		{func(r rune) bool { return r > unicode.MaxASCII }, "é"},
	} {
		if strings.ContainsFunc(text, odd.is) {
			made += odd.by
		}
	}
	return made
}

// plainName is the name of a member or header that consists of words, which no credential does.
var plainName = regexp.MustCompile(`^[@_]?[A-Za-z][a-z]{0,15}([_.:-]?[A-Z][a-z]{0,15}|[_.:-][a-z]{1,15}){0,8}$`)

// name returns the name of a member or header if it consists of words, or if wanted is true for one of list. Otherwise, it
// returns a made-up one.
func (m *Masker) name(name string, wanted func(*answer.Part) bool, list ...answer.Part) string {
	if wordsOf(name) {
		return name
	}
	for i := range list {
		if wanted(&list[i]) {
			return name
		}
	}
	m.made++
	return fmt.Sprintf("masked-%d", m.made)
}

// wordsOf reports whether a name consists of words: it has no digits, and no long run of capitals.
func wordsOf(name string) bool {
	return len(name) <= 48 && plainName.MatchString(name) && !manyCapitals.MatchString(name)
}

var manyCapitals = regexp.MustCompile(`[A-Z]{5}`)

// MaskAnswer returns what a person may see of an API's answer, and what the plugin's challenge reads of it. body is its beginning,
// or nil.
func (p *Plan) MaskAnswer(m *Masker, status int, header http.Header, body []byte) MaskedAnswer {
	return m.Answer(p.ChallengeAnswers, status, header, body)
}
