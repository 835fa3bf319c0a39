package connectors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
)

// A field is a field of a struct and the member of the file that it holds. The name of the member is that in the tag "file",
// or else the field's name in snake case. A field with the name "-" is not read. Options of the tag:
//
//	required  the member must be present
//	blank     the text may be empty
//	path      the text is the path of a file, relative to the directory of this file
//
// A name in texts is an option, too. The tag "default" has the value of a member that is missing, for the schema.
type field struct {
	reflect.StructField
	name    string
	options []string
}

func (f *field) is(option string) bool { return slices.Contains(f.options, option) }

// text returns the kind of text that the tag names, or nil.
func (f *field) text() *text {
	for _, option := range f.options {
		if t, ok := texts[option]; ok {
			return &t
		}
	}
	return nil
}

var (
	fieldsByType sync.Map
	wordsOfName  = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// fieldsOf returns the fields of a struct, including those of embedded structs.
func fieldsOf(t reflect.Type) (all []field) {
	if cachedFields, ok := fieldsByType.Load(t); ok {
		return cachedFields.([]field)
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, options, _ := strings.Cut(f.Tag.Get("file"), ","); name != "-" && f.IsExported() && !f.Anonymous {
			all = append(all, field{f, MemberName(f), strings.Split(options, ",")})
		}
	}
	fieldsByType.Store(t, all)
	return all
}

// MemberName returns the name of the member of a file that a field holds. It returns one for a field that is not read from files, too.
func MemberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("file"), ",")
	return cmp.Or(strings.TrimPrefix(name, "-"), strings.ToLower(wordsOfName.ReplaceAllString(f.Name, "${1}${3}_${2}${4}")))
}

// kindWords describes the values of some members, and of their items, in more detail than "an object" or "a list".
var kindWords = map[string]string{
	"":           "an object with the member connectors",
	"connectors": "a list of connectors, each beginning with a hyphen,", "connectors[]": "an object with name, url and auth",
	"plugins": "a list of plugins, each beginning with a hyphen,", "plugins[]": "an object with path, or with name and ref",
	"secrets": "a list of stores, each with a type,", "secrets[]": "an object with type",
	"identities": "a list of identities, each with a type and a name,", "identities[]": "an object with type, name and for",
	"headers": "a list, each of whose items has name and value,", "headers[]": "an object with name and value",
	"query": "a list, each of whose items has name and value,", "query[]": "an object with name and value",
	"state": "an object with type and keys", "egress": "an object with allow, ca_file, proxy or plain_http",
	"auth": "an object with type and config", "auth[]": "an object with type and config", "grants": "a list", "tls": "an object with certificates",
}

// decode reads an object into a struct. It reports unknown and missing members, and values of the wrong kind.
func (d *definer) decode(n *node, path string, into any) {
	d.object(n, path, reflect.ValueOf(into).Elem())
}

func (d *definer) object(n *node, path string, to reflect.Value) {
	var names []string
	for _, f := range fieldsOf(to.Type()) {
		names = append(names, f.name)
	}
	for _, m := range n.members {
		if slices.Contains(names, m.name) || d.skip() {
			continue
		}
		d.report(m.key, problem.Join(path, m.name), "is not known here%s", problem.DidYouMean(m.name, names))
		if suggestion, ok := problem.Nearest(m.name, names); ok {
			d.suggestions[n] = append(d.suggestions[n], suggestion)
		}
	}
	d.members(n, path, to)
}

// members is like object, but ignores unknown members.
func (d *definer) members(n *node, path string, to reflect.Value) {
	fields := fieldsOf(to.Type())
	for i := range fields {
		f := &fields[i]
		switch m := n.get(f.name); {
		case m != nil:
			d.value(m.value, problem.Join(path, f.name), f, to.FieldByIndex(f.Index))
		case f.is("required") && !d.reportedAsTypo(n, f.name):
			d.report(n.Place, problem.Join(path, f.name), "is missing")
		}
	}
}

// reportedAsTypo reports whether a missing member was already reported under a misspelt name.
func (d *definer) reportedAsTypo(n *node, name string) bool {
	return slices.Contains(d.suggestions[n], name)
}

