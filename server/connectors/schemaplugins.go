package connectors

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/keywright/keywright/host"
)

// configSchema returns the schema of an auth object with a type, without the type: that of [host.PluginInfo.Schema].
func configSchema(p *host.PluginInfo) (*schema, error) {
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
	closed := map[string]any{"pattern": closedTemplate, "patternErrorMessage": notClosed}
	more, _ := config["allOf"].([]any)
	config["allOf"] = append(more, map[string]any{"patternProperties": map[string]any{"": closed}})
	forEditors(config)
	document, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	s := &schema{Title: p.Type, Type: "object", Properties: namedSchemas{{"config", &schema{document: document}}}}
	if slices.Contains(auth.Required, "config") {
		s.Required = []string{"config"}
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
var wrongPatterns = map[string]string{httpURL: wantedURL, notBlank: "This is empty.", anyTemplate: "This is no template."}

// forEditors adds words of language servers to a schema: messages, and that former names are not offered. It makes descriptions printable.
func forEditors(value any) {
	switch value := value.(type) {
	case map[string]any:
		if pattern, _ := value["pattern"].(string); wrongPatterns[pattern] != "" {
			value["patternErrorMessage"] = wrongPatterns[pattern]
		}
		if description, ok := value["description"].(string); ok {
			value["description"] = host.Printable(description)
		}
		if value["deprecated"] == true {
			value["doNotSuggest"] = true
		}
		for _, below := range value {
			forEditors(below)
		}
	case []any:
		for _, below := range value {
			forEditors(below)
		}
	}
}
