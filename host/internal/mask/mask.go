// Package mask shows people the answers of token endpoints and APIs, and what a call did, without credentials.
package mask

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
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
)

// Lengths of what is shown, in bytes.
const (
	maxDescription = 500 // a description
	longestNumber  = 15  // a number: a time in milliseconds has 13 digits
)

// Masker masks answers. It numbers the texts that it makes up, so that no two are equal.
type Masker struct {
	count int
	// list are the parts that the plugin reads of the answer that is masked.
	list []answer.Part
	// path has the names and indexes that lead to the value of a JSON document that is masked.
	path []string
}

// Took sets the time until an answer, and the error in place of one, scrubbed, or nil.
func Took(a *view.Answer, took time.Duration, err error) {
	a.Milliseconds = float64(took.Microseconds()) / 1000
	if err != nil {
		a.Error = printable.Text(err.Error(), 1024)
	}
}

// Answer returns an answer without the texts that may be a credential or name somebody. list says what the plugin reads of it:
// such a value is replaced by another of its kind, or stays if it is a number, a time, or a name of an enum.
func (m *Masker) Answer(list []answer.Part, status int, header http.Header, body []byte) view.Answer {
	m.list = list
	masked := view.Answer{Status: status, Length: len(body)}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		masked.Headers = append(masked.Headers, abi.Pair{Name: m.name(name, nil), Value: m.header(name, header)})
	}
	var tree any
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case len(body) == 0:
	case strictjson.UnmarshalOpen(body, &tree) == nil:
		if document, err := strictjson.Marshal(m.value(tree)); err == nil {
			masked.Body = string(document)
		}
	case media == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			break
		}
		values := url.Values{}
		for _, name := range slices.Sorted(maps.Keys(form)) {
			value := m.textAt([]string{name}, form.Get(name))
			values.Set(m.name(name, func(a answer.Part) bool { return a.Source.From == contract.FromForm && a.Source.Name == name }), value)
		}
		masked.Body = values.Encode()
	}
	return masked
}

// value returns a value of a JSON document, masked.
func (m *Masker) value(value any) any {
	switch v := value.(type) {
	case map[string]any:
		members := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			match := func(a answer.Part) bool {
				return slices.Contains(a.Source.Pointer, name) || slices.Contains(a.Alternative.Pointer, name)
			}
			members[m.name(name, match)] = m.below(name, v[name])
		}
		return members
	case []any:
		elements := make([]any, len(v))
		for i := range v {
			elements[i] = m.below(strconv.Itoa(i), v[i])
		}
		return elements
	case string:
		return m.textAt(m.path, v)
	case json.Number:
		switch {
		case len(v) > longestNumber:
			return json.Number("1")
		case m.isCredential():
			return json.Number(strings.Repeat("1", len(v)))
		}
	}
	return value
}

// below returns a member or element of the value at the path, masked. Hostile documents are deep, so that the path is not copied.
func (m *Masker) below(name string, value any) any {
	m.path = append(m.path, name)
	defer func() { m.path = m.path[:len(m.path)-1] }()
	return m.value(value)
}

// isCredential reports whether the number at the path may be a credential, such as a one-time code: one that the plugin's description
// seals, one whose name says so, and a document that is a number.
func (m *Masker) isCredential() bool {
	if len(m.path) == 0 {
		return true
	}
	name := m.path[len(m.path)-1]
	return credentialName.MatchString(name) && !slices.Contains(durations, name) || slices.ContainsFunc(m.list, func(a answer.Part) bool {
		return a.Kind == contract.AnswerSealed && isAtPath(&a, m.path)
	})
}

var credentialName = regexp.MustCompile(`(?i)((^|[_.-])(pin|otp|passcode|sid)|token|assertion|secret|password|passwd|api_?key|access_?key|cookie|session|nonce)$`)

