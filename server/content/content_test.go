package content

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

var update = flag.Bool("update", false, "write the golden files")

// specification.md "a field without a value": JSON has the field all the same, with its type.
func TestEmptyRecordsHaveAllFields(t *testing.T) {
	for name, record := range map[string]any{
		"productupdate": ProductUpdate{}, "article": Article{}, "reply": Reply{}, "report": Reply{ReportedContent: List[Report]{{}}},
	} {
		document := testworld.Must(json.Marshal(record))(t)
		var got bytes.Buffer
		_ = json.Indent(&got, document, "", "  ")
		got.WriteByte('\n')
		file := filepath.Join("testdata", "empty-"+name+".json")
		if *update {
			testworld.Check(t, os.WriteFile(file, got.Bytes(), 0o644))
		}
		want := testworld.Must(os.ReadFile(file))(t)
		if got.String() != string(want) {
			t.Errorf("%s is\n%s, not what %s has", name, got.String(), file)
		}
	}
}

// UnmarshalText accepts and writes timestamps as specification.md "timestamps" says.
func TestUnmarshalTimestamp(t *testing.T) {
	for text, want := range map[string]Timestamp{
		"":                               "",
		"2026-03-01T09:30:00Z":           "2026-03-01T09:30:00+00:00",
		"2026-03-01T09:30:00+00:00":      "2026-03-01T09:30:00+00:00",
		"2026-03-01T09:30:00-05:00":      "2026-03-01T09:30:00-05:00",
		"2026-03-01T09:30:00.120+05:30":  "2026-03-01T09:30:00.120+05:30",
		"0000-01-01T00:00:00Z":           "0000-01-01T00:00:00+00:00",
		"9999-12-31T23:59:59.999999999Z": "9999-12-31T23:59:59.999999999+00:00",
	} {
		var got Timestamp
		if err := got.UnmarshalText([]byte(text)); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"yesterday", "2026-03-01", "2026-03-01T09:30:00", "2026-03-01 09:30:00Z", "2026-03-01T9:30:00Z", "2026-03-01T09:30:00,5Z",
		"2026-02-30T09:30:00Z", "2026-03-01T24:00:00Z", "2026-03-01T09:30:00+24:00", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00",
		"2026-03-01T09:30:00Z ", "1772357400",
	} {
		var got Timestamp
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken, as %q", text, got)
		}
	}
}

func TestInstant(t *testing.T) {
	one, _ := Timestamp("2026-03-01T09:30:00+01:00").Instant()
	other, ok := Timestamp("2026-03-01T08:30:00+00:00").Instant()
	if !ok || !one.Equal(other) || !one.Equal(time.Date(2026, 3, 1, 8, 30, 0, 0, time.UTC)) {
		t.Error(one, other, ok)
	}
	if _, ok := Timestamp("").Instant(); ok {
		t.Error("no timestamp is an instant")
	}
}

// Records survive encoding to JSON and decoding.
func TestRecordsComeBack(t *testing.T) {
	article := Article{ID: "a1", CreatedAt: "2026-03-01T09:30:00+01:00", Tags: List[string]{"x"}, Links: Links{Self: `{"href":"/articles/a1"}`}}
	document := testworld.Must(json.Marshal(article))(t)
	var back Article
	testworld.Check(t, json.Unmarshal(document, &back))
	again, _ := json.Marshal(back)
	if string(again) != string(document) || back.Links != article.Links {
		t.Errorf("%s became %s", document, again)
	}
	for _, self := range []string{`"/articles/a1"`, `[]`, `1`} {
		if err := json.Unmarshal([]byte(`{"_links":{"self":`+self+`}}`), &back); err == nil {
			t.Errorf("_links.self is taken as %s", self)
		}
	}
}

func TestCheckID(t *testing.T) {
	for _, id := range []string{"1", "0", "ü", "a/b", "..", "' OR 1=1 --", "%2f", " "} {
		testworld.WantError(t, id, CheckID(id), "")
	}
	for _, id := range []string{"", "a\x00", "a\n", "\xff", string(make([]byte, 256)), "\u0085"} {
		if CheckID(id) == nil {
			t.Errorf("%q is taken for an id", id)
		}
	}
}
