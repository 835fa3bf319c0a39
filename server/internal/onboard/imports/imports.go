// Package imports makes connectors of what API providers publish: the security schemes of an OpenAPI document, or a command line of
// curl. It never fetches anything, and what it reads is not trusted: sizes are bounded, and texts of a document are literal.
package imports

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// Options holds the decisions of the user about an import. An empty field leaves the decision to the import.
type Options struct {
	// Scheme is the name of a security scheme of the document.
	Scheme string
	// Flow is the flow of an OAuth scheme, by its name in OpenAPI 3, such as clientCredentials.
	Flow string
	// Name is the name of the connector.
	Name string
	// URL is the base URL of the API.
	URL string
	// TokenURL is the token endpoint of an OAuth scheme.
	TokenURL string
	// Paths says which paths callers of the gateway may use, PathsRead if it is empty.
	Paths string
}

// Values of Paths in [Options].
const (
	// PathsRead stands for the paths of a document that have GET or HEAD, and for the path and method of a command line.
	PathsRead = "read"
	// PathsAll stands for the paths of a document with their methods, and for all below the URL with the method of a command line.
	PathsAll = "all"
	// PathsNone stands for no path.
	PathsNone = "none"
)

// A Result holds a connector, and what is left to do for it.
type Result struct {
	Connector *Connector
	// Secrets are the secrets that the connector names, and Variables its variables.
	Secrets, Variables []Value
	// Notes say what was decided, and what was left out.
	Notes []string
}

// A Value is a secret or a variable that the user has to supply.
type Value struct {
	Name string
	// What says what the value is, such as "the password".
	What string
}

// Missing is an error that lists what the document or the command line does not say, each with what to do.
type Missing []string

func (m Missing) Error() string { return strings.Join(m, "\n") }

type maker struct {
	*Result
	options Options
	// prefix begins the names of secrets.
	prefix  string
	missing Missing
}

// newMaker returns a maker for the connector of a result, with a name, which may come from a document, and a URL, or "".
func newMaker(r *Result, o Options, name, base string) (*maker, error) {
	if name = clean(cmp.Or(o.Name, name)); o.Name == "" && shows(name) {
		name = ""
	}
	permalink := gateway.Permalink(name)
	if permalink == "" && o.Name == "" {
		if u, err := url.Parse(base); err == nil {
			name = u.Hostname()
			permalink = gateway.Permalink(name)
		}
	}
	if permalink == "" {
		return nil, errors.New("the connector needs a name with a letter a to z or a digit: use --name")
	}
	r.Connector = &Connector{Name: name, URL: base}
	return &maker{Result: r, options: o, prefix: permalink}, nil
}

