package docs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
)

const authTypes = "docs/auth-types.md"

// builtIn returns what a host knows of all built-in types.
func builtIn(t *testing.T) []host.PluginInfo {
	t.Helper()
	h := testworld.Must(host.New(t.Context(), host.Config{BuiltIns: connectors.BuiltIns(plugins.Types()...)}))(t)
	defer h.Close(context.WithoutCancel(t.Context()))
	return h.Plugins()
}

// shared are the sections with fields that several types have. The section of a type links to those that it has.
var shared = []string{"Token requests", "Servers that differ", "Clients"}

// fieldsOf returns the rows of the fields of a section, by name.
func fieldsOf(t *testing.T, heading string) map[string][]string {
	t.Helper()
	fields := map[string][]string{}
	for _, row := range rows(under(t, authTypes, heading)) {
		for _, name := range spans(row[0]) {
			if len(row) == 3 && (row[1] == "yes" || row[1] == "no") { // other tables have other columns
				fields[name] = row
			}
		}
	}
	return fields
}

// docs/auth-types.md lists every built-in type, every field with its default, minimum, maximum and values, whether it is required, and
// the fields that decide about that, and every algorithm.
func TestDocumentedAuthTypes(t *testing.T) {
	for _, info := range builtIn(t) {
		t.Run(info.Type, func(t *testing.T) {
			section := under(t, authTypes, "## `"+info.Type+"`")
			fields := fieldsOf(t, "## `"+info.Type+"`")
			common := map[string][]string{}
			for _, heading := range shared {
				if strings.Contains(section, "](#"+strings.ReplaceAll(strings.ToLower(heading), " ", "-")+")") {
					maps.Copy(common, fieldsOf(t, "## "+heading))
				}
			}
			for _, f := range info.Fields {
				row := fields[f.Name]
				about := "" // what the type's section says about a field that others have too
				if row == nil {
					row, about = common[f.Name], strings.Join(strings.Fields(section), " ")
				}
				if row == nil {
					t.Errorf("the field %s is missing", f.Name)
					continue
				}
				text := row[2] + about
				if other, same := strings.CutPrefix(text, "as for "); same {
					text = fieldsOf(t, "## `"+spans(other)[0]+"`")[f.Name][2]
				}
				if f.Name == "client_auth" {
					text += under(t, authTypes, "## Clients") // which lists the values
				}
				compareField(t, f, row[1], text)
				delete(fields, f.Name)
			}
			for name := range fields {
				t.Errorf("there is a field %s, which the type does not have", name)
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

// Each section has the same shape: when to use the type, its fields, an example, and what the API gets.
func TestTheSectionsOfAuthTypes(t *testing.T) {
	text := document(t, authTypes)
	for _, info := range builtIn(t) {
		_, section, _ := strings.Cut(text, "\n## `"+info.Type+"`\n")
		section, _, _ = strings.Cut(section, "\n## ")
		order := []string{"\n| field | required | is |\n", "```yaml\n- name: ", "API gets"}
		if len(info.Fields) == 0 {
			order = order[1:]
		}
		if strings.HasPrefix(strings.TrimSpace(section), "|") {
			t.Errorf("the section of %s does not begin with when to use it", info.Type)
		}
		rest := section
		for _, part := range order {
			_, after, found := strings.Cut(rest, part)
			if rest = after; !found {
				t.Errorf("the section of %s has no %q, or not after %q", info.Type, part, order)
			}
		}
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
	if f.Maximum != nil && !strings.Contains(text, fmt.Sprintf("%d at most", *f.Maximum)) {
		t.Errorf("%s does not have its maximum, %d", f.Name, *f.Maximum)
	}
	for _, value := range f.Enum {
		elsewhere := value == "" || value == f.Default || slices.Contains(jws.Algorithms(), value)
		if !elsewhere && !slices.Contains(spans(text), value) {
			t.Errorf("%s does not have its value %s", f.Name, value)
		}
	}
	for _, condition := range slices.Concat(f.RequiredIf, f.OnlyIf) {
		words := append([]string{condition.Field}, condition.Values...)
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
			t.Errorf("%s does not say that it depends on %s", f.Name, condition)
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
	kept := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: state.NewMemory(time.Now), Keys: [][]byte{make([]byte, 32)}}))(t)
	defer kept.Close(context.WithoutCancel(t.Context()))
	set, err := connectors.Read(t.Context(), "auth-types.yaml", []byte(file), connectors.Options{Host: host.Config{
		State:          kept,
		UserTokenHosts: []string{"login.microsoftonline.com", "example.okta.com"},
	}})
	testworld.Check(t, err)
	defer set.Close(context.WithoutCancel(t.Context()))
	shown := map[string]bool{"none": true} // which has no fields
	for _, c := range set.Connectors {
		shown[c.Definition().Auth.Type()] = true
	}
	for _, info := range builtIn(t) {
		if !shown[info.Type] {
			t.Errorf("there is no connector with the type %s", info.Type)
		}
	}
}

// The text above the table of what is not served has the sums.
func TestTheCensusAddsUp(t *testing.T) {
	const all, consents = 981, 371
	text := under(t, authTypes, "## What the field uses")
	not := map[bool]int{} // by whether it begins with a consent
	for _, row := range rows(text) {
		if n, err := strconv.Atoi(row[1]); err == nil { // not of the table of other schemes
			not[strings.HasPrefix(row[0], "consent: ")] += n
		}
	}
	served, direct := all-not[true]-not[false], all-consents
	want := fmt.Sprintf("%d of the %d are served: %.1f %%. Of the %d that begin with a consent in a browser, %d are served, and %d are not. "+
		"Of the %d that need none, %d are served, and %d are not.",
		served, all, 100*float64(served)/all, consents, consents-not[true], not[true], direct, direct-not[false], not[false])
	if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
		t.Errorf("%s does not have %q", authTypes, want)
	}
}

// docs/specification.md lists every algorithm.
func TestTheSpecifiedAlgorithms(t *testing.T) {
	for _, algorithm := range jws.Algorithms() {
		if !strings.Contains(under(t, "docs/specification.md", "### Signatures"), algorithm) {
			t.Errorf("docs/specification.md does not have the algorithm %s", algorithm)
		}
	}
}

// Templates may contain everything that docs/auth-types.md lists.
func TestDocumentedTemplates(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{Keys: struct{ host.Keys }{}, UserTokenHosts: []string{"login.example.com"}, Identities: everyIdentity{}})
	testworld.Check(t, err)
	defer h.Close(t.Context())
	connect := func(expression string) error {
		auth := host.Auth{Type: "oauth_client_credentials", Config: map[string]any{
			"token_url": "https://login.example.com/token", "client_id": "me", "client_secret": "{{ " + expression + " }}",
		}}
		if strings.HasPrefix(expression, "get_key(") {
			auth = host.Auth{Type: "jwt", Config: map[string]any{"private_key": "{{ " + expression + " }}", "claims": map[string]any{}}}
		}
		_, err := h.NewConnector(t.Context(), host.ConnectorConfig{Name: "readme", Origins: []string{"https://api.example.com"}, Auth: []host.Auth{auth}})
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

// everyIdentity has a token for each audience, for login.example.com.
type everyIdentity struct{}

func (everyIdentity) Hosts(string, string) []string { return []string{"login.example.com"} }

func (everyIdentity) Identity(context.Context, host.IdentityRequest) (string, error) {
	return "a.b.c", nil
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
