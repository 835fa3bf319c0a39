// Package compose makes the texts that plugins sign of an outgoing request, by templates and in canonical forms.
package compose

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
)

const (
	// maxComposed bounds the work of compose in a call: the bytes of templates, values and formats, each as often as it is read, and
	// the headers and values that a name is compared with. Fuel counts only what comes from the guest and goes to it.
	maxComposed = 2 << 20
	sortWeight  = 16       // bytes that a byte of a query counts as when it is sorted, which takes longer than to copy it
	maxKept     = 16 << 10 // maximum size of a buffer that is kept
	nonceBytes  = 16       // random bytes of {nonce}
)

// Call is the call of a guest, as compose needs it.
type Call interface {
	// Request returns the outgoing request, and records that the guest reads it.
	Request() *http.Request
	// ContentLength returns the length of the request's body in decimal, or "" if it is not known.
	ContentLength() string
	// HasBody reports whether the request has a body that is not empty.
	HasBody() bool
	// Shows reports whether guests may see a header that they do not see otherwise, as a reference.
	Shows(header string) bool
	// Sealer returns what seals the secrets in texts of the request, of which the longest has longest bytes.
	Sealer(longest int) Sealer
	// Plain reports whether text contains no sealed values.
	Plain(text string) bool
	// RejectSealed ends the call if text, in a place that takes no sealed values, contains one.
	RejectSealed(where, text string)
	// Endf ends the call with an error of the plugin.
	Endf(format string, args ...any)

	Body() string
	ClockOffset() int64
	ConfigGet(name string) (string, bool)
	Digest(algorithm, data string) string
	Encode(format, text string) string
	Random(bytes int64) string
	TimeMillis() int64
	// Varies records that a text depends on the clock or on random bytes.
	Varies()
}

// Sealer replaces secrets in texts of the request by references.
type Sealer interface {
	// Text returns text with references in place of secrets.
	Text(text string) string
	// Part returns text[from:to] like Text. If a secret begins or ends outside of it, all of it becomes a reference.
	Part(text string, from, to int) string
}

// Composer is shared by all calls of compose in a call of a guest.
type Composer struct {
	call Call
	// request is read when a placeholder of the request is first used.
	request request
	// millis is the time of the API, or 0 until it is first needed.
	millis int64
	nonce  string
	work   int
	// selected are the headers that selection, the last list, has selected of the request with changes, and with a form if form is set.
	selected  []abi.Pair
	selection string
	changes   []abi.Pair
	form      bool
}

// composition is one call of compose.
type composition struct {
	*Composer
	*contract.Composition
	// plain is set if the template has no sealed values.
	plain bool
	// longer is the query with what the composition adds, or empty until it is needed.
	longer string
}

// New returns a Composer for a call.
func New(call Call) *Composer { return &Composer{call: call} }

// Compose returns a text of the outgoing request by a template. The host writes it, since code in the sandbox is many times slower,
// and each plugin would need its own. A guest sees nothing that Input would not show: texts from secrets are sealed before anything
// is made of them. problem says what is wrong with the template.
func (k *Composer) Compose(template string, with *contract.Composition) (text, problem string) {
	t := composition{Composer: k, Composition: with}
	t.count(len(template))
	for _, pairs := range [...][]abi.Pair{with.Headers, with.Query, with.Form, with.Values} {
		for _, p := range pairs {
			t.count(len(p.Name) + len(p.Value))
		}
	}
	buffer := buffers.Get().(*[]byte)
	b := (*buffer)[:0]
	t.plain = k.call.Plain(template)
	problem = contract.ScanTemplate(template, func(text string) { b = append(b, text...) }, func(placeholder string) (problem string) {
		b, problem = t.append(b, placeholder)
		return problem
	})
	text = string(b)
	if cap(b) <= maxKept {
		*buffer = b
		buffers.Put(buffer)
	}
	return text, problem
}

// buffers has the memory in which texts are composed. They hold no secrets, but references.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// count ends the call if compose has read more than maxComposed bytes in it.
func (k *Composer) count(bytes int) {
	if k.work += bytes; k.work > maxComposed {
		k.call.Endf("compose reads more than %d bytes in a call, with those that its formats read", maxComposed)
	}
}

// append appends the value of a placeholder to b. problem says what is wrong with the placeholder.
func (t *composition) append(b []byte, placeholder string) (_ []byte, problem string) {
	if !t.plain {
		t.call.RejectSealed("a placeholder of compose", placeholder)
	}
	first, rest, more := strings.Cut(placeholder, "|")
	start := len(b)
	b, found, valid := t.appendPart(b, first)
	t.count(len(b) - start)
	if !valid {
		return b, t.problem(placeholder)
	}
	if !more {
		return b, ""
	}
	value := string(b[start:])
	for ; more; t.count(len(value)) {
		var word string
		if word, rest, more = strings.Cut(rest, "|"); word != contract.Required {
			if value, valid = t.format(word, value); !valid {
				return b, t.problem(placeholder)
			}
		} else if !found {
			t.call.Endf("the request has no {%s}, which is to be signed: send it, or take it out of what is signed", printable.Text(first, 128))
		}
	}
	return append(b[:start], value...), ""
}

