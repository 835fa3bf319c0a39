package hostfn

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/printable"
)

// Answer is a part of an answer that a plugin's description names.
type Answer struct {
	abi.Answer
	Sinks, Derived seal.Sinks
	// Source is the place of the value, and Alternative another one. They are the zero Source if there is none, and Source is that
	// if FromField names a field that is absent.
	Source, Alternative Source
}

// Source is a place in an answer.
type Source struct {
	// from is the prefix, such as abi.FromJSON. It is empty in the zero Source.
	from string
	// name is the name of a header, cookie or member of a form, or the authentication scheme.
	name string
	// parameter is the name of a parameter, in lower case.
	parameter string
	// pointer has the tokens of a JSON pointer, or the names of elements.
	pointer []string
}

// ParseSource returns the place that text, such as "json:/data/token", names.
func ParseSource(text string) (s Source, err error) {
	prefix, rest, found := strings.Cut(text, ":")
	s = Source{from: prefix + ":", name: rest}
	switch {
	case !found || rest == "" && s.from != abi.FromJSON || len(text) > maxSource:
		return Source{}, errSource
	case s.from == abi.FromJSON:
		s.name = ""
		if s.pointer, err = pointerTokens(rest); err != nil {
			return Source{}, err
		}
	case s.from == abi.FromXML:
		s.name, s.pointer = "", strings.Split(rest, "/")[1:]
		if rest[0] != '/' || slices.ContainsFunc(s.pointer, func(name string) bool { return name == "" || strings.ContainsAny(name, ": ") }) {
			return Source{}, fmt.Errorf("%s needs names of elements without prefixes, from the root, such as %s/Answer/Token", abi.FromXML, abi.FromXML)
		}
	case s.from == abi.FromHeader:
		if abi.CheckHeaderName(rest) != "" && !strings.EqualFold(rest, "Host") {
			return Source{}, fmt.Errorf("%q is not the name of a header", printable.Text(rest, 64))
		}
		if strings.EqualFold(rest, "Set-Cookie") {
			return Source{}, fmt.Errorf("the header Set-Cookie is read as %sNAME", abi.FromCookie)
		}
	case s.from == abi.FromAuth:
		scheme, parameter, _ := strings.Cut(rest, "/")
		if scheme == "" || parameter == "" {
			return Source{}, fmt.Errorf("%s needs a scheme and a parameter, such as %sDigest/nonce", abi.FromAuth, abi.FromAuth)
		}
		s.name, s.parameter = scheme, strings.ToLower(parameter)
	case s.from == abi.FromInfo:
		s.name, s.parameter = "", strings.ToLower(rest)
	case s.from != abi.FromForm && s.from != abi.FromCookie:
		return Source{}, errSource
	}
	return s, nil
}

// InBody reports whether the place is in the body.
func (s *Source) InBody() bool {
	return s.from == abi.FromJSON || s.from == abi.FromXML || s.from == abi.FromForm
}

// maxSource is the maximum length of the text of a Source, in bytes.
const maxSource = 256

var errSource = errors.New("is no place in an answer: write json:/POINTER, xml:/ELEMENT/ELEMENT, form:NAME, header:NAME, cookie:NAME, auth:SCHEME/PARAMETER or info:PARAMETER")

// pointerTokens returns the tokens of a JSON pointer (RFC 6901 section 4). The empty pointer is that of the whole document.
func pointerTokens(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return nil, errors.New("a JSON pointer begins with /, as in json:/data/token")
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return nil, errors.New("a ~ in a JSON pointer is written as ~0, and a / in a name as ~1")
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens, nil
}

// parts is an answer, with its parts parsed when they are first needed.
type parts struct {
	header http.Header
	body   []byte

	tree, form, xml  any
	treeRead         bool
	xmlRead          bool
	cookies          []*http.Cookie
	offers           []authOffer
	offersRead       bool
	chosen           map[string]*authOffer
	info             map[string]string
	infoRead, fields bool
}

