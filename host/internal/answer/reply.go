package answer

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
)

// Reply is an answer of an endpoint. Its parts are parsed when they are first needed.
type Reply struct {
	// Status is the HTTP status. It is 0 if there is no answer.
	Status int
	Header http.Header
	Body   []byte
	// TooLong is set if Body is longer than the host reads.
	TooLong bool
	// List is the list of the parts that the plugin's description names.
	List []Part

	tree, xml         any
	treeRead, xmlRead bool
	form              url.Values
	cookies           []*http.Cookie
	offers            []Offer
	schemeOffers      map[string]*Offer
	info              map[string]string
}

// Success reports whether the status is one from 200 to 299.
func (r *Reply) Success() bool { return r.Status >= 200 && r.Status <= 299 }

// Find returns the values of the parts that are in the answer, as texts that are not sealed yet. names are the names of the
// parts, or empty for all. A sealed value has at most longest bytes.
func (r *Reply) Find(names []string, longest int) map[string]string {
	found := map[string]string{}
	for i := range r.List {
		a := &r.List[i]
		if len(names) > 0 && !slices.Contains(names, a.Name) {
			continue
		}
		if raw, ok := r.At(a); ok {
			if value, ok := a.Read(raw, longest); ok {
				found[a.Name] = value
			}
		}
	}
	return found
}

// At returns the value of a part: a string, a json.Number, a bool, or a tree.
func (r *Reply) At(a *Part) (value any, ok bool) {
	if value, ok = r.valueAt(&a.Source); !ok {
		value, ok = r.valueAt(&a.Alternative)
	}
	return value, ok
}

func (r *Reply) valueAt(s *Source) (value any, ok bool) {
	switch s.From {
	case contract.FromJSON:
		return r.JSON(s.Pointer)
	case contract.FromXML:
		if !r.xmlRead {
			r.xml, r.xmlRead = readXML(r.Body), true
		}
		return below(r.xml, s.Pointer)
	case contract.FromText:
		text := strings.TrimSpace(string(r.Body))
		// vManage answers a login that failed with a page, and with the status 200 (developer.cisco.com/docs/sdwan, Authentication).
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		return text, isToken(text) && kind != "text/html"
	case contract.FromForm:
		if r.form == nil {
			var err error
			if r.form, err = url.ParseQuery(string(r.Body)); err != nil {
				r.form = url.Values{}
			}
		}
		return r.form.Get(s.Name), r.form.Has(s.Name)
	case contract.FromHeader:
		values := r.Header.Values(s.Name)
		return strings.Join(values, ", "), len(values) > 0
	case contract.FromCookie:
		if r.cookies == nil {
			r.cookies = (&http.Response{Header: r.Header}).Cookies()
		}
		for _, cookie := range slices.Backward(r.cookies) { // the last one wins (RFC 6265 section 5.3)
			if cookie.Name == s.Name {
				return cookie.Value, true
			}
		}
	case contract.FromAuth:
		if offer := r.offer(s.Name); offer != nil {
			value, ok := offer.Parameters[s.Parameter]
			return value, ok
		}
	case contract.FromInfo:
		if r.info == nil {
			r.info = Parameters(strings.Join(r.Header.Values("Authentication-Info"), ", "))
		}
		value, ok := r.info[s.Parameter]
		return value, ok
	}
	return nil, false
}

