package seal_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// However a value is printed, the secret does not appear (threats.md 21, specification.md "error texts").
func TestPrintingShowsNoSecret(t *testing.T) {
	table := newTable()
	v := seal.Value{Text: canary, Sinks: seal.Header, Mask: "<token>"}
	ref := testworld.Must(table.Seal(v))(t)
	pieces := testworld.Must(table.Split("a " + ref))(t)
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+verb, v, &v, pieces, table)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("line", "value", v, "pieces", pieces, "table", table)
	}
	testworld.Check(t, json.NewEncoder(&out).Encode(pieces))
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), ref} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q in %s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), "<token>") {
		t.Error("no mask printed")
	}
}

func TestParseSinks(t *testing.T) {
	s, err := seal.ParseSinks([]string{"query", "header", "query"})
	if s != seal.Header|seal.Query || err != nil {
		t.Errorf("ParseSinks: %s, %v", s, err)
	}
	if got := s.String(); got != "header, query" {
		t.Errorf("String: %q", got)
	}
	if got := seal.Sinks(0).String(); got != "none" {
		t.Errorf("String of no sinks: %q", got)
	}
	if all, err := seal.ParseSinks(contract.Sinks); all != seal.All || err != nil {
		t.Errorf("all of the contract's sinks: %s, %v", all, err)
	}
	for _, bad := range []string{"", "Header", "cookie"} {
		if s, err := seal.ParseSinks([]string{"header", bad}); s != 0 || err == nil {
			t.Errorf("ParseSinks(%q): %s, %v", bad, s, err)
		}
	}
}