// find returns the values of a list of answers that are in an answer, as texts that are not sealed yet.
func (p *parts) find(list []Answer, wanted []string, longest int) map[string]string {
	found := map[string]string{}
	for i := range list {
		a := &list[i]
		if len(wanted) > 0 && !slices.Contains(wanted, a.Name) {
			continue
		}
		raw, ok := p.at(a, list)
		if !ok {
			continue
		}
		if value, ok := a.read(raw, longest); ok {
			found[a.Name] = value
		}
	}
	return found
}

// maxPlain is the maximum length of the text of an answer that is not sealed, in bytes. It bounds the work of repeated.
const maxPlain = 1 << 10

// read returns the value of an answer in the form in which the guest gets it, except that it is not sealed. raw is a string,
// a json.Number or a bool.
func (a *Answer) read(raw any, longest int) (value string, ok bool) {
	text, ok := textOf(raw)
	if !ok || a.Kind != abi.AnswerSealed && len(text) > maxPlain {
		return "", false
	}
	switch a.Kind {
	case abi.AnswerSealed:
		there := strings.TrimSpace(text) != "" || a.Source.parameter != "" // RFC 7616 section 3.4: opaque may be empty
		return text, there && len(text) <= longest && utf8.ValidString(text)
	case abi.AnswerInteger:
		if n := seconds(raw); n != nil {
			return strconv.FormatInt(*n, 10), true
		}
	case abi.AnswerTime:
		if at, ok := readTime(raw); ok {
			return strconv.FormatInt(at, 10), true
		}
	case abi.AnswerEnum:
		return a.nameOf(text), true
	}
	return "", false
}

// nameOf returns the name of the enum that text is, in any case of letters, or that is in it if text is a list. If there are
// several, it is the first of the enum. If there is none, it is "other".
func (a *Answer) nameOf(text string) string {
	items := itemsOf(text)
	for _, name := range a.Enum {
		if strings.EqualFold(name, text) || slices.ContainsFunc(items, func(item string) bool { return strings.EqualFold(item, name) }) {
			return name
		}
	}
	return "other"
}

// itemsOf returns the items of a text that is a list.
func itemsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// milliseconds is the number from which on a time counts as milliseconds. As seconds it would be in the year 5138.
const milliseconds = 100_000_000_000

// readTime returns a time in Unix seconds. raw is a date of RFC 3339 or of HTTP (RFC 9110 section 5.6.7), or a number of
// seconds or milliseconds since 1970.
func readTime(raw any) (int64, bool) {
	text, _ := raw.(string)
	if number, ok := raw.(json.Number); ok {
		text = number.String()
	}
	text = strings.TrimSpace(text)
	if at, err := strconv.ParseFloat(text, 64); err == nil && at >= 0 && at < milliseconds*1000 {
		if at >= milliseconds {
			at /= 1000
		}
		return int64(math.Floor(at)), true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Unix(), true
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Unix(), true
	}
	return 0, false
}

// at returns the value of an answer.
func (p *parts) at(a *Answer, list []Answer) (value any, ok bool) {
	if value, ok = p.valueAt(&a.Source, list); !ok {
		value, ok = p.valueAt(&a.Alternative, list)
	}
	return value, ok
}

