package connectors

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/keywright/keywright/host"
)

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
