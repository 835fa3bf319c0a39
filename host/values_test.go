package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// A configuration of Go may have any maps and lists whose values JSON has. Other values are named by their Go type.
func TestGoTypesOfAConfiguration(t *testing.T) {
	type word string
	g := misusing(nil)
	g.about.Fields = []abi.Field{{Name: "object", Kind: abi.KindObject}, {Name: "text", Kind: abi.KindString}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	for name, c := range map[string]config{
		"a map of texts":  {"object": map[string]string{"a": "b"}},
		"texts in a map":  {"object": map[string][]string{"a": {"b", "c"}}},
		"maps in a list":  {"object": config{"a": []map[string]word{{"b": "c"}}}},
		"a kind of text":  {"text": word("a")},
		"a kind of names": {"object": map[word]any{"a": nil}},
	} {
		if got := w.problems("custom", c); len(got) != 0 {
			t.Errorf("%s: got = %q", name, got)
		}
	}
	for want, value := range map[string]any{"is a Go time.Time, text is wanted": time.Time{}, "is a list, text is wanted": []string{"a"}, "is a number, text is wanted": int8(1)} {
		if got := w.problems("custom", config{"text": value}); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%T: got = %q", value, got)
		}
	}
}

// The error for a connector without a name says so.
func TestConnectorWithoutAName(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(misusing(nil)))
	_, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Origins: []string{apiOrigin}, Auth: host.Auth{Type: "custom"}})
	if err == nil || !strings.Contains(err.Error(), "connectors.(unnamed).name: is empty") {
		t.Errorf("the error is %v", err)
	}
}
