package docs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
)

const authTypes = "docs/auth-types.md"

// builtIn returns what a host knows of all built-in types.
func builtIn(t *testing.T) []host.PluginInfo {
	t.Helper()
	h, err := host.New(t.Context(), host.Config{BuiltIns: connectors.BuiltIns(plugins.Types()...)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.WithoutCancel(t.Context()))
	return h.Plugins()
}

// docs/auth-types.md lists every built-in type, every field with its default, minimum and values, and whether it is required,
// and every algorithm.
func TestAuthTypesAreDocumented(t *testing.T) {
	documented := map[string]map[string][]string{} // by type and field
	fieldsOf := func(authType string) map[string][]string {
		if documented[authType] == nil {
			documented[authType] = map[string][]string{}
			for _, row := range rows(under(t, authTypes, "## `"+authType+"`")) {
				for _, name := range spans(row[0]) {
					documented[authType][name] = row
				}
			}
		}
		return documented[authType]
	}
	for _, info := range builtIn(t) {
		t.Run(info.Type, func(t *testing.T) {
			fields := fieldsOf(info.Type)
			for _, f := range info.Fields {
				row := fields[f.Name]
				if row == nil {
					t.Errorf("the field %s is missing", f.Name)
					continue
				}
				text := row[2]
				if other, same := strings.CutPrefix(text, "as for "); same {
					text = fieldsOf(spans(other)[0])[f.Name][2]
				}
				compareField(t, f, row[1], text)
				delete(fields, f.Name)
			}
			delete(documented, info.Type)
			for name, row := range fields {
				if row[1] == "yes" || row[1] == "no" { // other tables have other columns
					t.Errorf("there is a field %s, which the type does not have", name)
				}
			}
		})
	}
	var algorithms []string
	for _, row := range rows(under(t, authTypes, "### Keys")) {
		algorithms = append(algorithms, spans(row[0])...)
	}
	slices.Sort(algorithms)
	if want := slices.Sorted(slices.Values(jws.Algorithms())); !slices.Equal(algorithms, want) {
		t.Errorf("the algorithms are %q, want %q", algorithms, want)
	}
}

// compareField compares a field with its row: whether it is required, and the text.
func compareField(t *testing.T, f abi.Field, required, text string) {
	t.Helper()
	if want := map[bool]string{true: "yes", false: "no"}[f.Required]; required != want {
		t.Errorf("%s is required: %q, want %q", f.Name, required, want)
	}
	if f.Default != "" && !strings.Contains(text, f.Default+" unless given") {
		t.Errorf("%s does not have its default, %s", f.Name, f.Default)
	}
	if f.Minimum != nil && !strings.Contains(text, fmt.Sprintf("%d at least", *f.Minimum)) {
		t.Errorf("%s does not have its minimum, %d", f.Name, *f.Minimum)
	}
	for _, value := range f.Enum {
		elsewhere := value == "" || value == f.Default || slices.Contains(jws.Algorithms(), value)
		if !elsewhere && !slices.Contains(spans(text), value) {
			t.Errorf("%s does not have its value %s", f.Name, value)
		}
	}
}

// The table at the top of docs/auth-types.md has every type, in the order of the sections, and which of them each host has.
func TestTheTableOfAuthTypes(t *testing.T) {
	text := document(t, authTypes)
	var listed, headed []string
	table, _, _ := strings.Cut(text, "\n## ")
	for _, row := range rows(table) {
		name := spans(row[0])[0]
		listed = append(listed, name)
		loaded := slices.ContainsFunc(plugins.Default(), func(module []byte) bool { return bytes.Equal(module, plugins.Of(name)) })
		if want := map[bool]string{true: "yes", false: "no"}[loaded]; row[3] != want {
			t.Errorf("each host has %s: %q, want %q", name, row[3], want)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if name, found := strings.CutPrefix(line, "## `"); found {
			headed = append(headed, strings.TrimSuffix(name, "`"))
		}
	}
	if !slices.Equal(listed, headed) {
		t.Errorf("the table has\n%q\nand the sections are\n%q", listed, headed)
	}
	var types []string
	for _, info := range builtIn(t) {
		types = append(types, info.Type)
	}
	if slices.Sort(types); !slices.Equal(slices.Sorted(slices.Values(listed)), types) {
		t.Errorf("the table has\n%q\nand the types are\n%q", listed, types)
	}
}

// The connectors in docs/auth-types.md can be loaded, all in one file. The operator's only setting says who gets tokens of users.
func TestTheConnectorsOfAuthTypes(t *testing.T) {
	file := "connectors:\n"
	for _, b := range blocks(t, authTypes) {
		if b.info == "yaml" && strings.HasPrefix(b.text, "- name: ") {
			file += b.text
		}
	}
	set, err := connectors.Read(t.Context(), "auth-types.yaml", []byte(file), connectors.Options{Host: host.Config{
		UserTokenHosts: []string{"login.microsoftonline.com", "example.okta.com"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close(context.WithoutCancel(t.Context()))
	shown := map[string]bool{"none": true} // which has no fields
	for _, c := range set.Connectors {
		shown[c.Definition().Auth.Type] = true
	}
	for _, info := range builtIn(t) {
		if !shown[info.Type] {
			t.Errorf("there is no connector with the type %s", info.Type)
		}
	}
}

// The shapes of the census in docs/auth-types.md add up, and the text below them has the sums.
func TestTheCensusAddsUp(t *testing.T) {
	text := under(t, authTypes, "## What the field uses")
	var all, served, notYet, not int
	for _, row := range rows(text) {
		if len(row) != 4 {
			continue // of the table of other schemes
		}
		n, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%.1f %%", 100*float64(n)/981); row[2] != want {
			t.Errorf("%s: the share is %s, want %s", row[0], row[2], want)
		}
		all += n
		switch {
		case strings.HasPrefix(row[3], "not yet"):
			notYet += n
		case strings.HasPrefix(row[3], "no: "):
			not += n
		default:
			served += n
		}
	}
	if all != 981 {
		t.Errorf("there are %d definitions, want 981", all)
	}
	percent := func(n, of int) int { return (200*n + of) / (2 * of) }
	want := fmt.Sprintf("%d of the 981 are served: %d %%. The first five types, as they were, served 490. %d are not served yet, because they begin "+
		"with a user's consent in a browser. Of the %d that need no consent, %d %% are served, and %d are not.",
		served, percent(served, all), notYet, served+not, percent(served, served+not), not)
	if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
		t.Errorf("%s does not have %q", authTypes, want)
	}
}
