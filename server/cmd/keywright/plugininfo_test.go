package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// inspect and info show where a plugin and its credentials come from. The words of a publisher, which nobody has checked, do not
// control the terminal (threats.md 184).
func TestWhereAPluginComesFrom_threats_184(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, env: func(string) string { return "" }}
	d := abi.Description{
		ABI: 1, Type: "acme", Version: "1.0.0", Summary: "Signs.", Homepage: "https://acme.example/", License: "MIT",
		Fields: []abi.Field{{Name: "key", Kind: abi.KindString, Doc: "The key.", Obtain: "Under Settings.", Aliases: []string{"secret"}}},
	}
	if err := a.writeInspected(host.PluginInfo{Description: d}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"homepage  https://acme.example/\n", "license   MIT\n", "The key. Formerly secret. Under Settings."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("inspect does not have %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	d.Homepage, d.Fields[0].Obtain = "https://acme.example/\x1b[2J", "Under\x1b[1A Settings."
	if err := a.writePublished(&published{Description: &d}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "\x1b") || !strings.Contains(text, `https://acme.example/\x1b[2J`) || !strings.Contains(text, `Under\x1b[1A Settings.`) {
		t.Errorf("info writes %q", text)
	}
}

// inspect shows the rules of each field.
func TestInspectShowsTheRulesOfFields(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, env: func(string) string { return "" }}
	least, most := int64(1), int64(9)
	d := abi.Description{ABI: 1, Type: "acme", Version: "1.0.0", Summary: "Signs.", Fields: []abi.Field{
		{Name: "days", Kind: abi.KindInteger, Doc: "Days.", Minimum: &least, Maximum: &most},
		{Name: "label", Kind: abi.KindString, Doc: "Label.", Pattern: "[a-z]+", PatternMessage: "is no label"},
	}}
	if err := a.writeInspected(host.PluginInfo{Description: d}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Days. At least 1. At most 9.", "Label. Matches [a-z]+ from beginning to end."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("inspect does not have %q:\n%s", want, out.String())
		}
	}
}