// clean returns a text of a document as a name: in one line, without characters that are not printable, and no template.
func clean(text string) string {
	const maxName = 60   // limits the runes of a name that a document has
	const longest = 4096 // of a text that is cut anyway
	var b strings.Builder
	for i, word := range strings.FieldsFunc(text[:min(len(text), longest)], func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError }) {
		if utf8.RuneCountInString(b.String())+utf8.RuneCountInString(word) > maxName {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return strings.NewReplacer("{", "(", "}", ")").Replace(b.String())
}

func (m *maker) secret(suffix, what string) string {
	name, what := secretName(m.prefix, suffix), host.Printable(what)
	for i := 2; slices.ContainsFunc(m.Secrets, func(v Value) bool { return v.Name == name && v.What != what }); i++ {
		name = secretName(m.prefix, fmt.Sprintf("%s-%d", suffix, i))
	}
	addNew(&m.Secrets, Value{name, what})
	return "{{ get_secret('" + name + "') }}"
}

// addNew adds a value to a list that does not have it.
func addNew[T comparable](list *[]T, value T) {
	if !slices.Contains(*list, value) {
		*list = append(*list, value)
	}
}

// auth sets the auth type, and adds its fields that are secrets: names, each with what the secret is.
func (m *maker) auth(kind string, secrets ...string) {
	c := m.Connector
	c.Type = kind
	for pair := range slices.Chunk(secrets, 2) {
		c.Config.add(pair[0], m.secret(pair[0], pair[1]))
	}
}

// apiKey makes the auth of a key in a place of the request.
func (m *maker) apiKey(in, key, value string) {
	m.auth("api_key")
	m.Connector.Config = Fields{{"in", in}, {"key", literal(key)}, {"value", value}}
}

// variable returns a template for a setting that is not secret.
func (m *maker) variable(suffix, what string) string {
	name := strings.ReplaceAll(secretName(m.prefix, suffix), "-", "_")
	addNew(&m.Variables, Value{name, what})
	return "{{ get_variable('" + name + "') }}"
}

// secretName returns the name of a secret: the permalink of the connector, and what the secret is.
func secretName(prefix, suffix string) string {
	return prefix + "-" + cmp.Or(gateway.Permalink(suffix), "secret")
}

func (r *Result) note(format string, args ...any) {
	const maxNotes = 50
	text := host.Printable(fmt.Sprintf(format, args...))
	switch len(r.Notes) {
	case maxNotes:
		return
	case maxNotes - 1:
		text = "there is more to say, which is left out"
	}
	addNew(&r.Notes, text)
}

func (m *maker) miss(format string, args ...any) {
	addNew((*[]string)(&m.missing), host.Printable(fmt.Sprintf(format, args...)))
}

func (m *maker) done() (*Result, error) {
	if len(m.missing) > 0 {
		return nil, m.missing
	}
	return m.Result, nil
}

// literal returns a template that is rendered to text.
func literal(text string) string { return strings.ReplaceAll(text, "{{", "{{ '{{' }}") }

// A Connector is an entry of the list connectors. All its texts are templates.
type Connector struct {
	Name, URL      string
	Methods, Paths []string
	Headers, Query []Parameter
	// Type is the auth type, and Config has its fields.
	Type   string
	Config Fields
	// TLS has the fields of the member tls.
	TLS Fields
}

// A Parameter is a header or a query parameter that each request gets.
type Parameter struct {
	Name, Value string
	Overridable bool
}

// Fields are the fields of an object, in their order.
type Fields []Field

// A Field is a field of an object. Its Value is a text, texts, parameters or Fields.
type Field struct {
	Name  string
	Value any
}

func (f *Fields) add(name string, value any) {
	if reflect.ValueOf(value).Len() > 0 {
		*f = append(*f, Field{name, value})
	}
}

// YAML returns the lines of the connector as an item of a list, the first of which begins with a hyphen. They are not indented.
func (c *Connector) YAML() string {
	auth := Fields{{"type", c.Type}}
	auth.add("config", c.Config)
	f := Fields{{"name", c.Name}, {"url", c.URL}}
	f.add("method", c.Methods)
	f.add("paths", c.Paths)
	f.add("headers", c.Headers)
	f.add("query", c.Query)
	f.add("auth", auth)
	f.add("tls", c.TLS)
	var b strings.Builder
	f.write(&b, "  ")
	return "-" + b.String()[1:]
}

func (f Fields) write(b *strings.Builder, indent string) {
	const short = 3
	for _, field := range f {
		b.WriteString(indent + scalar(field.Name) + ":")
		items := "\n" + indent + "  - "
		switch value := field.Value.(type) {
		case string:
			b.WriteString(" " + scalar(value))
		case []string:
			texts := make([]string, len(value))
			for i, text := range value {
				texts[i] = scalar(text)
			}
			if field.Name == "paths" && len(texts) > short {
				b.WriteString(items + strings.Join(texts, items))
			} else {
				b.WriteString(" [" + strings.Join(texts, ", ") + "]")
			}
		case []Parameter:
			for _, p := range value {
				b.WriteString(items + "{name: " + scalar(p.Name) + ", value: " + scalar(p.Value))
				if p.Overridable {
					b.WriteString(", overridable: true")
				}
				b.WriteString("}")
			}
		case Fields:
			b.WriteString("\n")
			value.write(b, indent+"  ")
			continue
		}
		b.WriteString("\n")
	}
}

var (
	// plain matches texts that need no quotes in YAML, in brackets neither, unless they mean something else than a text.
	plain   = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._+~()'*-]*([ :][A-Za-z0-9/._+~()'*&=?%@-]+)*$`)
	meaning = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// scalar returns a text in YAML. It is plain only where no reader of YAML takes it for something else. What is not printable is
// escaped, so that a terminal can show the file.
func scalar(text string) string {
	if plain.MatchString(text) && !meaning.MatchString(text) && !strings.Contains(text, ": ") {
		return text
	}
	return strconv.Quote(strings.ToValidUTF8(text, "\ufffd"))
}
