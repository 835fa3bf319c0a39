package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// inspect and info show where a plugin and its credentials come from. The words of a publisher, which nobody has checked, do not
// control the terminal (threats.md 184).
func TestWhereAPluginComesFrom_threats_184(t *testing.T) {
	var out bytes.Buffer
	a := newApp(nil, &out, io.Discard, func(string) string { return "" })
	d := abi.Description{
		ABI: 1, Type: "acme", Version: "1.0.0", Summary: "Signs.", Homepage: "https://acme.example/", License: "MIT",
		Fields: []abi.Field{{Name: "key", Kind: abi.KindString, Doc: "The key.", Obtain: "Under Settings.", Aliases: []string{"secret"}}},
	}
	(&inspection{Description: d}).print(a)
	for _, want := range []string{"homepage  https://acme.example/\n", "license   MIT\n", "The key. Formerly secret. Under Settings."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("inspect does not have %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	d.Homepage, d.Fields[0].Obtain = "https://acme.example/\x1b[2J", "Under\x1b[1A Settings."
	(&publication{Description: &d}).print(a)
	if text := out.String(); strings.Contains(text, "\x1b") || !strings.Contains(text, `https://acme.example/\x1b[2J`) || !strings.Contains(text, `Under\x1b[1A Settings.`) {
		t.Errorf("info writes %q", text)
	}
}

// inspect shows the rules of each field.
func TestInspectShowsTheRulesOfFields(t *testing.T) {
	var out bytes.Buffer
	a := newApp(nil, &out, io.Discard, func(string) string { return "" })
	least, most := int64(1), int64(9)
	d := abi.Description{ABI: 1, Type: "acme", Version: "1.0.0", Summary: "Signs.", Fields: []abi.Field{
		{Name: "days", Kind: abi.KindInteger, Doc: "Days.", Minimum: &least, Maximum: &most},
		{Name: "label", Kind: abi.KindString, Doc: "Label.", Pattern: "[a-z]+", PatternMessage: "is no label"},
	}}
	(&inspection{Description: d}).print(a)
	for _, want := range []string{"Days. At least 1. At most 9.", "Label. Matches [a-z]+ from beginning to end."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("inspect does not have %q:\n%s", want, out.String())
		}
	}
}

// A long text, or one with control characters, hides no right of a plugin (threats.md 169).
func TestShownRights(t *testing.T) {
	var out bytes.Buffer
	a := newApp(nil, &out, io.Discard, func(string) string { return "" })
	rights := []string{"enum of json:/" + strings.Repeat("x", 5000), "is \x1b[2Jblank", "is \r", "to token"}
	printChanges(a.out, []lock.Change{{What: "answer\x1b[1A", Now: rights, Why: lock.WhyWider}})
	text := out.String()
	if !strings.Contains(text, `is \x1b[2Jblank, is \r, to token  wider`) || strings.ContainsAny(text, "\x1b\r") || !strings.Contains(text, "x…, is") || !strings.Contains(text, `answer\x1b[1A`) {
		t.Errorf("text = %q", text)
	}
}
