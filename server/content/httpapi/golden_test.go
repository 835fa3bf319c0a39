package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

var update = flag.Bool("update", false, "write the golden files")

// fill sets each field of v to a different value.
func fill(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.String:
		switch v.Type() {
		case reflect.TypeFor[content.Timestamp]():
			v.SetString("2026-03-01T09:30:" + strconv.Itoa(10+*next%50) + "+05:30")
		case reflect.TypeFor[content.Object]():
			v.SetString(`{"href":"/articles/` + strconv.Itoa(*next) + `"}`)
		default:
			v.SetString("text " + strconv.Itoa(*next) + " <ü>")
		}
	case reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), next)
		fill(v.Index(1), next)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, next)
		}
	default:
		panic("fields of records have other kinds: " + v.Kind().String())
	}
}

func filled[T any]() (record T) {
	next := 0
	fill(reflect.ValueOf(&record).Elem(), &next)
	return record
}

// full returns a store with two records of each type: one has all fields, the other none. The full product update and
// the full reply are hidden from everybody but moderators.
func full() *memory {
	article := filled[content.Article]()
	article.Trashed = false // trashed articles are not listed
	return &memory{
		updates:    map[string]content.ProductUpdate{"full": filled[content.ProductUpdate](), "empty": {}},
		list:       []content.Article{article, {}},
		replies:    map[[2]string]content.Reply{{"a1", "full"}: filled[content.Reply](), {"a1", "empty"}: {}},
		moderators: map[string]bool{"m1": true},
	}
}

// specification.md 6.2, 6.3, 6.4 and 6.11, specification.md "error body": responses have all fields, with their types, in
// their wrappers.
func TestAnswers(t *testing.T) {
	h := handler(t, httpapi.Config{Store: full()})
	none := handler(t, httpapi.Config{Store: &memory{}})
	for name, got := range map[string]answer{
		"productupdate-full":  ask(t, h, "GET", "/productUpdates/full?moderatorId=m1"),
		"productupdate-empty": ask(t, h, "GET", "/productUpdates/empty"),
		"articles":            ask(t, h, "GET", "/articles"),
		"articles-none":       ask(t, none, "GET", "/articles"),
		"reply-full":          ask(t, h, "GET", "/articles/a1/replies/full?moderatorId=m1"),
		"reply-empty":         ask(t, h, "GET", "/articles/a1/replies/empty"),
		"not-found":           ask(t, h, "GET", "/productUpdates/none"),
		"invalid-parameters":  ask(t, h, "GET", "/articles?page=0&pageSize=101"),
	} {
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(got.body), "", "  "); err != nil {
			t.Errorf("%s: %v in %q", name, err, got.body)
			continue
		}
		indented.WriteByte('\n')
		file := filepath.Join("testdata", name+".json")
		if *update {
			testworld.Check(t, os.WriteFile(file, indented.Bytes(), 0o644))
		}
		want := testworld.Must(os.ReadFile(file))(t)
		if indented.String() != string(want) {
			t.Errorf("%s is\n%s\nnot what %s has", name, indented.String(), file)
		}
	}
}
