package docs

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/content"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
)

// specified is the page that this file holds to the code.
const specified = "docs/specification.md"

// docs/specification.md has each field of each type that is built in, with its JSON type and whether it is required.
func TestTheSpecifiedFieldsOfAuthTypes(t *testing.T) {
	h, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	jsonType := map[string]string{"url": "string", "key": "string"} // of other kinds, their name
	var want, got []string
	for _, info := range h.Plugins() {
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
		got = append(got, strings.ReplaceAll(strings.Join(row, " "), "`", ""))
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

// docs/specification.md has each field of each record, with its type.
func TestTheSpecifiedFieldsOfRecords(t *testing.T) {
	for _, record := range []any{
		content.Author{},
		content.Reputation{},
		content.ProductUpdate{},
		content.Article{},
		content.Reply{},
		content.Report{},
		content.ProductArea{},
		content.LastEdit{},
		content.ScheduledBy{},
		content.Links{},
	} {
		of := reflect.TypeOf(record)
		want, got := map[string]string{}, map[string]string{}
		for _, field := range reflect.VisibleFields(of) {
			if !field.Anonymous {
				want[field.Tag.Get("json")] = typeName(field.Type)
			}
		}
		for _, row := range rows(under(t, specified, "### "+of.Name())) {
			for _, name := range spans(row[0]) {
				got[name] = row[1]
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the fields of %s are\n%v\nand %s has\n%v", of.Name(), want, specified, got)
		}
	}
}

// typeName returns a type as the specification writes it.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "array of " + typeName(t.Elem())
	case reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "boolean"
	case reflect.Struct:
		return t.Name()
	}
	switch t {
	case reflect.TypeFor[content.Object](), reflect.TypeFor[content.Timestamp]():
		return strings.ToLower(t.Name())
	}
	return t.Kind().String()
}