// valueAt returns the value at a place.
func (p *parts) valueAt(s *Source, list []Answer) (value any, ok bool) {
	switch s.from {
	case abi.FromJSON:
		return p.json(s.pointer)
	case abi.FromXML:
		if !p.xmlRead {
			p.xml, p.xmlRead = readXML(p.body), true
		}
		return below(p.xml, s.pointer)
	case abi.FromForm:
		if !p.fields {
			values, err := url.ParseQuery(string(p.body))
			p.fields = true
			if err == nil {
				p.form = values
			}
		}
		values, _ := p.form.(url.Values)
		return values.Get(s.name), values.Has(s.name)
	case abi.FromHeader:
		values := p.header.Values(s.name)
		return strings.Join(values, ", "), len(values) > 0
	case abi.FromCookie:
		if p.cookies == nil {
			p.cookies = (&http.Response{Header: p.header}).Cookies()
		}
		for _, cookie := range slices.Backward(p.cookies) { // the last one wins (RFC 6265 section 5.3)
			if cookie.Name == s.name {
				return cookie.Value, true
			}
		}
	case abi.FromAuth:
		if offer := p.offer(s.name, list); offer != nil {
			value, ok := offer.parameters[s.parameter]
			return value, ok
		}
	case abi.FromInfo:
		if !p.infoRead {
			p.info, p.infoRead = readParameters(strings.Join(p.header.Values("Authentication-Info"), ", ")), true
		}
		value, ok := p.info[s.parameter]
		return value, ok
	}
	return nil, false
}

// json returns the value at a JSON pointer.
func (p *parts) json(pointer []string) (value any, ok bool) {
	if !p.treeRead {
		p.treeRead = true
		if err := strictjson.UnmarshalOpen(p.body, &p.tree); err != nil {
			p.tree = nil
		}
	}
	return below(p.tree, pointer)
}

// below returns the value at a pointer into a tree.
func below(value any, pointer []string) (_ any, ok bool) {
	for _, token := range pointer {
		switch v := value.(type) {
		case map[string]any:
			if value, ok = v[token]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// offer returns the first offer of an authentication scheme whose parameters all have values that the enums of list know, or
// nil. So a plugin does not answer an offer with an algorithm that it does not have if another one follows.
func (p *parts) offer(scheme string, list []Answer) *authOffer {
	if !p.offersRead {
		p.offers, p.offersRead = readOffers(p.header.Values("WWW-Authenticate")), true
		p.chosen = map[string]*authOffer{}
	}
	scheme = strings.ToLower(scheme)
	if offer, known := p.chosen[scheme]; known {
		return offer
	}
	p.chosen[scheme] = nil
	for i := range p.offers {
		offer := &p.offers[i]
		if offer.scheme == scheme && offer.fits(list) {
			p.chosen[scheme] = offer
			return offer
		}
	}
	return nil
}

func (o *authOffer) fits(list []Answer) bool {
	return !slices.ContainsFunc(list, func(a Answer) bool {
		value, there := o.parameters[a.Source.parameter]
		return a.Kind == abi.AnswerEnum && a.Source.from == abi.FromAuth && strings.EqualFold(a.Source.name, o.scheme) &&
			there && a.nameOf(value) == "other"
	})
}

// sealAnswers seals the values of a list that are sealed, and returns all of them as the guest gets them.
func (c *Call) sealAnswers(list []Answer, found map[string]string) map[string]string {
	for i := range list {
		a := &list[i]
		value, ok := found[a.Name]
		if ok && a.Kind == abi.AnswerSealed {
			found[a.Name] = c.seal(a.value(value))
		}
	}
	return found
}

// value returns a sealed answer with its sinks.
func (a *Answer) value(text string) seal.Value {
	return seal.Value{Text: text, Sinks: a.Sinks, Derived: a.Derived, Mask: "<" + a.Name + ">"}
}

// SealedAnswers returns the sealed values that are in an answer of an endpoint, by name. It is for tests, which search for
// them. It skips answers whose place is a field.
func SealedAnswers(list []abi.Answer, header http.Header, body []byte) map[string]string {
	var answers []Answer
	for _, a := range list {
		if source, err := ParseSource(a.From); err == nil && a.Kind == abi.AnswerSealed {
			alternative, _ := ParseSource(a.Alternative)
			answers = append(answers, Answer{Answer: a, Source: source, Alternative: alternative})
		}
	}
	return (&parts{header: header, body: body}).find(answers, nil, maxSealed)
}
