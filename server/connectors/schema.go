package connectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// SchemaComment begins the $comment of each schema that [Schema] returns.
const SchemaComment = "Written by keywright schema."

// Schema returns a JSON Schema (draft-07) of a file, for editors. The connectors of the file may have the auth types of plugins. The
// schema accepts what [Read] accepts, as far as a schema can express it. It has a description of each member. It has texts of
// plugins only where an editor shows them as text, and refers to nothing outside of itself.
func Schema(plugins []host.PluginInfo) ([]byte, error) {
	w := schemaWriter{plugins: plugins, used: map[string]bool{}}
	root := w.object("", reflect.TypeFor[wholeFile]())
	root.Draft, root.Comment = "http://json-schema.org/draft-07/schema#", SchemaComment
	root.Description = "The connectors of Keywright. docs/gateway.md describes the members."
	for i := range plugins {
		definition, err := configSchema(&plugins[i])
		if err != nil {
			return nil, err
		}
		root.Definitions = append(root.Definitions, namedSchema{plugins[i].Type, definition})
	}
	for path := range described {
		if !w.used[path] {
			w.wrong = append(w.wrong, fmt.Errorf("the file has no member %s, which is described", path))
		}
	}
	if err := errors.Join(w.wrong...); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(root, "", " ")
	return append(text, '\n'), err
}

// StrictSchema returns a schema of [Schema] without the keywords that only language servers know, which validators may refuse.
func StrictSchema(text []byte) ([]byte, error) {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	var remove func(value any)
	remove = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, word := range []string{"errorMessage", "patternErrorMessage", "enumDescriptions", "doNotSuggest"} {
				delete(value, word)
			}
			for _, below := range value {
				remove(below)
			}
		case []any:
			for _, below := range value {
				remove(below)
			}
		}
	}
	remove(document)
	text, err := json.MarshalIndent(document, "", " ")
	return append(text, '\n'), err
}

// A schema is a JSON Schema with the keywords that are used here.
type schema struct {
	Draft            string   `json:"$schema,omitempty"`
	Comment          string   `json:"$comment,omitempty"`
	Ref              string   `json:"$ref,omitempty"`
	Title            string   `json:"title,omitempty"`
	Description      string   `json:"description,omitempty"`
	Type             any      `json:"type,omitempty"`
	Const            any      `json:"const,omitempty"`
	Enum             []string `json:"enum,omitempty"`
	EnumDescriptions []string `json:"enumDescriptions,omitempty"`
	Default          any      `json:"default,omitempty"`
	Examples         []string `json:"examples,omitempty"`
	Minimum          int64    `json:"minimum,omitempty"`
	Maximum          int64    `json:"maximum,omitempty"`
	ExclusiveMinimum *int     `json:"exclusiveMinimum,omitempty"`
	MaxLength        int      `json:"maxLength,omitempty"`
	Pattern          string   `json:"pattern,omitempty"`
	// PatternErrorMessage and ErrorMessage are the words of language servers for a text that does not have the pattern, and for a value
	// that does not have the schema. Validators ignore them.
	PatternErrorMessage string       `json:"patternErrorMessage,omitempty"`
	ErrorMessage        string       `json:"errorMessage,omitempty"`
	Items               *schema      `json:"items,omitempty"`
	MinItems            int          `json:"minItems,omitempty"`
	MaxItems            int          `json:"maxItems,omitempty"`
	Properties          namedSchemas `json:"properties,omitempty"`
	Required            []string     `json:"required,omitempty"`
	// Closed is false for an object that may have no other members.
	Closed      *bool        `json:"additionalProperties,omitempty"`
	If          *schema      `json:"if,omitempty"`
	Then        *schema      `json:"then,omitempty"`
	Else        *schema      `json:"else,omitempty"`
	Not         *schema      `json:"not,omitempty"`
	AnyOf       []*schema    `json:"anyOf,omitempty"`
	AllOf       []*schema    `json:"allOf,omitempty"`
	Definitions namedSchemas `json:"definitions,omitempty"`

	// document is the schema itself, if it is not nil.
	document json.RawMessage
}

// MarshalJSON returns the schema as JSON.
func (s *schema) MarshalJSON() ([]byte, error) {
	if s.document != nil {
		return s.document, nil
	}
	type plain schema
	return json.Marshal((*plain)(s))
}

