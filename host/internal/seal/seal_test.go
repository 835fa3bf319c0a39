package seal_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/view"
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

// What one node stores, another reads as it was: a value may go to the same places.
func TestPiecesInAStore(t *testing.T) {
	sinks := rapid.Custom(func(t *rapid.T) seal.Sinks {
		all := []seal.Sinks{seal.Header, seal.Query, seal.Token, seal.Listed, seal.Claim, seal.Sign, seal.Digest, seal.Path, seal.Body}
		var s seal.Sinks
		for _, sink := range rapid.SliceOfN(rapid.SampledFrom(all), 0, 6).Draw(t, "sinks") {
			s |= sink
		}
		return s
	})
	piece := rapid.Custom(func(t *rapid.T) seal.Piece {
		if rapid.Bool().Draw(t, "plain") {
			return seal.Piece{Text: rapid.StringN(1, -1, 64).Draw(t, "text")}
		}
		v := seal.Value{
			Text: string(rapid.SliceOf(rapid.Byte()).Draw(t, "secret")), Sinks: sinks.Draw(t, "sinks"), Derived: sinks.Draw(t, "derived"),
			Mask: rapid.String().Draw(t, "mask"), Size: rapid.IntRange(0, 1<<20).Draw(t, "size"), Raw: rapid.Bool().Draw(t, "raw"),
			Encoding: rapid.SampledFrom([]string{"", "base64"}).Draw(t, "encoding"),
		}
		if rapid.Bool().Draw(t, "key") {
			v.Key = &view.Key{Name: "k", Version: rapid.IntRange(0, 9).Draw(t, "version")}
		}
		return seal.Piece{Sealed: true, Value: v}
	})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces")
		text := testworld.Must(seal.Marshal(pieces))(t)
		read, err := seal.Unmarshal(text)
		if err != nil || !reflect.DeepEqual(read, pieces) {
			t.Fatalf("read %#v of %#v: %v", read, pieces, err)
		}
	})
}

// A text of a later version could have a restriction that this one does not know. It is refused, and the error has no part
// of it.
func TestPiecesOfALaterVersion(t *testing.T) {
	for _, text := range []string{
		`{"pieces":[{"value":{"text":"U0VDUkVU","sinks":["SECRET"]}}]}`,
		`{"pieces":[{"value":{"text":"U0VDUkVU","SECRET":1}}]}`,
		`{"pieces":[{"value":{"text":"SECRET!"}}]}`,
		`{"SECRET":1}`, "SECRET", "", `{"pieces":[{"text":"SECRET"`,
	} {
		pieces, err := seal.Unmarshal([]byte(text))
		if err == nil || pieces != nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "U0VD") {
			t.Errorf("%s: pieces = %v, err = %v", text, pieces, err)
		}
	}
	if _, err := seal.Marshal([]seal.Piece{{Sealed: true, Value: seal.Value{Stream: stream("body")}}}); err == nil {
		t.Error("the body of a request is stored")
	}
}

func stream(text string) seal.Stream {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}