// textAt returns a text that is no credential by its place and its form, and otherwise a made-up one.
func (m *Masker) textAt(path []string, text string) string {
	name := ""
	if len(path) > 0 {
		name = path[len(path)-1]
	}
	switch {
	case strings.TrimSpace(text) == "", isTime(text),
		name == "error" && slices.Contains(answer.ErrorCodes, text),
		name == "token_type" && slices.Contains(answer.TokenTypes, strings.ToLower(text)),
		name == "issued_token_type" && slices.Contains(issuedTypes, text),
		slices.Contains(durations, name) && shortNumber.MatchString(text):
		return text
	}
	for i := range m.list {
		a := &m.list[i]
		if (isAtPath(a, path) || a.Source.From == contract.FromForm && a.Source.Name == name) && shows(a, text) {
			return text
		}
	}
	return m.text(text)
}

// isAtPath reports whether the part is read from a place of the JSON.
func isAtPath(a *answer.Part, path []string) bool {
	return slices.ContainsFunc([]answer.Source{a.Source, a.Alternative}, func(s answer.Source) bool {
		return s.From == contract.FromJSON && slices.Equal(s.Pointer, path)
	})
}

// shows reports whether the value of an answer is a number, a time or a name, and no credential.
func shows(a *answer.Part, text string) bool {
	switch a.Kind {
	case contract.AnswerInteger, contract.AnswerTime:
		return shortNumber.MatchString(text) || isTime(text)
	case contract.AnswerEnum:
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
	m.count++
	result := fmt.Sprintf("masked-%d-", m.count)
	fill := strings.Repeat(fmt.Sprintf("%dx", m.count), 32) // no two have a long word in common, which would count as an echo
	result += fill[:min(max(len(text), 16), 64)-len(result)]
	if strings.ContainsFunc(text, unicode.IsControl) {
		result += "\n"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		result += "é"
	}
	return result
}

// name returns the name of a member or header if it consists of words, or if match is true for one of the parts that the plugin
// reads. Otherwise, it returns a made-up one. match may be nil.
func (m *Masker) name(name string, match func(answer.Part) bool) string {
	words := len(name) <= 48 && plainName.MatchString(name) && !manyCapitals.MatchString(name)
	if words || match != nil && slices.ContainsFunc(m.list, match) {
		return name
	}
	m.count++
	return fmt.Sprintf("masked-%d", m.count)
}

// A name that consists of words, which no credential does, has no digits, and no long run of capitals.
var (
	plainName    = regexp.MustCompile(`^[@_]?[A-Za-z][a-z]{0,15}([_.:-]?[A-Z][a-z]{0,15}|[_.:-][a-z]{1,15}){0,8}$`)
	manyCapitals = regexp.MustCompile(`[A-Z]{5}`)
)

// Description returns the error_description of a refusal (RFC 6749 section 5.2), printable and cut. It returns "" if there is none, and
// for an answer with something that may be a credential. A text for which secret is true is not shown. Others wrote it, so it may hold
// anything else.
func Description(a *answer.Reply, secret func(text string) bool) string {
	var text string
	var names []string
	if value, ok := a.JSON([]string{"error_description"}); ok {
		text, _ = value.(string)
		document, _ := a.JSON(nil)
		tree, _ := document.(map[string]any)
		names = slices.Collect(maps.Keys(tree))
	} else if form, err := url.ParseQuery(string(a.Body)); err == nil && form.Has("error") {
		text, names = form.Get("error_description"), slices.Collect(maps.Keys(form))
	}
	switch {
	case slices.ContainsFunc(names, credentialName.MatchString):
		return ""
	case secret(text):
		return "(not shown, because it holds a credential)"
	}
	return printable.Text(text, maxDescription)
}

// header returns the value of a header as a person may see it, or "".
func (m *Masker) header(name string, header http.Header) string {
	value := strings.Join(header.Values(name), ", ")
	switch name {
	case "Content-Type":
		if media, _, _ := mime.ParseMediaType(value); slices.Contains(mediaTypes, media) {
			return media
		}
		return ""
	case "Date", "Retry-After", "Age":
		if isTime(value) || len(value) < 8 && shortNumber.MatchString(value) { // 90 days, and shorter than a credential
			return value
		}
		return ""
	case "Www-Authenticate":
		var offers []string
		for _, offer := range answer.Offers(header.Values(name)) {
			scheme := m.scheme(offer.Scheme)
			offers = append(offers, strings.TrimSpace(scheme+" "+m.parameters(offer.Parameters)))
		}
		return strings.Join(offers, ", ")
	case "Authentication-Info":
		return m.parameters(answer.Parameters(value))
	case "Set-Cookie":
		for _, cookie := range slices.Backward((&http.Response{Header: header}).Cookies()) {
			if slices.ContainsFunc(m.list, func(a answer.Part) bool { return a.Source.From == contract.FromCookie && a.Source.Name == cookie.Name }) {
				return cookie.Name + "=" + m.text(cookie.Value)
			}
		}
		return ""
	}
	for i := range m.list {
		a := &m.list[i]
		if a.Source.From == contract.FromHeader && strings.EqualFold(a.Source.Name, name) {
			if shows(a, value) {
				return value
			}
			return m.text(value)
		}
	}
	return ""
}

var mediaTypes = []string{
	"application/json", "application/x-www-form-urlencoded", "application/problem+json", "application/jwt", "application/xml", "application/soap+xml", "application/octet-stream",
	"text/html", "text/plain", "text/xml",
}

// scheme returns an authentication scheme that is registered or that the plugin reads.
func (m *Masker) scheme(scheme string) string {
	for _, a := range m.list {
		if a.Source.From == contract.FromAuth && strings.EqualFold(a.Source.Name, scheme) {
			return a.Source.Name
		}
	}
	for _, name := range []string{"Basic", "Bearer", "Digest", "DPoP", "GNAP", "HOBA", "Mutual", "Negotiate", "NTLM", "OAuth", "PrivateToken", "SCRAM-SHA-256", "vapid"} {
		if strings.EqualFold(name, scheme) {
			return name
		}
	}
	return "Masked"
}

// parameters returns the parameters of a challenge. Those that no standard has and that the plugin does not read are left out.
func (m *Masker) parameters(all map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		read := slices.ContainsFunc(m.list, func(a answer.Part) bool { return a.Source.Parameter == name })
		if !read && !slices.Contains(parameterNames, name) {
			continue
		}
		value := all[name]
		if !m.isVocabulary(name, value) {
			value = m.text(value)
		}
		pairs = append(pairs, name+`="`+value+`"`)
	}
	return strings.Join(pairs, ", ")
}

