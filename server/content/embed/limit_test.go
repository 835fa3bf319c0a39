package embed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// open returns n different formatting elements that are not closed.
func open(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "<b title=%d>", i)
	}
	return all.String()
}

// threats.md 49: a document is reduced to its text if sanitising it takes too much time or memory for its size.
func TestHostileDocuments(t *testing.T) {
	roots := strings.Builder{}
	for i := range 60_000 {
		fmt.Fprintf(&roots, "<html a%d=1>", i)
	}
	for name, document := range map[string]string{
		"all attributes become those of one element": roots.String() + "<p>the text</p>",
		"elements come again in each paragraph":      "<p>" + open(400) + "</p>" + strings.Repeat("<p>the text", 20_000),
		"few elements come again in many paragraphs": "<p>" + open(50) + "</p>" + strings.Repeat("<p>the text", 2000),
		"too large": "<p>the text</p>" + strings.Repeat(" ", 1<<20),
	} {
		r := newWorld().resolver(t)
		for _, try := range []string{"first", "second"} {
			got := r.Resolve(t.Context(), document)
			if len(got) > len(document) || !strings.Contains(got, "the text") || strings.Contains(got, "<") {
				t.Errorf("%s, the %s time: of %d bytes of HTML came %d, not their text: %.100q", name, try, len(document), len(got), got)
			}
		}
	}
}

// A caller that goes away does not mark the document as failed for other callers.
func TestDocumentOfACallerWhoWentAway(t *testing.T) {
	r := newWorld().resolver(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = r.Resolve(ctx, "<p>some <b>text</b></p>")
	if got := r.Resolve(t.Context(), "<p>some <b>text</b></p>"); got != "<p>some <b>text</b></p>" {
		t.Errorf("it became %s", got)
	}
}
