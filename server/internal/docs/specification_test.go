package docs

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/jws"
)

// specified is the page that the tests in this file compare with the code.
const specified = "docs/specification.md"

// docs/specification.md lists every field of every built-in type, with its JSON type and whether it is required.
func TestTheSpecifiedFieldsOfAuthTypes(t *testing.T) {
	jsonType := map[string]string{"url": "string", "key": "string", "certificate": "string"} // for other kinds, the JSON type is the kind
	var want, got []string
	for _, info := range builtIn(t) {
		for _, f := range info.Fields {
			kind := f.Kind
			if jsonType[kind] != "" {
				kind = jsonType[kind]
			}
			required := map[bool]string{true: "yes", false: "no"}[f.Required]
			want = append(want, strings.Join([]string{info.Type, f.Name, kind, required}, " "))
		}
	}
	for _, row := range rows(under(t, specified, "## 3. Auth types")) {
		for _, field := range spans(row[1]) {
			got = append(got, strings.Join([]string{spans(row[0])[0], field, row[2], row[3]}, " "))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the fields are\n%s\nand %s has\n%s", strings.Join(want, "\n"), specified, strings.Join(got, "\n"))
	}
	for _, algorithm := range jws.Algorithms() {
		if !strings.Contains(under(t, specified, "### Signatures"), algorithm) {
			t.Errorf("%s does not have the algorithm %s", specified, algorithm)
		}
	}
}

// docs/specification.md lists every field of every record, with its type, as in the OpenAPI description. A test of
// content/httpapi compares that with the Go types.
func TestTheSpecifiedFieldsOfRecords(t *testing.T) {
	var description struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal([]byte(document(t, "server/content/httpapi/openapi.json")), &description); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Author", "Reputation", "ProductUpdate", "Article", "Reply", "Report", "ProductArea", "LastEdit", "ScheduledBy", "Links",
	} {
		want, got := map[string]string{}, map[string]string{}
		for field, of := range description.Components.Schemas[name].Properties {
			want[field] = of.name()
		}
		for _, row := range rows(under(t, specified, "### "+name)) {
			for _, field := range spans(row[0]) {
				got[field] = row[1]
			}
		}
		if len(want) == 0 || !maps.Equal(got, want) {
			t.Errorf("the fields of %s are\n%v\nand %s has\n%v", name, want, specified, got)
		}
	}
}

// schema is the part of an OpenAPI schema that describes the type of a field.
type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Items      *schema
	Properties map[string]schema
}

// name returns the name of the type in the specification.
func (s schema) name() string {
	switch name := path.Base(s.Ref); {
	case name == "Timestamp":
		return "timestamp"
	case s.Ref != "":
		return name
	case s.Items != nil:
		return "array of " + s.Items.name()
	}
	return s.Type
}