// value reads the value of a member or an item of a list. The name of an item is that of the list followed by brackets.
func (d *definer) value(n *node, path string, f *field, to reflect.Value) {
	switch to := to.Addr().Interface().(type) {
	case **node:
		*to = n
	case *string:
		*to = d.text(n, path, f)
	case *[]string:
		*to = d.texts(n, path, f)
	case *bool:
		yes, ok := n.value.(bool)
		if *to = yes; !ok {
			d.report(n.Place, path, "is %s: true or false is wanted", n.describe())
		}
	case *float64:
		*to = d.number(n, path)
	case *int:
		*to = int(d.integer(n, path))
	case *int64:
		*to = int64(d.integer(n, path))
	case *time.Duration:
		*to = d.duration(n, path)
	case *map[string]any:
		if !n.isNull() && d.is(n, object, path, f.name) {
			*to, _ = n.decoded().(map[string]any)
		}
	case *map[string]string:
		if d.is(n, object, path, f.name) {
			*to = map[string]string{}
			for _, m := range n.members {
				(*to)[m.name] = d.text(m.value, problem.Join(path, m.name), &field{})
			}
		}
	default:
		d.contents(n, path, f, reflect.ValueOf(to).Elem())
	}
}

// contents reads a struct, a pointer to a struct, or a list.
func (d *definer) contents(n *node, path string, f *field, to reflect.Value) {
	switch {
	case to.Type() == reflect.TypeFor[host.Auths]() && n.kind != list: // one
		to.Set(reflect.MakeSlice(to.Type(), 1, 1))
		d.value(n, path, f, to.Index(0))
	case to.Kind() == reflect.Slice:
		items := d.items(n, path, f.name)
		to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
		for i, item := range items {
			d.value(item, fmt.Sprintf("%s[%d]", path, i), &field{name: f.name + "[]"}, to.Index(i))
		}
	case !d.is(n, object, path, f.name):
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		d.object(n, path, to.Elem())
	default:
		d.object(n, path, to)
	}
}

// is reports whether a value is of kind k. If not, it adds a problem.
func (d *definer) is(n *node, k kind, path, name string) bool {
	if n.kind != k {
		d.report(n.Place, path, "is %s: %s is wanted", n.describe(), cmp.Or(kindWords[name], "an "+string(k)))
	}
	return n.kind == k
}

// items returns the items of a list. For another value it adds a problem and returns nil.
func (d *definer) items(n *node, path, name string) []*node {
	d.is(n, list, path, name)
	return n.items
}

// firstItems returns the first items of a list, up to limit. If there are more, it adds a problem, in which what names them.
func (d *definer) firstItems(items []*node, limit int, path, what string) []*node {
	if len(items) <= limit {
		return items
	}
	d.report(items[limit].Place, path, "has more than %d %s", limit, what)
	return items[:limit]
}

func (d *definer) text(n *node, path string, f *field) string {
	text, ok := n.value.(string)
	switch _, number := n.value.(json.Number); {
	case number:
		d.report(n.Place, path, "is a number, text is wanted: put it in quotes")
	case !ok:
		d.report(n.Place, path, "is %s, text is wanted", n.describe())
	case text == "" && f.is("blank"):
	case strings.TrimSpace(text) == "":
		d.report(n.Place, path, "is empty")
		return ""
	case f.is("path") && !filepath.IsAbs(text):
		return filepath.Join(d.dir, text)
	}
	return text
}

func (d *definer) texts(n *node, path string, f *field) (all []string) {
	switch n.kind {
	case scalar:
		if text := d.text(n, path, f); text != "" {
			return []string{text}
		}
		return nil
	case object:
		d.report(n.Place, path, "is an object: a text, or a list of texts, is wanted")
	}
	for i, item := range n.items {
		text, ok := item.value.(string)
		if !ok {
			d.report(item.Place, fmt.Sprintf("%s[%d]", path, i), "is %s, text is wanted", item.describe())
			continue
		}
		all = append(all, text)
	}
	return all
}

func (d *definer) number(n *node, path string) float64 {
	text, ok := n.value.(json.Number)
	value, err := text.Float64()
	if !ok || err != nil || value <= 0 {
		d.report(n.Place, path, "is not a number above 0")
		return 0
	}
	return value
}

func (d *definer) integer(n *node, path string) float64 {
	value := d.number(n, path)
	if value != float64(int64(value)) || value > 1<<40 {
		d.report(n.Place, path, "is not a whole number, or too large")
		return 0
	}
	return value
}

// duration reads a duration such as 15s or 1m30s, of at most an hour.
func (d *definer) duration(n *node, path string) time.Duration {
	text, _ := n.value.(string)
	value, err := time.ParseDuration(text)
	if err != nil || value <= 0 || value > time.Hour {
		d.report(n.Place, path, "is not a time above 0 and up to an hour: write 15s, or 1m30s")
		return 0
	}
	return value
}