// isToken reports whether a body is a token alone: printable characters of ASCII without spaces. A page may come as text.
func isToken(text string) bool {
	const maxText = 8 << 10 // the maximum length of a text that is a whole body, in bytes
	return text != "" && text[0] != '<' && len(text) <= maxText && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// JSON returns the value at a JSON pointer.
func (r *Reply) JSON(pointer []string) (value any, ok bool) {
	if !r.treeRead {
		r.treeRead = true
		if err := strictjson.UnmarshalOpen(r.Body, &r.tree); err != nil {
			r.tree = nil
		}
	}
	return below(r.tree, pointer)
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

// offer returns the first offer of an authentication scheme whose parameters all have values that the enums of List know, or
// nil. So a plugin does not answer an offer with an algorithm that it does not have if another one follows.
func (r *Reply) offer(scheme string) *Offer {
	if r.schemeOffers == nil {
		r.offers, r.schemeOffers = Offers(r.Header.Values("WWW-Authenticate")), map[string]*Offer{}
	}
	scheme = strings.ToLower(scheme)
	if offer, ok := r.schemeOffers[scheme]; ok {
		return offer
	}
	r.schemeOffers[scheme] = nil
	for i := range r.offers {
		offer := &r.offers[i]
		if offer.Scheme == scheme && offer.fits(r.List) {
			r.schemeOffers[scheme] = offer
			return offer
		}
	}
	return nil
}

func (o *Offer) fits(list []Part) bool {
	return !slices.ContainsFunc(list, func(a Part) bool {
		value, there := o.Parameters[a.Source.Parameter]
		return a.Kind == contract.AnswerEnum && a.Source.From == contract.FromAuth && strings.EqualFold(a.Source.Name, o.Scheme) &&
			there && a.nameOf(value) == "other"
	})
}

// Code returns the error code of a token endpoint, if there is one.
func (r *Reply) Code() string {
	value, _ := r.JSON([]string{"error"})
	if code, ok := value.(string); ok {
		return registered(code, ErrorCodes)
	}
	return ""
}

// Sealed returns the sealed values that are in an answer of an endpoint, by name. It is for tests, which search for
// them. It skips answers whose place is a field.
func Sealed(list []abi.Answer, header http.Header, body []byte) map[string]string {
	var parts []Part
	for _, a := range list {
		if source, err := ParseSource(a.From); err == nil && a.Kind == contract.AnswerSealed {
			alternative, _ := ParseSource(a.Alternative)
			parts = append(parts, Part{Answer: a, Source: source, Alternative: alternative})
		}
	}
	return (&Reply{Header: header, Body: body, List: parts}).Find(nil, MaxSealed)
}

// readXML returns a document as JSON would have it: the root and each element with elements as an object of these, by local names, the
// first of each; and each other element as its text. The lines of a text are joined without the blanks around them, since AWS documents a
// session token that is broken into lines. A document in another encoding than UTF-8, with a DOCTYPE or a processing instruction, or that
// is nested deeper than maxXML is nil, as is one that is not well-formed: encoding/xml knows no entities but the five of XML.
func readXML(body []byte) any {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	open := []*element{{}}
	for {
		token, err := decoder.Token()
		top := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if len(open) > maxXML || len(open) == 1 && top.elements != nil { // a second root
				return nil
			}
			open = append(open, &element{name: t.Name.Local})
		case xml.EndElement:
			open = open[:len(open)-1]
			above := open[len(open)-1]
			if above.elements == nil {
				above.elements = map[string]any{}
			}
			if _, there := above.elements[top.name]; !there {
				above.elements[top.name] = top.value()
			}
		case xml.CharData:
			top.text.Write(t)
		case xml.Directive:
			return nil
		case xml.ProcInst:
			if t.Target != "xml" {
				return nil
			}
		case nil:
			if !errors.Is(err, io.EOF) || top.elements == nil {
				return nil
			}
			return top.elements
		}
	}
}

type element struct {
	name     string
	elements map[string]any
	text     strings.Builder
}

func (e *element) value() any {
	if e.elements != nil {
		return e.elements
	}
	var text strings.Builder
	for line := range strings.SplitSeq(e.text.String(), "\n") {
		text.WriteString(strings.TrimSpace(line))
	}
	return text.String()
}

// An answer that is an integer, a time or an enum is plain for the guest, and a sealed one that is kept is compared with the one before
// it. If it held a credential, the guest would have its digits, or learn by an echo whether the credential is equal to a guess. So what
// repeats a text of its request is not read. A guess is refused like the credential: otherwise, that would be the answer.

// Sent holds the texts that an answer may not repeat, in lower case.
type Sent struct {
	// credentials are the credentials of a request, and request is all that a plugin may have written into it.
	credentials, request []string
	// Names reports whether an enum may repeat its own names that were sent: endpoints do that, with a type of token.
	Names bool
	// Now is the host's time. A time within a day of it may repeat one that was sent: a token says when it was issued and ends, and a
	// server's clock or its own token the same. Guests know the time.
	Now time.Time
}

// near reports whether a value of kind time is within a day of now.
func (s *Sent) near(value string) bool {
	unix, err := strconv.ParseInt(value, 10, 64)
	return err == nil && s.Now.Sub(time.Unix(unix, 0)).Abs() < 24*time.Hour
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
// counts below leakscan.MinText, where it happens by chance. Of what is common, only credentials count.
func (s *Sent) repeats(text string, common bool) bool {
	return slices.ContainsFunc(leakscan.Decoded([]string{text}), func(text string) bool {
		text = strings.ToLower(text)
		appears := func(value string) bool { return len(value) >= leakscan.MinText && strings.Contains(text, value) }
		return len(text) >= leakscan.MinText && (slices.ContainsFunc(s.credentials, appears) || !common && slices.ContainsFunc(s.request, func(value string) bool {
			return appears(value) || strings.Contains(value, text)
		}))
	})
}

// Repeated returns the name of the first part that repeats a text, or "". The part is plain, or sealed and kept. previous are the values of
// earlier answers, by their names. The API may repeat these. Repeated calls load at most once, if it needs the texts.
func (r *Reply) Repeated(found map[string]string, sealed bool, load func() *Sent, previous ...map[string]string) string {
	load = sync.OnceValue(load)
	for i := range r.List {
		a := &r.List[i]
		value, ok := found[a.Name]
		if !ok || sealed != (a.Kind == contract.AnswerSealed) || sealed && !a.Keep {
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
			s := load()
			common := s.Names && slices.ContainsFunc(a.Enum, func(name string) bool { return strings.EqualFold(name, piece) })
			if s.repeats(piece, common || a.Kind == contract.AnswerTime && s.near(value)) {
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
	words := func(text, signs string) []string {
		return strings.FieldsFunc(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(signs, r)
		})
	}
	var all []string
	for _, text := range leakscan.Decoded(texts) {
		for _, packed := range append(words(text, "+/-_"), text) { // the signs of Base64
			for _, part := range lowered([]string{packed}) {
				all = append(append(all, part), words(part, "")...)
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(part string) bool { return len(part) < leakscan.MinText })
}