// namedSchemas are the members of an object, in the order of the loader. A nil schema refuses the member.
type namedSchemas []namedSchema

type namedSchema struct {
	name   string
	schema *schema
}

// MarshalJSON returns the members as a JSON object.
func (all namedSchemas) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, m := range all {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value := []byte("false")
		if m.schema != nil {
			if value, err = m.schema.MarshalJSON(); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

// A schemaWriter makes a schema of the structs that the loader decodes into.
type schemaWriter struct {
	plugins []host.PluginInfo
	// used has the paths of described that were found.
	used  map[string]bool
	wrong []error
}

// partsOfFile has the structs of values that the loader decodes later, by path.
var partsOfFile = map[string]reflect.Type{"connectors[]": reflect.TypeFor[connectorFile](), "plugins[]": reflect.TypeFor[pluginFile]()}

// object returns the schema of an object that is decoded into a struct.
func (w *schemaWriter) object(path string, t reflect.Type) *schema {
	s := &schema{Type: "object", Closed: new(bool)}
	for _, f := range fieldsOf(t) {
		at := strings.TrimPrefix(path+"."+f.name, ".")
		member := w.member(at, t.FieldByIndex(f.index).Type, &f)
		w.describe(at, member)
		s.Properties = append(s.Properties, namedSchema{f.name, member})
		if f.is("required") {
			s.Required = append(s.Required, f.name)
		}
	}
	w.change(path, s)
	return s
}

// pathOf returns the path under which a member is described. Members that mean the same in two places are described once.
func pathOf(path string) string {
	path = strings.ReplaceAll(path, "connectors[].egress.", "egress.")
	return strings.ReplaceAll(path, "connectors[].query[]", "connectors[].headers[]")
}

// describe adds the words about a member, and its bounds.
func (w *schemaWriter) describe(path string, s *schema) {
	words, ok := described[pathOf(path)]
	if !ok || words.text == "" {
		w.wrong = append(w.wrong, fmt.Errorf("the member %s has no description", path))
		return
	}
	w.used[pathOf(path)] = true
	s.Description, s.Default = words.text, words.ifMissing
	s.MinItems, s.MaxItems = words.least, words.most
	if words.pattern != "" {
		s.Pattern, s.PatternErrorMessage = words.pattern, words.wrong
		if s.Items != nil {
			s.Items.Pattern, s.Items.PatternErrorMessage = words.pattern, words.wrong
		}
	}
	if words.values != nil {
		s.choose(&words)
	}
}

// choose limits a text, or the texts of a list, to the values of words.
func (s *schema) choose(words *words) {
	choice := &schema{Enum: words.values, EnumDescriptions: words.each}
	if words.pattern != "" {
		other := &schema{Type: "string", Pattern: words.pattern, PatternErrorMessage: words.wrong}
		if words.not != nil {
			other.Not = &schema{Enum: words.not}
		}
		choice = &schema{AnyOf: []*schema{choice, other}}
	}
	switch s.Type {
	case "string":
		s.Type, s.Pattern, s.PatternErrorMessage, s.Enum, s.EnumDescriptions = nil, "", "", words.values, words.each
	case "array":
		s.Items = choice
	default: // a text or a list
		s.Type, s.Pattern, s.PatternErrorMessage, s.Items = nil, "", "", nil
		s.AnyOf = []*schema{choice, {Type: "array", Items: choice}}
	}
}

// change adds what the loader checks of an object besides its members.
func (w *schemaWriter) change(path string, s *schema) {
	if words, ok := described[pathOf(path)]; ok && words.change != nil {
		w.used[pathOf(path)] = true
		words.change(s)
	}
}

// member returns the schema of a value that is decoded into a type. A description is added later.
func (w *schemaWriter) member(path string, t reflect.Type, f *field) *schema {
	switch path {
	case "secrets[]":
		return variantSchema(w, path, storeFiles)
	case "state":
		return variantSchema(w, path, stateFiles)
	case "connectors[].auth":
		w.used["connectors[].auth.type"] = true
		return w.auth(described["connectors[].auth.type"].text)
	}
	if part := partsOfFile[path]; part != nil {
		return w.object(path, part)
	}
	return w.plain(path, t, f)
}

const notBlank = `\S` // a text that is not blank

// plain is like member for a type that says all of its values.
func (w *schemaWriter) plain(path string, t reflect.Type, f *field) *schema {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return &schema{
			Type: "string", Pattern: `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`,
			PatternErrorMessage: "This is not a time above 0 and up to an hour: write 15s, or 1m30s.",
		}
	case t == reflect.TypeFor[*node](): // in a list, whose description has its values
		return &schema{}
	case t == reflect.TypeFor[[]string]():
		return &schema{Type: []string{"string", "array"}, Pattern: notBlank, Items: &schema{Type: "string"}}
	}
	switch t.Kind() {
	case reflect.String:
		if f.is("blank") {
			return &schema{Type: "string"}
		}
		return &schema{Type: "string", Pattern: notBlank, PatternErrorMessage: "This is empty."}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Float64:
		return &schema{Type: "number", ExclusiveMinimum: new(int)}
	case reflect.Int, reflect.Int64:
		return &schema{Type: "integer", Minimum: 1, Maximum: 1 << 40}
	case reflect.Pointer:
		return w.object(path, t.Elem())
	case reflect.Struct:
		return w.object(path, t)
	case reflect.Slice:
		return &schema{Type: "array", Items: w.member(path+"[]", t.Elem(), &field{})}
	}
	w.wrong = append(w.wrong, fmt.Errorf("the member %s is of the type %v, for which there is no schema", path, t))
	return &schema{}
}

// variantSchema returns the schema of an object whose member type decides which other members there are. The members of a type NAME are
// described under PATH(NAME).
func variantSchema[F any](w *schemaWriter, path string, all []variant[F]) *schema {
	kind := described[path+".type"]
	w.used[path+".type"] = true
	names := make([]string, len(all))
	s := &schema{Type: "object", Required: []string{"type"}}
	for i, v := range all {
		names[i] = v.name
		at := path + "(" + v.name + ")"
		one := &schema{Type: "object", Closed: new(bool)}
		for _, f := range fieldsOf(reflect.TypeOf(v.file()).Elem()) {
			member := &schema{}
			if f.name != "type" {
				member = w.member(at+"."+f.name, reflect.TypeOf(v.file()).Elem().FieldByIndex(f.index).Type, &f)
				w.describe(at+"."+f.name, member)
			}
			one.Properties = append(one.Properties, namedSchema{f.name, member})
			if f.is("required") && f.name != "type" {
				one.Required = append(one.Required, f.name)
			}
		}
		w.change(at, one)
		s.AllOf = append(s.AllOf, ofType(v.name, one))
	}
	s.Properties = namedSchemas{{"type", &schema{Description: kind.text, Enum: names, EnumDescriptions: kind.each}}}
	return s
}

// ofType returns a schema that holds if the member type has another value, or if then holds.
func ofType(value string, then *schema) *schema {
	return &schema{If: &schema{Properties: namedSchemas{{"type", &schema{Const: value}}}, Required: []string{"type"}}, Then: then}
}

// auth returns the schema of the member auth.
func (w *schemaWriter) auth(description string) *schema {
	var names, meanings, aliases []string
	s := &schema{Type: "object", Required: []string{"type"}, Closed: new(bool)}
	for i := range w.plugins {
		p := &w.plugins[i]
		names, meanings, aliases = append(names, p.Type), append(meanings, host.Printable(p.Summary)), append(aliases, p.Aliases...)
		holds := ofType(p.Type, &schema{Ref: "#/definitions/" + p.Type})
		if len(p.Aliases) > 0 {
			holds.If.Properties[0].schema = &schema{Pattern: oneOf(append([]string{p.Type}, p.Aliases...))}
		}
		s.AllOf = append(s.AllOf, holds)
	}
	kind := &schema{Description: description, Enum: names, EnumDescriptions: meanings}
	if len(aliases) > 0 { // a pattern, so that no editor offers them
		kind = &schema{Description: description, AnyOf: []*schema{{Enum: names, EnumDescriptions: meanings}, {Type: "string", Pattern: oneOf(aliases)}}}
	}
	s.Properties = namedSchemas{{"type", kind}, {"config", &schema{}}}
	return s
}

// oneOf returns a pattern that matches the names.
func oneOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(?:" + strings.Join(quoted, "|") + ")$"
}

// grantMeanings has a sentence about each grant.
var grantMeanings = map[string]string{
	abi.GrantSignRaw: "The plugin signs bytes that it chooses, with the keys of its connectors.",
	abi.GrantReveal:  "The plugin reads the secrets of its connectors.",
}
