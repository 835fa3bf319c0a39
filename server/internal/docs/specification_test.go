package docs

import (
	"encoding/json"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/jws"
)

// specified is the page that the tests in this file compare with the code.
const specified = "docs/specification.md"

// docs/specification.md lists every algorithm.
func TestTheSpecifiedAlgorithms(t *testing.T) {
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
