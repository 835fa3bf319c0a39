package connectpage

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// Both languages have the same texts with the same values in them.
func TestLanguagesHaveTheSameTexts(t *testing.T) {
	values := regexp.MustCompile(`\{[a-z]*\}`)
	var german map[string]string
	testworld.Check(t, json.Unmarshal(testworld.Must(embedded.ReadFile("words/de.json"))(t), &german))
	if a, b := slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(german)); !slices.Equal(a, b) {
		t.Errorf("English has %q\nGerman has %q", a, b)
	}
	for key, text := range english {
		a, b := values.FindAllString(text, -1), values.FindAllString(german[key], -1)
		if slices.Sort(a); text == "" || german[key] == "" || !slices.Equal(slices.Compact(a), slices.Compact(slices.Sorted(slices.Values(b)))) {
			t.Errorf("%s: %q and %q", key, text, german[key])
		}
	}
}

// Each kind of page is complete HTML in each language, and has all of its words.
func TestKindsOfPages(t *testing.T) {
	l, _ := NewLook("Acme", "", "")
	for _, kind := range []string{"list", "ask", "link", "end", "signin", "problem", "connected", "denied", "unchanged", "disconnected", "not-revoked"} {
		for _, accept := range []string{"en", "de"} {
			got := string(l.For(accept).Render(http.Header{}, &Page{Kind: kind, Connector: "Orders", Permalink: "orders", User: "ada", Host: "login.test", Problem: "problem.consent-other"}, time.Now()))
			_, body, _ := strings.Cut(got, "<body")
			if !strings.HasSuffix(body, "</html>\n") || strings.Contains(got, "<p></p>") || strings.Contains(got, "<h1></h1>") || strings.Contains(body, "{") {
				t.Errorf("%s: the page is %s", kind, got)
			}
		}
	}
}

// Days are said as people say them.
func TestDates(t *testing.T) {
	l, _ := NewLook("", "", "")
	now := time.Date(2026, 5, 3, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		t               time.Time
		english, german string
	}{
		{now.Add(-time.Hour), "today", "heute"},
		{now.Add(-13 * time.Hour), "yesterday", "gestern"},
		{now.AddDate(0, 0, -2), "1 May", "1. Mai"},
		{now.AddDate(-1, 0, 0), "3 May 2025", "3. Mai 2025"},
	} {
		if a, b := l.For("en").Date(c.t, now), l.For("de").Date(c.t, now); a != c.english || b != c.german {
			t.Errorf("%v is %s and %s", c.t, a, b)
		}
	}
}
