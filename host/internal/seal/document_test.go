package seal_test

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/testworld"
)

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
			v.Key = &seal.Key{Name: "k", Version: rapid.IntRange(0, 9).Draw(t, "version")}
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

type stream string

func (s stream) Open() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(s))), nil }
