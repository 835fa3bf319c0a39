package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
)

// docs/auth-types.md lists every built-in type, every field with its default and whether it is required, and every algorithm.
func TestAuthTypesAreDocumented(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	for _, info := range h.Plugins() {
		t.Run(info.Type, func(t *testing.T) {
			heading := "## `" + info.Type + "`"
			documented := map[string][]string{}
			for _, row := range rows(under(t, "docs/auth-types.md", heading)) {
				for _, name := range spans(row[0]) {
					documented[name] = row
				}
			}
			for _, f := range info.Fields {
				row := documented[f.Name]
				if row == nil {
					t.Errorf("%s does not have the field %s", heading, f.Name)
					continue
				}
				if want := map[bool]string{true: "yes", false: "no"}[f.Required]; row[1] != want {
					t.Errorf("%s: %s is required: %q, want %q", heading, f.Name, row[1], want)
				}
				if f.Default != "" && !strings.Contains(row[2], f.Default+" unless given") {
					t.Errorf("%s: %s does not have its default, %s", heading, f.Name, f.Default)
				}
				delete(documented, f.Name)
			}
			for name := range documented {
				t.Errorf("%s has the field %s, which the type does not have", heading, name)
			}
		})
	}
	var algorithms []string
	for _, row := range rows(under(t, "docs/auth-types.md", "### Keys")) {
		algorithms = append(algorithms, spans(row[0])...)
	}
	slices.Sort(algorithms)
	if want := slices.Sorted(slices.Values(jws.Algorithms())); !slices.Equal(algorithms, want) {
		t.Errorf("the algorithms are %q, want %q", algorithms, want)
	}
}
