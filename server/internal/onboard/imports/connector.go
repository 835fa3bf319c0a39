package imports

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

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

// add adds a field, unless its value is empty.
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
