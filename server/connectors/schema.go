package connectors

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
)

// SchemaComment begins the $comment of each schema that [Schema] returns.
const SchemaComment = "Written by keywright schema."

// Schema returns a JSON Schema (draft-07) of a file, for editors. The connectors of the file may have the auth types of plugins. The
// schema accepts what [Read] accepts, as far as a schema can express it. It has a description of each member. It has texts of
// plugins only where an editor shows them as text, and refers to nothing outside of itself.
func Schema(plugins []host.PluginInfo) ([]byte, error) {
	w := schemaWriter{plugins: plugins, describe: func(t reflect.Type, f reflect.StructField) string { return descriptions()[t.String()+"."+f.Name] }}
	root, definitions := w.object("", reflect.TypeFor[wholeFile]()), schema{}
	root["$schema"], root["$comment"] = "http://json-schema.org/draft-07/schema#", SchemaComment
	root["description"] = "The connectors of Keywright. docs/gateway.md describes the members."
	for i := range plugins {
		definition, err := configSchema(&plugins[i])
		if err != nil {
			return nil, err
		}
		definitions[plugins[i].Type] = definition
	}
	if len(definitions) > 0 {
		root["definitions"] = definitions
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
	eachSchema(document, func(s schema) {
		for _, word := range []string{"errorMessage", "patternErrorMessage", "enumDescriptions", "doNotSuggest"} {
			delete(s, word)
		}
	})
	text, err := json.MarshalIndent(document, "", " ")
	return append(text, '\n'), err
}

// A schema is a JSON Schema, or another object in one. Its errorMessage and patternErrorMessage are the words of language servers for a
// value that does not have the schema, and for a text that does not have the pattern. Validators ignore them.
type schema = map[string]any

// eachSchema calls do for each object of a document.
func eachSchema(document any, do func(schema)) {
	switch document := document.(type) {
	case schema:
		do(document)
		for _, below := range document {
			eachSchema(below, do)
		}
	case []any:
		for _, below := range document {
			eachSchema(below, do)
		}
	}
}

// A schemaWriter makes a schema of the structs that the loader decodes into.
type schemaWriter struct {
	plugins  []host.PluginInfo
	describe func(t reflect.Type, f reflect.StructField) string
}

//go:embed members.json
var membersJSON []byte

// descriptions has the comments of fields, as members.json has them, by struct and field.
var descriptions = sync.OnceValue(func() (all map[string]string) {
	_ = json.Unmarshal(membersJSON, &all) // tests make the text
	return all
})

// object returns the schema of an object that is decoded into a struct.
func (w *schemaWriter) object(path string, t reflect.Type) schema {
	properties, required := schema{}, slices.Clone(rules[path].required)
	for _, f := range fieldsOf(t) {
		memberPath := strings.TrimPrefix(path+"."+f.name, ".")
		member := w.member(memberPath, f.Type, &f)
		owner := t
		if last := len(f.Index) - 1; last > 0 {
			owner = t.FieldByIndex(f.Index[:last]).Type
		}
		if owner.Kind() == reflect.Pointer {
			owner = owner.Elem()
		}
		member["description"] = w.describe(owner, f.StructField)
		if missing, ok := f.Tag.Lookup("default"); ok {
			member["default"] = missing
			if value, err := strconv.ParseBool(missing); err == nil {
				member["default"] = value
			} else if value, err := strconv.Atoi(missing); err == nil {
				member["default"] = value
			}
		}
		properties[f.name] = rules[memberPath].limit(member)
		if f.is("required") {
			required = append(required, f.name)
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if all := rules[path].all; all != nil {
		s["allOf"] = all
	}
	return s
}

func (r rule) limit(s schema) schema {
	switch {
	case r.minimum > 0 && s["type"] == "integer":
		s["minimum"] = r.minimum
	case r.minimum > 0:
		s["minItems"] = r.minimum
	}
	if r.maximum > 0 {
		s["maxItems"] = r.maximum
	}
	if r.values == nil {
		return s
	}
	choice := schema{"enum": r.values}
	if r.meanings != nil {
		choice["enumDescriptions"] = r.meanings
	}
	kind, pattern, message := s["type"], s["pattern"], s["patternErrorMessage"]
	if r.slips != nil {
		choice = schema{"anyOf": []schema{choice, {
			"type": "string", "pattern": pattern, "patternErrorMessage": message, "not": schema{"enum": r.slips},
		}}}
	}
	for _, word := range []string{"type", "pattern", "patternErrorMessage", "items"} {
		delete(s, word)
	}
	switch kind {
	case "string":
		maps.Copy(s, choice)
	case "array":
		s["type"], s["items"] = kind, choice
	default: // a text or a list
		s["anyOf"] = []schema{choice, {"type": "array", "items": choice}}
	}
	return s
}

// member returns the schema of a value that is decoded into a type, without its description.
func (w *schemaWriter) member(path string, t reflect.Type, f *field) schema {
	switch path {
	case "secrets[]":
		return variantSchema(w, path, storeFiles)
	case "identities[]":
		return variantSchema(w, path, identityFiles)
	case "state":
		return variantSchema(w, path, stateFiles)
	case "connectors[]":
		t = reflect.TypeFor[connectorFile]()
	case "plugins[]":
		t = reflect.TypeFor[pluginFile]()
	}
	switch t {
	case reflect.TypeFor[host.Auth]():
		return w.auth()
	case reflect.TypeFor[host.Auths]():
		one := w.auth()
		return schema{"if": schema{"type": "array"}, "then": schema{"items": one, "minItems": 1, "maxItems": 4}, "else": one}
	case reflect.TypeFor[time.Duration]():
		return textSchema(texts["duration"])
	case reflect.TypeFor[*node](): // in a list, whose rule has its values
		return schema{}
	case reflect.TypeFor[[]string]():
		s, items := schema{"pattern": notBlank}, schema{}
		if text := f.text(); text != nil {
			s, items = text.schema(), text.schema()
		}
		s["type"], items["type"] = []string{"string", "array"}, "string"
		s["items"] = items
		return s
	}
	switch t.Kind() {
	case reflect.String:
		switch text := f.text(); {
		case text != nil:
			return textSchema(*text)
		case f.is("blank"):
			return schema{"type": "string"}
		}
		return textSchema(texts["filled"])
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number", "exclusiveMinimum": 0}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer", "minimum": 1, "maximum": 1 << 40}
	case reflect.Pointer:
		return w.object(path, t.Elem())
	case reflect.Struct:
		return w.object(path, t)
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": w.member(path+"[]", t.Elem(), &field{})}
	case reflect.Slice:
		return schema{"type": "array", "items": w.member(path+"[]", t.Elem(), &field{})}
	}
	panic(fmt.Sprintf("the member %s is of the type %v, for which there is no schema", path, t))
}

func textSchema(t text) schema {
	s := t.schema()
	s["type"] = "string"
	return s
}

// variantSchema returns the schema of an object whose member type decides about the others. The rules of a type are those of PATH(TYPE).
func variantSchema[F any](w *schemaWriter, path string, all []variant[F]) schema {
	types, kind, conditions := rule{}, schema{}, []schema{}
	for _, v := range all {
		types.values, types.meanings = append(types.values, v.name), append(types.meanings, v.meaning)
		one := w.object(path+"("+v.name+")", reflect.TypeOf(v.file()).Elem())
		members := one["properties"].(schema)
		kind, members["type"] = members["type"].(schema), schema{}
		one["required"] = slices.DeleteFunc(one["required"].([]string), func(name string) bool { return name == "type" })
		conditions = append(conditions, ofType(v.name, one))
	}
	return schema{"type": "object", "required": []string{"type"}, "allOf": conditions, "properties": schema{"type": types.limit(kind)}}
}

// ofType returns a schema that holds if the member type has another value, or if then holds.
func ofType(value string, then schema) schema {
	return schema{"if": hasValue("type", value), "then": then}
}

func (w *schemaWriter) auth() schema {
	types, aliases, conditions := rule{values: []string{}, meanings: []string{}}, []string(nil), []schema{}
	for i := range w.plugins {
		p := &w.plugins[i]
		types.values, types.meanings = append(types.values, p.Type), append(types.meanings, host.Printable(p.Summary))
		one := ofType(p.Type, schema{"$ref": "#/definitions/" + p.Type})
		if len(p.Aliases) > 0 {
			one["if"].(schema)["properties"] = schema{"type": schema{"pattern": anyOf(append([]string{p.Type}, p.Aliases...))}}
		}
		conditions, aliases = append(conditions, one), append(aliases, p.Aliases...)
	}
	kind := types.limit(schema{"type": "string"})
	if len(aliases) > 0 { // a pattern, so that no editor offers them
		kind = schema{"anyOf": []schema{kind, {"type": "string", "pattern": anyOf(aliases)}}}
	}
	t := reflect.TypeFor[host.Auth]()
	f, _ := t.FieldByName("Type")
	kind["description"] = w.describe(t, f)
	return schema{
		"type": "object", "required": []string{"type"}, "additionalProperties": false, "allOf": conditions,
		"properties": schema{"type": kind, "config": schema{}},
	}
}

func anyOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(?:" + strings.Join(quoted, "|") + ")$"
}

// configSchema returns the schema of an auth object with a type, without the type: that of [host.PluginInfo.Schema].
func configSchema(p *host.PluginInfo) (schema, error) {
	text, err := p.Schema()
	if err != nil {
		return nil, err
	}
	var auth struct {
		Description string
		Properties  struct{ Config map[string]any }
		Required    []string
	}
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	if err := reader.Decode(&auth); err != nil {
		return nil, err
	}
	config := auth.Properties.Config
	config["description"] = auth.Description
	fields, _ := config["properties"].(map[string]any)
	for i := range p.Fields {
		f := &p.Fields[i]
		if field, ok := fields[f.Name].(map[string]any); ok && len(f.Suggested) > 0 {
			field["examples"] = f.Suggested
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			sayPattern(fields[name], f.PatternMessage)
		}
	}
	forEditors(config)
	more, _ := config["allOf"].([]any)
	config["allOf"] = append(more, schema{"patternProperties": schema{"": closed}})
	s := schema{"title": p.Type, "type": "object", "properties": schema{"config": config}}
	if slices.Contains(auth.Required, "config") {
		s["required"] = []string{"config"}
	}
	return s, nil
}

// sayPattern adds the words of a plugin to the pattern of its field, if the schema has that.
func sayPattern(field any, message string) {
	described, _ := field.(map[string]any)
	if ways, ok := described["anyOf"].([]any); ok && message != "" { // the pattern, or a template
		if pattern, ok := ways[0].(map[string]any); ok {
			pattern["patternErrorMessage"] = "This " + host.Printable(message) + "."
		}
	}
}

// wrongPatterns has the messages for texts that do not have a pattern of [host.PluginInfo.Schema].
var wrongPatterns = map[string]string{
	texts["url"].pattern: texts["url"].message, notBlank: texts["filled"].message, anyTemplate: "This is no template.",
}

// forEditors adds words of language servers to a schema: messages, and that former names are not offered. It makes descriptions printable.
func forEditors(config schema) {
	eachSchema(config, func(s schema) {
		if pattern, _ := s["pattern"].(string); wrongPatterns[pattern] != "" {
			s["patternErrorMessage"] = wrongPatterns[pattern]
		}
		if description, ok := s["description"].(string); ok {
			s["description"] = host.Printable(description)
		}
		if s["deprecated"] == true {
			s["doNotSuggest"] = true
		}
	})
}
