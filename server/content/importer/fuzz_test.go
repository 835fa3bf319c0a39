package importer

import (
	"bytes"
	stdjson "encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

// For any input, encoding/json decodes the good records to the same values, bad records have a problem that states the
// reason, and the result is the same for records in lines and in an array.
func FuzzImport(f *testing.F) {
	for line := range strings.Lines(four) {
		f.Add([]byte(line))
	}
	f.Add([]byte(four))
	f.Add([]byte(`[{"type":"article","id":"1"},{"type":"reply","id":"","articleId":"\ud800","repliedAt":"x"},]`))
	f.Add(community(1))
	f.Add([]byte(`{"type":"article","id":"1"}` + "\n" + `{"type":"article","id":"1","deleted":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		importing(t, &memory{}, string(text))
		var good []string
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			if record, err := decode(line, strict); err == nil {
				same(t, line, record)
			}
			if _, broken := syntax(line, problem.Place{Line: 1, Column: 1}); !broken && len(line) > 0 && line[0] != '[' && !bytes.HasPrefix(line, []byte("BZh")) {
				good = append(good, string(line))
			}
		}
		var lines, array memory
		_, one := importing(t, &lines, strings.Join(good, "\n"))
		_, other := importing(t, &array, "["+strings.Join(good, ",\n")+"]")
		if !maps.Equal(lines.records, array.records) || !slices.Equal(messages(one), messages(other)) {
			t.Errorf("lines: %q, %q\narray: %q, %q", lines.records, one, array.records, other)
		}
		if i := slices.IndexFunc(one, func(p string) bool { return strings.Contains(p, "cannot be read") }); i >= 0 {
			t.Errorf("nothing says what is wrong: %s", one[i])
		}
	})
}

// messages returns the problems without their places.
func messages(problems []string) []string {
	var all []string
	for _, p := range problems {
		all = append(all, strings.SplitN(p, ": ", 2)[1])
	}
	return all
}

// same checks that encoding/json decodes the same record.
func same(t *testing.T, line []byte, got content.Record) {
	t.Helper()
	var want content.Record
	var target any
	var others struct {
		ArticleID string `json:"articleId"`
		Deleted   bool   `json:"deleted"`
	}
	testworld.Check(t, stdjson.Unmarshal(line, &others))
	want.Deleted = others.Deleted
	switch {
	case got.ProductUpdate != nil:
		want.ProductUpdate = &content.ProductUpdate{}
		target = want.ProductUpdate
	case got.Article != nil:
		want.Article = &content.Article{}
		target = want.Article
	case got.Reply != nil:
		want.Reply = &content.Reply{}
		target = want.Reply
		want.ArticleID = others.ArticleID
	default:
		want.Moderator = &content.Moderator{}
		target = want.Moderator
	}
	if err := stdjson.Unmarshal(line, target); err != nil {
		t.Fatalf("%s is taken, but encoding/json says %v", line, err)
	}
	var a, b memory
	testworld.Check(t, a.Write(t.Context(), []content.Record{got}))
	testworld.Check(t, b.Write(t.Context(), []content.Record{want}))
	if !maps.Equal(a.records, b.records) || got.Deleted != want.Deleted {
		t.Errorf("%s is %q, and %q for encoding/json", line, a.records, b.records)
	}
}
