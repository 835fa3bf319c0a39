package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/internal/lock"
)

// A long text, or one with control characters, hides no right of a plugin (threats.md 169).
func TestEachRightIsShown(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, env: func(string) string { return "" }}
	rights := []string{"enum of json:/" + strings.Repeat("x", 5000), "is \x1b[2Jblank", "is \r", "to token"}
	if err := a.writeChanges([]lock.Change{{What: "answer\x1b[1A", Now: rights, Why: lock.WhyWider}}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, `is \x1b[2Jblank, is \r, to token  wider`) || strings.ContainsAny(text, "\x1b\r") || !strings.Contains(text, "x…, is") || !strings.Contains(text, `answer\x1b[1A`) {
		t.Errorf("%q", text)
	}
}
