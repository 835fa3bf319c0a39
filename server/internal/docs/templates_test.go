package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/testworld"
)

// Templates may contain everything that docs/auth-types.md lists.
func TestDocumentedTemplates(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{Keys: struct{ host.Keys }{}, UserTokenHosts: []string{"login.example.com"}})
	testworld.Check(t, err)
	defer h.Close(t.Context())
	connect := func(expression string) error {
		auth := host.Auth{Type: "oauth_client_credentials", Config: map[string]any{
			"token_url": "https://login.example.com/token", "client_id": "me", "client_secret": "{{ " + expression + " }}",
		}}
		if strings.HasPrefix(expression, "get_key(") {
			auth = host.Auth{Type: "jwt", Config: map[string]any{"private_key": "{{ " + expression + " }}", "claims": map[string]any{}}}
		}
		_, err := h.NewConnector(t.Context(), host.ConnectorConfig{Name: "readme", Origins: []string{"https://api.example.com"}, Auth: auth})
		return err
	}
	table := rows(under(t, authTypes, "## Templates"))
	if len(table) == 0 {
		t.Fatal("there is no table")
	}
	for _, row := range table {
		expressions := spans(row[0])
		if strings.Contains(row[0], " ? ") { // this row lists operators, too
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
				t.Errorf("%s: err = %v", expression, err)
			}
		}
	}
	if connect("no_function()") == nil {
		t.Error("anything goes here")
	}
}

// The documents list exactly the functions that exist.
func TestDocumentedFunctions(t *testing.T) {
	called := func(cells ...string) (names []string) {
		for _, expression := range spans(strings.Join(cells, " ")) {
			if name, _, _ := strings.Cut(expression, "("); !strings.ContainsAny(name, ". '{") {
				names = append(names, name)
			}
		}
		return names
	}
	var inTemplates, inBodies []string
	for _, row := range rows(under(t, authTypes, "## Templates")) {
		if strings.Contains(row[0], "(") {
			inTemplates = append(inTemplates, called(row[0])...)
		}
	}
	_, table, _ := strings.Cut(under(t, "docs/gateway.md", "### Bodies"), "\n| functions |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range rows("| functions |" + table) {
		inBodies = append(inBodies, called(row[0])...)
	}
	inBodies = append(inBodies, "get_variable") // it is in the table of names
	for _, c := range []struct {
		where  string
		listed []string
		bodies bool
	}{{authTypes, inTemplates, false}, {"docs/gateway.md", inBodies, true}} {
		slices.Sort(c.listed)
		there := (&expr.Language{Bodies: c.bodies}).FunctionNames()
		if listed := slices.Compact(c.listed); !slices.Equal(listed, there) {
			t.Errorf("%s lists %v, there are %v", c.where, listed, there)
		}
	}
}
