package describe

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
)

// Schema returns a JSON Schema (draft 2020-12) of the auth object, {"type", "config"}, of connectors with the auth type of a
// description that [Check] has passed.
func Schema(d *abi.Description) ([]byte, error) {
	config := schema{Type: "object", Properties: map[string]schema{}, AdditionalProperties: new(bool)}
	needed := false
	for i := range d.Fields {
		f := &d.Fields[i]
		config.Properties[f.Name] = fieldSchema(f)
		for _, alias := range f.Aliases {
			former := fieldSchema(f)
			former.Description, former.Default, former.Deprecated = "Deprecated: use "+f.Name+".", nil, true
			config.Properties[alias] = former
		}
		names := namesOf(f)
		for i, name := range names {
			for _, owner := range names[:i] {
				config.AllOf = append(config.AllOf, schema{Not: &schema{Required: []string{owner, name}}})
			}
		}
		switch {
		case f.Required && len(f.Aliases) == 0:
			config.Required = append(config.Required, f.Name)
		case f.Required:
			config.AllOf = append(config.AllOf, present(f))
		}
		needed = needed || f.Required
		for _, condition := range f.RequiredIf {
			config.AllOf = append(config.AllOf, schema{If: new(conditionSchema(d, &condition)), Then: new(present(f))})
		}
		if len(f.OnlyIf) > 0 {
			config.AllOf = append(config.AllOf, schema{If: new(present(f)), Then: new(effective(d, f))})
		}
	}
	summary := d.Summary
	if d.Homepage != "" {
		summary += " " + d.Homepage
	}
	auth := schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: d.Type, Description: summary, Type: "object",
		Properties: map[string]schema{"type": typeSchema(d), "config": config}, Required: []string{"type"}, AdditionalProperties: new(bool),
	}
	if needed {
		auth.Required = append(auth.Required, "config")
	} else {
		config.Type = []string{"object", "null"}
		auth.Properties["config"] = config
	}
	return json.Marshal(auth)
}

type schema struct {
	Schema      string `json:"$schema,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is a string or a []string.
	Type                 any               `json:"type,omitempty"`
	Const                string            `json:"const,omitempty"`
	Enum                 []string          `json:"enum,omitempty"`
	Default              any               `json:"default,omitempty"`
	Minimum              *int64            `json:"minimum,omitempty"`
	Maximum              *int64            `json:"maximum,omitempty"`
	Pattern              string            `json:"pattern,omitempty"`
	WriteOnly            bool              `json:"writeOnly,omitempty"`
	Deprecated           bool              `json:"deprecated,omitempty"`
	Not                  *schema           `json:"not,omitempty"`
	AnyOf                []schema          `json:"anyOf,omitempty"`
	AllOf                []schema          `json:"allOf,omitempty"`
	If                   *schema           `json:"if,omitempty"`
	Then                 *schema           `json:"then,omitempty"`
	Properties           map[string]schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	AdditionalProperties *bool             `json:"additionalProperties,omitempty"`
}

const (
	anyTemplate = `\{\{`       // a text with an expression
	notBlank    = `\S`         // a text that is not blank
	secureURL   = `^https?://` // also http, since the operator decides whether that is allowed
	decimal     = `^-?[0-9]+$`
)

func typeSchema(d *abi.Description) schema {
	if len(d.Aliases) == 0 {
		return schema{Const: d.Type}
	}
	return schema{Enum: append([]string{d.Type}, d.Aliases...), Description: "Deprecated: " + strings.Join(d.Aliases, ", ") + "."}
}

func namesOf(f *abi.Field) []string { return append([]string{f.Name}, f.Aliases...) }

// present returns a schema of the configurations that have a field, under any of its names.
func present(f *abi.Field) schema {
	if len(f.Aliases) == 0 {
		return schema{Required: []string{f.Name}}
	}
	var some schema
	for _, name := range namesOf(f) {
		some.AnyOf = append(some.AnyOf, schema{Required: []string{name}})
	}
	return some
}

// effective returns a schema of the configurations in which a field with OnlyIf has an effect.
func effective(d *abi.Description, f *abi.Field) (some schema) {
	for _, condition := range f.OnlyIf {
		some.AnyOf = append(some.AnyOf, conditionSchema(d, &condition))
		if len(condition.Values) == 0 {
			continue
		}
		for _, name := range namesOf(fieldOf(d, condition.Field)) {
			some.AnyOf = append(some.AnyOf, schema{
				Properties: map[string]schema{name: {Type: "string", Pattern: anyTemplate}}, Required: []string{name},
			})
		}
	}
	return some
}

// fieldOf returns the field with a name, which must be there.
func fieldOf(d *abi.Description, name string) *abi.Field {
	return &d.Fields[slices.IndexFunc(d.Fields, func(f abi.Field) bool { return f.Name == name })]
}

// conditionSchema returns a schema of the configurations for which a condition holds.
func conditionSchema(d *abi.Description, condition *abi.Condition) schema {
	f := fieldOf(d, condition.Field)
	if condition.Absent {
		return schema{Not: new(present(f))}
	}
	match := schema{Properties: map[string]schema{}}
	if !slices.Contains(condition.Values, f.Default) { // otherwise the condition holds without the field
		match = present(f)
		match.Properties = map[string]schema{}
	}
	for _, name := range namesOf(f) {
		match.Properties[name] = schema{Enum: condition.Values}
	}
	return match
}

func fieldSchema(f *abi.Field) schema {
	s := schema{Description: About(f), WriteOnly: f.Sealed || f.Kind == abi.KindKey}
	template := schema{Type: "string", Pattern: anyTemplate}
	if f.Default != "" {
		s.Default = f.Default
	}
	switch {
	case f.Kind == abi.KindObject:
		s.Type = "object"
	case f.Kind == abi.KindInteger:
		s.AnyOf = []schema{{Type: "integer", Minimum: f.Minimum, Maximum: f.Maximum}, template, {Type: "string", Pattern: decimal}}
		if f.Default != "" {
			s.Default = json.Number(f.Default)
		}
	case f.Kind == abi.KindBoolean:
		s.AnyOf = []schema{{Type: "boolean"}, template, {Enum: []string{"true", "false"}}}
		if f.Default != "" {
			s.Default = f.Default == "true"
		}
	case f.Kind == abi.KindURL:
		s.AnyOf = []schema{{Type: "string", Pattern: secureURL}, template}
	case len(f.Enum) > 0:
		s.AnyOf = []schema{{Enum: f.Enum}, template}
	default:
		if s.Type = "string"; f.Required || f.Sealed || f.Kind == abi.KindKey {
			s.Pattern = notBlank
		}
		if pattern := schemaPattern(f); pattern != "" {
			s.AnyOf = []schema{{Type: "string", Pattern: pattern}, template}
		}
	}
	return s
}
