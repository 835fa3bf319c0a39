package host

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
)

// Schema returns a JSON Schema (draft 2020-12) of the auth object, {"type", "config"}, of connectors with this auth
// type. It is for editors and forms. It accepts what [Host.Connect] accepts, as far as a schema can express it: it also
// accepts a text with a template in place of an integer, a boolean or a URL. It accepts the aliases of the type and
// lists them in the description of "type" as deprecated.
func (p PluginInfo) Schema() ([]byte, error) {
	config := schema{Type: "object", Properties: map[string]schema{}, AdditionalProperties: new(bool)}
	for i := range p.Fields {
		f := &p.Fields[i]
		config.Properties[f.Name] = fieldSchema(f)
		if f.Required {
			config.Required = append(config.Required, f.Name)
		}
		for _, condition := range f.RequiredIf {
			holds := p.conditionSchema(&condition)
			config.AllOf = append(config.AllOf, schema{If: &holds, Then: &schema{Required: []string{f.Name}}})
		}
		if len(f.OnlyIf) > 0 {
			var some schema
			for _, condition := range f.OnlyIf {
				some.AnyOf = append(some.AnyOf, p.conditionSchema(&condition))
				if len(condition.Values) > 0 {
					some.AnyOf = append(some.AnyOf, schema{
						Properties: map[string]schema{condition.Field: {Type: "string", Pattern: anyTemplate}}, Required: []string{condition.Field},
					})
				}
			}
			config.AllOf = append(config.AllOf, schema{If: &schema{Required: []string{f.Name}}, Then: &some})
		}
	}
	auth := schema{
		Schema:               "https://json-schema.org/draft/2020-12/schema",
		Title:                p.Type,
		Description:          p.Summary,
		Type:                 "object",
		Properties:           map[string]schema{"type": typeSchema(p), "config": config},
		Required:             []string{"type"},
		AdditionalProperties: new(bool),
	}
	if len(config.Required) > 0 {
		auth.Required = append(auth.Required, "config")
	} else {
		config.Type = []string{"object", "null"}
		auth.Properties["config"] = config
	}
	return json.Marshal(auth)
}

// schema is a JSON Schema, with the keywords that Schema needs.
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
	Pattern              string            `json:"pattern,omitempty"`
	WriteOnly            bool              `json:"writeOnly,omitempty"`
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

func typeSchema(p PluginInfo) schema {
	if len(p.Aliases) == 0 {
		return schema{Const: p.Type}
	}
	return schema{
		Enum:        append([]string{p.Type}, p.Aliases...),
		Description: "Deprecated: " + strings.Join(p.Aliases, ", ") + ".",
	}
}

// conditionSchema returns a schema of the configurations for which a condition holds.
func (p PluginInfo) conditionSchema(condition *abi.Condition) schema {
	holds := schema{Properties: map[string]schema{condition.Field: {Enum: condition.Values}}}
	for _, f := range p.Fields {
		if f.Name == condition.Field && !slices.Contains(condition.Values, f.Default) {
			holds.Required = []string{f.Name} // otherwise the condition would hold without the field
		}
	}
	return holds
}

func fieldSchema(f *abi.Field) schema {
	s := schema{Description: f.Doc, Type: "string", WriteOnly: f.Sealed || f.Kind == abi.KindKey}
	template := schema{Type: "string", Pattern: anyTemplate}
	if f.Default != "" {
		s.Default = f.Default
	}
	switch f.Kind {
	case abi.KindObject:
		s.Type = "object"
	case abi.KindInteger:
		s.Type = nil
		s.AnyOf = []schema{{Type: "integer", Minimum: f.Minimum}, template, {Type: "string", Pattern: decimal}}
		if f.Default != "" {
			s.Default = json.Number(f.Default)
		}
	case abi.KindBoolean:
		s.Type = nil
		s.AnyOf = []schema{{Type: "boolean"}, template, {Enum: []string{"true", "false"}}}
		if f.Default != "" {
			s.Default = f.Default == "true"
		}
	case abi.KindURL:
		s.Type = nil
		s.AnyOf = []schema{{Type: "string", Pattern: secureURL}, template}
	default:
		switch {
		case len(f.Enum) > 0:
			s.Type = nil
			s.AnyOf = []schema{{Enum: f.Enum}, template}
		case f.Required || f.Sealed || f.Kind == abi.KindKey:
			s.Pattern = notBlank
		}
	}
	return s
}