func (t *composition) format(word, value string) (_ string, valid bool) {
	if slices.Contains(contract.Digests, word) {
		return t.call.Digest(word, value), true
	}
	if _, valid = Formats[word]; !valid {
		return "", false
	}
	if strings.HasPrefix(word, "query_") {
		t.count(sortWeight * len(value))
	}
	return t.call.Encode(word, value), true
}

// problem returns what is wrong with a placeholder that is unknown or has an unknown format.
func (t *composition) problem(placeholder string) string {
	var names []string
	for _, v := range t.Values {
		names = append(names, v.Name)
	}
	return contract.CheckPlaceholder(placeholder, names)
}

// appendPart appends the value of a placeholder without its formats. found reports whether the request has what it stands for.
func (t *composition) appendPart(b []byte, word string) (_ []byte, found, valid bool) {
	t.count(len(t.Values))
	for _, v := range t.Values {
		if v.Name == word {
			return append(b, v.Value...), true, true
		}
	}
	if name, argument, ok := strings.Cut(word, ":"); ok {
		return t.appendNamed(b, name, argument)
	}
	switch word {
	case "body":
		b = append(b, t.call.Body()...)
		return t.appendPairs(b, t.Form, contract.FormatForm, len(t.Form) > 0 && t.call.HasBody()), true, true
	case "timestamp":
		return strconv.AppendInt(b, t.now()/1000, 10), true, true
	case "timestamp_ms":
		return strconv.AppendInt(b, t.now(), 10), true, true
	case "iso8601":
		return append(b, contract.FormatTime(t.now(), "%Y-%m-%dT%H:%M:%SZ")...), true, true
	case "nonce":
		t.call.Varies()
		if t.nonce == "" {
			t.nonce = t.call.Random(nonceBytes)
		}
		return append(b, t.nonce...), true, true
	}
	return t.appendRequest(b, word)
}

// appendPairs appends what the composition adds to the query or to the body, as it is sent. behind is set if there is something before it.
func (t *composition) appendPairs(b []byte, pairs []abi.Pair, format string, behind bool) []byte {
	for i, p := range pairs {
		if i > 0 || behind {
			b = append(b, '&')
		}
		b = append(append(b, t.call.Encode(format, p.Name)...), '=')
		b = append(b, t.call.Encode(format, p.Value)...)
	}
	return b
}

// appendNamed appends the value of a placeholder with an argument.
func (t *composition) appendNamed(b []byte, name, argument string) (_ []byte, found, valid bool) {
	if argument == "" {
		return b, false, false
	}
	var value string
	switch name {
	case "time":
		value, found = contract.FormatTime(t.now(), argument), true
	case "config":
		value, found = t.call.ConfigGet(argument)
	case "path":
		value, found = t.below(argument), true
	case "header":
		if contract.Unseen(argument) && !t.call.Shows(argument) {
			return b, false, false
		}
		value, found = t.header(argument)
	case "query_param":
		value, found = t.parameter(argument)
	case "query_names":
		value, found = t.parameterNames(argument)
	case "headers", "header_names":
		separator := byte(';')
		if name == "headers" {
			separator = '\n'
		}
		for i, h := range t.list(argument) {
			if i > 0 {
				b = append(b, separator)
			}
			if b = append(b, h.Name...); name == "headers" {
				b = append(append(b, ':'), h.Value...)
			}
			found = true
		}
	default:
		return b, false, false
	}
	return append(b, value...), found, true
}

// now returns the time of the API in Unix milliseconds, the same in all of the call.
func (k *Composer) now() int64 {
	k.call.Varies()
	if k.millis == 0 {
		k.millis = k.call.TimeMillis() + 1000*k.call.ClockOffset()
	}
	return k.millis
}

// appendRequest appends the value of a placeholder of the request.
func (t *composition) appendRequest(b []byte, word string) (_ []byte, found, ok bool) {
	text := requestTexts[word]
	if text == nil && word != "query" && word != "target" && word != "url" && word != "content_length" {
		return b, false, false
	}
	r := t.read()
	switch word {
	case "query":
		query, there := t.query()
		return append(b, query...), there, true
	case "target":
		return t.appendTarget(b), true, true
	case "content_length":
		length := t.length()
		return append(b, length...), length != "", true
	case "url":
		return t.appendTarget(append(append(append(b, r.scheme...), "://"...), r.host...)), true, true
	}
	return append(b, text(r)...), true, true
}

// requestTexts has the placeholders whose values the request has as they are.
var requestTexts = map[string]func(r *request) string{
	"method":    func(r *request) string { return r.method },
	"scheme":    func(r *request) string { return r.scheme },
	"host":      func(r *request) string { return r.host },
	"hostname":  (*request).hostname,
	"port":      (*request).port,
	"authority": (*request).authority,
	"path":      func(r *request) string { return r.path },
}
