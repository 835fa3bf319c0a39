package imports

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
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

// A Field is a field of an object. Its Value is a text or Fields.
type Field struct {
	Name  string
	Value any
}

func (f *Fields) add(name string, value any) {
	if value != "" {
		*f = append(*f, Field{name, value})
	}
}

// YAML returns the lines of the connector as an item of a list, the first of which begins with a hyphen. They are not indented.
func (c *Connector) YAML() string {
	var b strings.Builder
	line := func(name, value string) { b.WriteString("  " + name + ": " + value + "\n") }
	line("name", scalar(c.Name))
	line("url", scalar(c.URL))
	if len(c.Methods) > 0 {
		line("method", flow(c.Methods))
	}
	const short = 3
	switch {
	case len(c.Paths) > short:
		b.WriteString("  paths:\n")
		for _, path := range c.Paths {
			b.WriteString("    - " + scalarInFlow(path) + "\n")
		}
	case len(c.Paths) > 0:
		line("paths", flow(c.Paths))
	}
	parameters(&b, "headers", c.Headers)
	parameters(&b, "query", c.Query)
	b.WriteString("  auth:\n    type: " + scalar(c.Type) + "\n")
	if len(c.Config) > 0 {
		b.WriteString("    config:\n")
		c.Config.write(&b, "      ")
	}
	if len(c.TLS) > 0 {
		b.WriteString("  tls:\n")
		c.TLS.write(&b, "    ")
	}
	return "- " + strings.TrimPrefix(b.String(), "  ")
}

func parameters(b *strings.Builder, member string, all []Parameter) {
	if len(all) == 0 {
		return
	}
	b.WriteString("  " + member + ":\n")
	for _, p := range all {
		overridable := ""
		if p.Overridable {
			overridable = ", overridable: true"
		}
		b.WriteString("    - {name: " + scalarInFlow(p.Name) + ", value: " + scalarInFlow(p.Value) + overridable + "}\n")
	}
}

func (f Fields) write(b *strings.Builder, indent string) {
	for _, field := range f {
		if below, ok := field.Value.(Fields); ok {
			b.WriteString(indent + scalar(field.Name) + ":\n")
			below.write(b, indent+"  ")
			continue
		}
		text, _ := field.Value.(string)
		b.WriteString(indent + scalar(field.Name) + ": " + scalar(text) + "\n")
	}
}

func flow(all []string) string {
	texts := make([]string, len(all))
	for i, text := range all {
		texts[i] = scalarInFlow(text)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

var (
	// plain matches texts that need no quotes in YAML, unless they mean something else than a text.
	plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/._+~()'-]*([ :][A-Za-z0-9/._+~()'&=?%@-]+)*$`)
	// inFlow matches those of them that need none in brackets either.
	inFlow  = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9 /._+~*-]*$`)
	meaning = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// scalar returns a text in YAML. It is plain only where no reader of YAML takes it for something else.
func scalar(text string) string {
	if plain.MatchString(text) && !meaning.MatchString(text) && !strings.Contains(text, ": ") {
		return text
	}
	return quoted(text)
}

func scalarInFlow(text string) string {
	if inFlow.MatchString(text) && !meaning.MatchString(text) && text == strings.TrimSpace(text) {
		return text
	}
	return quoted(text)
}

// quoted returns a text in double quotes. What is not printable is escaped, so that a terminal can show the file.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
