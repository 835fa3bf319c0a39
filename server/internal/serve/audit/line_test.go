package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/keywright/keywright/server/internal/serve/audit"
)

// threats.md 21: a text can hold any character, alone or among others, stays within its line, and does not change how the line is shown.
func TestTextsOfAnyCharacter(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	texts := []string{"\u202eadmin", "\u2066", "\U000e0001"}
	for c := range rune(0x100) {
		texts = append(texts, string(c), "a"+string(c)+"b")
	}
	uses(l, texts...)
	w.close(l)
	lines := strings.Split(w.read("audit.log"), "\n")
	if len(lines) != len(texts)+3 {
		t.Fatalf("there are %d lines of %d texts", len(lines), len(texts))
	}
	for i, text := range texts {
		var line struct{ User string }
		if err := json.Unmarshal([]byte(lines[i+1]), &line); err != nil || line.User != text || strings.ContainsAny(lines[i+1], "<>&") || strings.ContainsFunc(lines[i+1], func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is in %s: %v", text, lines[i+1], err)
		}
	}
}

// An ID has at most 256 bytes of whole characters, and then an ellipsis, so that nobody makes lines that are too long.
func TestLongIDs(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	for id, want := range map[string]string{
		strings.Repeat("a", 256):       strings.Repeat("a", 256),
		strings.Repeat("a", 257):       strings.Repeat("a", 256) + "…",
		strings.Repeat("é", 200):       strings.Repeat("é", 128) + "…",
		"a" + strings.Repeat("é", 128): "a" + strings.Repeat("é", 127) + "…",
		strings.Repeat("\x80", 300):    "…",
	} {
		uses(l, id)
		lines := strings.Split(strings.TrimSpace(w.read("audit.log")), "\n")
		var line struct{ User string }
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil || line.User != want {
			t.Errorf("%q is %q, want %q: %v", id, line.User, want, err)
		}
	}
	w.close(l)
}

// The log is UTF-8, also if an ID is not.
func TestNonUTF8IDs(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "\xe9\xe8", "a\xe9")
	if text := w.read("audit.log"); !utf8.ValidString(text) {
		t.Errorf("it is not: %q", text)
	}
}

// A connector with more secrets than fit into a line does not make one that nobody can read.
func TestManySecrets(t *testing.T) {
	w := newDirectory(t)
	var names []string
	for i := range 1500 {
		names = append(names, fmt.Sprintf("a-secret-with-a-name-that-is-not-short-at-all-but-may-well-be-so/%d", i))
	}
	for range 2 {
		l := w.open("a.log")
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: audit.NewSubject("orders", "api_key", "built-in", "abc", names), Status: 200})
		w.close(l)
	}
	if r, err := audit.Verify([]string{w.path("a.log")}, ""); err != nil || r.Broken != nil || r.Uses != 2 {
		t.Errorf("%+v: err = %v", r, err)
	}
	var line struct {
		Secrets []string
		More    int `json:"more_secrets"`
	}
	text := strings.Split(w.read("a.log"), "\n")[1]
	if err := json.Unmarshal([]byte(text), &line); err != nil || len(line.Secrets)+line.More != len(names) || !slices.Equal(line.Secrets, names[:len(line.Secrets)]) {
		t.Errorf("%v: the line has %d bytes: %.500s", err, len(text), text)
	}
	if n := len(text); n < 15<<10 || n > 17<<10 {
		t.Errorf("the line has %d bytes", n)
	}
}

// A line has names of secrets of 16 KiB, and the number of the others.
func TestLongNamesOfSecrets(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	for i, c := range []struct {
		lengths []int
		want    string
	}{
		{[]int{16 << 10}, `],"hash"`},
		{[]int{16<<10 + 1}, `"secrets":[],"more_secrets":1,"hash"`},
		{[]int{10 << 10, 10 << 10, 1}, `],"more_secrets":2,"hash"`},
	} {
		var names []string
		for _, n := range c.lengths {
			names = append(names, strings.Repeat("a", n))
		}
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: audit.NewSubject("orders", "api_key", "built-in", "abc", names)})
		l.Flush()
		if line := strings.Split(w.read("audit.log"), "\n")[i+1]; !strings.Contains(line, c.want) {
			t.Errorf("with names of %v bytes, the end of the line is %s", c.lengths, line[max(0, len(line)-200):])
		}
	}
	w.close(l)
}