// isVocabulary reports whether each item of a parameter's value is a word of a standard, or of an enum of the plugin.
func (m *Masker) isVocabulary(name, value string) bool {
	for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		same := func(word string) bool { return strings.EqualFold(word, item) }
		ok := slices.ContainsFunc(words, same) || name == "error" && slices.Contains(answer.ErrorCodes, item) ||
			slices.ContainsFunc(m.list, func(a answer.Part) bool { return a.Source.Parameter == name && slices.ContainsFunc(a.Enum, same) })
		if !ok {
			return false
		}
	}
	return true
}

// parameterNames are the names of parameters of challenges: RFC 6750 section 3, RFC 7616 sections 3.3 and 3.5, RFC 9449 and RFC 9728.
var parameterNames = []string{
	"algorithm", "algs", "charset", "cnonce", "domain", "error", "error_description", "error_uri", "nc", "nextnonce", "nonce", "opaque", "qop",
	"realm", "resource_metadata", "rspauth", "scope", "stale", "userhash",
}

// words are the values of such parameters that are the same everywhere.
var words = []string{
	"true", "false", "auth", "auth-int", "utf-8", "MD5", "MD5-sess", "SHA-256", "SHA-256-sess", "SHA-512-256", "SHA-512-256-sess",
	"invalid_token", "insufficient_scope", "use_dpop_nonce", "ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA", "Ed25519",
}
