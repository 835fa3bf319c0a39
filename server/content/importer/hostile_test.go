package importer

import (
	"strings"
	"testing"
)

// threats.md 49: for a record with very many problems, only the first ones and the number of the others are reported.
func TestManyProblemsOfOneRecord(t *testing.T) {
	for name, c := range map[string]struct{ before, each, after, want string }{
		"unknown members": {`{"type":"article","id":"1"`, `,"titel":1`, `}`, `f:1:28: there is no "titel" in an article: did you mean "title"?`},
		"members twice":   {`{"type":"article","id":"1","title":""`, `,"title":""`, `}`, `f:1:39: there is more than one "title": take the others away`},
		"wrong elements":  {`{"type":"article","id":"1","tags":[0`, `,1`, `]}`, `f:1:36: tags[0]: has to be a string, not a number`},
	} {
		const n = 150_000
		_, problems := importing(t, &memory{}, c.before+strings.Repeat(c.each, n)+c.after)
		if len(problems) != recordProblems+1 || problems[0] != c.want || !strings.HasSuffix(problems[recordProblems], " problems more") {
			t.Errorf("%s: %d problems, %q", name, len(problems), problems)
		}
	}
}

// threats.md 49: a record cannot become hundreds of times as large as its text.
func TestManyObjectsInOneRecord(t *testing.T) {
	record := func(n int) string {
		return `{"type":"reply","id":"1","articleId":"1","content":"` + strings.Repeat("{", maxObjects) + `","reportedContent":[` +
			strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]}"
	}
	if result, problems := importing(t, &memory{}, record(maxObjects-1)); result.Replies != 1 || len(problems) != 0 {
		t.Errorf("of as many as there may be: %+v, %q", result, problems)
	}
	w := &memory{}
	result, problems := importing(t, w, record(maxObjects)+"\n"+`{"type":"moderator","id":"1"}`)
	want := "f:1:1: this record has more than 10000 objects in it, which is too much: take some away"
	if result.Moderators != 1 || result.Bad != 1 || len(w.records) != 1 || len(problems) != 1 || problems[0] != want {
		t.Errorf("of one more: %+v, %q", result, problems)
	}
}

// An article does not make a page unreadable for JSON decoders with a limit of nesting.
func TestDeepObjects(t *testing.T) {
	record := func(levels int) string {
		return `{"type":"article","id":"1","_links":{"self":` + strings.Repeat(`{"a":`, levels) + "[]" + strings.Repeat("}", levels) + "}}"
	}
	if result, problems := importing(t, &memory{}, record(maxDepth-1)); result.Articles != 1 {
		t.Errorf("of as many as there may be: %+v, %q", result, problems)
	}
	result, problems := importing(t, &memory{}, record(maxDepth))
	want := "f:1:45: _links.self: is nested deeper than 100 levels: take some away"
	if result.Bad != 1 || len(problems) != 1 || problems[0] != want {
		t.Errorf("of one more: %+v, %q", result, problems)
	}
}
