package sdk

import (
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// Compose returns a text of the outgoing request, such as the one that is signed. The template is text with placeholders in
// braces, such as {method}, {header:Date} or {body|sha256|hex}; ABI.md lists them. A \ stands before a { and a \ that are text;
// \n, \t and \r are control characters. values are further placeholders: {name} is replaced by the value of that name. Neither
// values nor what the host puts in are read for placeholders, see also [EscapeTemplate].
//
// What comes from a secret is a sealed value, as in [Call.Request]. After a placeholder of the request, the call cannot use the
// cache or request a token. All placeholders of time in a call stand for one time, that of the API, as far as that is known.
// A template that is wrong ends the call.
func (c *Call) Compose(template string, values ...Pair) string {
	return c.ComposeWith(template, Mutation{}, values...)
}

// ComposeWith is like [Call.Compose] for the request as it will be sent with the headers, the query parameters and the form of a mutation.
func (c *Call) ComposeWith(template string, m Mutation, values ...Pair) string {
	return c.composeWith(template, false, m, values)
}

// ComposeLater is like [Call.ComposeWith], but returns a reference in place of the text. If a plugin uses it for all that differs from
// request to request, the host repeats its calls of compose, MAC, Digest and Encode for the next request without running the plugin. What
// the plugin has seen by [Call.Compose] must be the same then. Any other use of the request, of the clock or of random bytes makes the
// plugin run for each request.
func (c *Call) ComposeLater(template string, m Mutation, values ...Pair) string {
	return c.composeWith(template, true, m, values)
}

func (c *Call) composeWith(template string, later bool, m Mutation, values []Pair) string {
	if !strings.ContainsAny(template, TemplateEscape) {
		return template
	}
	var o Members
	o.pairs("headers", m.Headers)
	o.pairs("query", m.Query)
	o.pairs("form", m.Form)
	o.pairs("values", values)
	o.flag("later", later)
	if len(o.b) > 0 {
		o.b = add(o.b, "}")
	}
	return c.env.Compose(template, o.b)
}

// ComposeObject composes the texts of a JSON object, such as the value of an [Object], at any depth, as [Call.Compose] does. Names of
// members stay as they are.
func (c *Call) ComposeObject(object string, values ...Pair) string {
	b, _ := c.composeValue(nil, object, 0, values)
	return string(b)
}

// composeValue appends the JSON value that begins at i, with its texts composed, and returns the index behind it.
func (c *Call) composeValue(b []byte, s string, i int, values []Pair) (_ []byte, end int) {
	i = space(s, i)
	switch {
	case i >= len(s):
		return b, i
	case s[i] == '"':
		text, end := textAt(s, i)
		return appendString(b, c.Compose(text, values...)), end
	case s[i] != '{' && s[i] != '[':
		end = value(s, i)
		return add(b, s[i:end]), end
	}
	opening, separator := s[i], s[i:i+1]
	end, _ = each(s, i, opening, opening+2, func(name string, i int) (end int, _ error) { // } is two behind {, and ] behind [
		b = add(b, separator)
		separator = ","
		if opening == '{' {
			b = add(appendString(b, name), ":")
		}
		b, end = c.composeValue(b, s, i, values)
		return end, nil
	})
	if separator != "," { // empty
		b = add(b, separator)
	}
	return add(b, s[end-1:end]), end
}

// Parts returns a value for each member of an object field whose values are templates of [Call.Compose], in the order of their
// names. A template may use the values of those before it.
func (c *Call) Parts(field string) (values []Pair, err error) {
	parts, err := Pairs(c.Config(field))
	for _, p := range parts {
		values = append(values, Pair{Name: p.Name, Value: c.Compose(p.Value, values...)})
	}
	return values, err
}

// EscapeTemplate returns text with escapes, so that it stands for itself in a template of [Call.Compose].
func EscapeTemplate(text string) string {
	var b []byte
	from := 0
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == '\\' || c == '{' {
			b = append(append(b, text[from:i]...), '\\')
			from = i
		}
	}
	if b == nil {
		return text
	}
	return string(append(b, text[from:]...))
}

// FormatTime returns a time in UTC, from 1970 on and given in Unix milliseconds, in a format with some of the conversions of
// strftime: %Y, %m, %d, %H, %M, %S, %a and %b for names in English, %s for Unix seconds, %L for milliseconds, and %%. All else
// stays as it is.
func FormatTime(millis int64, format string) string { return contract.FormatTime(millis, format) }

// TemplateEscape is the Escape of a field whose texts have placeholders of [Fill].
const TemplateEscape = `\{`

// Fill returns a JSON document, such as the value of an [Object], with values in place of {NAME} in its texts and names. There, \\ and
// \{ stand for \ and {; any other backslash and { stay. The values may be sealed, and are not read for placeholders. The field needs
// [TemplateEscape].
func Fill(document string, values ...Pair) string {
	var b []byte
	for {
		i := 0
		for i < len(document) && document[i] != '{' && document[i] != '\\' {
			i++
		}
		b, document = append(b, document[:i]...), document[i:]
		if document == "" {
			return string(b)
		}
		n := 1
		switch {
		case document[0] == '{':
			for _, v := range values {
				if strings.HasPrefix(document[1:], v.Name+"}") {
					filled := appendString(nil, v.Value)
					b, document, n = append(b, filled[1:len(filled)-1]...), document[len(v.Name)+2:], 0
					break
				}
			}
		case strings.HasPrefix(document, `\\{`): // \{, written in JSON
			document = document[len(`\\`):]
		case strings.HasPrefix(document, `\\\\`): // \\, written in JSON
			document, n = document[len(`\\`):], len(`\\`)
		default: // an escape of JSON
			n = len(`\n`)
		}
		b, document = append(b, document[:n]...), document[n:]
	}
}
