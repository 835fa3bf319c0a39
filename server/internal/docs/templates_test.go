package docs

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// What README.md says that a template may have in it, it may.
func TestTemplatesOfREADME(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	connect := func(expression string) error {
		_, err := h.Connect(t.Context(), host.ConnectorConfig{
			Name: "readme", Origins: []string{"https://api.example.com"},
			Auth: host.Auth{Type: "api_key", Config: map[string]any{"key": "X-Key", "value": "{{ " + expression + " }}", "in": "header"}},
		})
		return err
	}
	table := rows(under(t, "README.md", "### Templates"))
	if len(table) == 0 {
		t.Fatal("there is no table")
	}
	for _, row := range table {
		expressions := spans(row[0])
		if strings.Contains(row[0], " ? ") { // and the operators that stand beside it
			for _, operator := range spans(row[1]) {
				switch operator {
				case "and", "or":
					expressions = append(expressions, "true "+operator+" false")
				case "not":
					expressions = append(expressions, "not true")
				default:
					expressions = append(expressions, "'a' "+operator+" 'b'")
				}
			}
		}
		for _, expression := range expressions {
			if err := connect(expression); err != nil {
				t.Errorf("%s: %v", expression, err)
			}
		}
	}
	if connect("no_function()") == nil {
		t.Error("anything goes here")
	}
}
