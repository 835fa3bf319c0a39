package console_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/console"
	"github.com/keywright/keywright/server/internal/operate/difference"
)

// threats.md 240: the differences between two files have no credential that is written into one of them.
func TestTheDifferenceOfTwoFiles(t *testing.T) {
	w := newWorld(t, oneKey)
	was, is := w.set(before), w.set(after)
	for _, show := range []func(){
		func() { w.state.Changed = difference.Of(was, is) },
		func() {
			w.state.Changed, w.state.Waiting = nil, difference.Of(was, is)
			w.state.Refused, w.state.Problems = now, []console.Problem{{Text: "gateway.tls cannot be added while this runs"}}
		},
	} {
		show()
		w.shows("/configuration", "new + new", "gone − gone",
			"orders ~ changed auth.config.value wider: the credential may allow more headers.X-Old.name headers.X-Old.value headers.X-Trace.value method GET → GET, POST wider: callers may use POST "+
				"timeout 15s → 5s url https://api.example.com → https://api2.example.com wider: the credential goes to another host",
			"none ~ changed gateway.access_log none → true", "1 new, 1 gone, 1 changed")
		if page := plain(w.get("/configuration").body); strings.Contains(page, "same") {
			t.Errorf("the page names a connector that is the same: %s", page)
		}
	}
	w.shows("/configuration", "What the file on disk would change")
	if same := difference.Of(was, w.set(before)); !same.Empty() {
		t.Errorf("between a file and itself there is the difference %+v", same)
	}
	w.state.Waiting, w.state.Changed = nil, difference.Of(was, was)
	w.shows("/configuration", "What the file on disk would change is known once nothing is wrong with it.", "Nothing that connectors, plugins or settings have.")
}

// An authority that was replaced by another one of the same name is a difference.
func TestTheDifferenceOfAuthorities(t *testing.T) {
	w := newWorld(t, oneKey)
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := "egress: {ca_file: " + file + "}\nconnectors:\n  - {name: Own, url: https://api.example.com, egress: {ca_file: " + file + "}, auth: {type: none}}\n"
	read := func(a *testworld.Authority) *connectors.Set {
		testworld.Check(t, os.WriteFile(file, []byte(a.PEM()), 0o600))
		return w.set(text)
	}
	first := testworld.NewAuthority(t)
	was, twin, is := read(first), read(first), read(testworld.NewAuthority(t))
	if d := difference.Of(was, twin); !d.Empty() {
		t.Errorf("with the same authority there is the difference %+v", d)
	}
	d := difference.Of(was, is)
	want := []difference.Member{{Path: "egress.ca_file", Wider: "servers of other authorities are trusted"}}
	if !slices.Equal(d.Others, want) || len(d.Changed) != 1 || !slices.Equal(d.Changed[0].Members, want) {
		t.Errorf("with another authority there is the difference %+v", d)
	}
}

// threats.md 240: a problem of the file on disk shows with its line and a caret, and without the values of the line.
func TestAProblemShowsItsPlaceWithoutValues(t *testing.T) {
	w := newWorld(t, oneKey)
	secret := w.Word("a credential in a bad file")
	for name, c := range map[string]struct {
		line, place, want, under string
	}{
		"misspelt": {"    client_secrt: " + secret, "client_secrt", "    client_secrt: …", "    ^"},
		"end":      {"  url:", "", "  url:", "      ^"},
		"markup":   {"  url: <b>" + secret + "</b>", "<b>", "  url: …", "       ^"},
		"control":  {"  url: \x1b[31m" + secret, "\x1b", "  url: …", "       ^"},
	} {
		t.Run(name, func(t *testing.T) {
			file := testworld.File(t, "connectors.yaml", "connectors:\n"+c.line+"\n")
			column := len([]rune(c.line)) + 1
			if c.place != "" {
				head, _, _ := strings.Cut(c.line, c.place)
				column = len([]rune(head)) + 1
			}
			found := console.ProblemsOf(file, []connectors.Problem{{Line: 2, Column: column, Message: "is wrong"}})
			if p := found[0]; p.Line != c.want || p.Indent+"^" != c.under || !strings.HasPrefix(p.Text, "2:") {
				t.Errorf("the problem is shown as %q\n%s\n%s^", p.Text, p.Line, p.Indent)
			}
			w.state.Refused, w.state.Problems = now, found
			w.get("/configuration") // get searches it
		})
	}
	elsewhere := console.ProblemsOf("nowhere.yaml", []connectors.Problem{{Line: 2, Column: 1, Message: "is wrong"}, {Message: "has no place"}})
	if elsewhere[0].Line != "" || elsewhere[1].Line != "" || elsewhere[1].Text != "has no place" {
		t.Errorf("problems without a line are shown as %+v", elsewhere)
	}
}

// codeCache is the code cache of all worlds.
var codeCache string
