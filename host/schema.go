package host

import (
	"encoding/json"
	"strings"

	"github.com/keywright/keywright/abi"
)

// Schema returns a JSON Schema (draft 2020-12) of the auth object, {"type", "config"}, that a connector has for this
// auth type, for editors and forms. It accepts what [Host.Connect] accepts, as far as a schema can tell: where a value
// that is no text is wanted, a text with a template is accepted as well. Aliases of the type are accepted and marked by
// the description of the type.
func (p PluginInfo) Schema() ([]byte, error) {
	config := schema{Type: "object", Properties: map[string]schema{}, AdditionalProperties: new(bool)}
	for i := range p.Fields {
		f := &p.Fields[i]
		config.Properties[f.Name] = fieldSchema(f)
		if f.Required {
			config.Required = append(config.Required, f.Name)
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

// schema is the part of JSON Schema that is needed here.
type schema struct {
	Schema               string            `json:"$schema,omitempty"`
	Title                string            `json:"title,omitempty"`
	Description          string            `json:"description,omitempty"`
	Type                 any               `json:"type,omitempty"` // string or []string
	Const                string            `json:"const,omitempty"`
	Enum                 []string          `json:"enum,omitempty"`
	Default              any               `json:"default,omitempty"`
	Minimum              *int64            `json:"minimum,omitempty"`
	Pattern              string            `json:"pattern,omitempty"`
	WriteOnly            bool              `json:"writeOnly,omitempty"`
	AnyOf                []schema          `json:"anyOf,omitempty"`
	Properties           map[string]schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	AdditionalProperties *bool             `json:"additionalProperties,omitempty"`
}

const (
	anyTemplate = `\{\{`       // text with an expression in it
	notBlank    = `\S`         // what a required field has at least
	secureURL   = `^https?://` // whether http is allowed is the operator's decision, not the schema's
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
