package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
)

// The report has the place and the time of the first line and of the last one, and the files that are empty.
func TestReport(t *testing.T) {
	w := newDirectory(t)
	now := noon
	l := w.open("audit.log", func(c *audit.Config) { c.Clock = func() time.Time { return now } })
	uses(l, "ann")
	w.rename("audit.log", "audit.log.1")
	now = noon.Add(time.Hour)
	uses(l, "bob")
	w.close(l)
	w.write("empty", "")
	var logged struct{ Hash string }
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	testworld.Check(t, json.Unmarshal([]byte(lines[len(lines)-1]), &logged))
	r, err := audit.Verify([]string{w.path("audit.log"), w.path("empty")}, "")
	want := audit.Report{
		OK: true, Lines: 3, Uses: 1, First: 3, Last: 5, From: noon.Format(time.RFC3339), To: now.Format(time.RFC3339), Ended: true,
		Hash: logged.Hash, Empty: []string{w.path("empty")},
	}
	if diff := cmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if r, err := audit.Verify([]string{w.path("empty")}, ""); err != nil || r.Hash != "" || r.Last != 0 {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
}

// chained returns a line with these members after a line with a hash, as who knows docs/audit.md can make it.
func chained(before [32]byte, members string) string {
	sum := sha256.Sum256(append(before[:], members...))
	return members + `,"hash":"` + hex.EncodeToString(sum[:]) + "\"}\n"
}

// threats.md 177: the first line of a log says which line it continues, or is the very first.
func TestDetachedFirstLines(t *testing.T) {
	w := newDirectory(t)
	zero, full := strings.Repeat("00", 32), [32]byte{1}
	const continues = "0 0 0 false: x:1 does not say which line it continues"
	for name, c := range map[string]struct{ line, want string }{
		"the first":                   {chained([32]byte{}, `{"n":1,"use":"begin"`), "1 0 0 false"},
		"the fifth":                   {chained(full, `{"n":5,"use":"begin","continues":"`+hex.EncodeToString(full[:])+`"`), "1 0 0 false"},
		"the fifth, after nothing":    {chained([32]byte{}, `{"n":5,"use":"begin"`), continues},
		"the fifth, after no hash":    {chained([32]byte{}, `{"n":5,"use":"begin","continues":"`+zero[:62]+`"`), continues},
		"the fifth, after a text":     {chained([32]byte{}, `{"n":5,"use":"begin","continues":"`+zero+`x"`), continues},
		"the first, after another":    {chained(full, `{"n":1,"use":"begin","continues":"`+hex.EncodeToString(full[:])+`"`), continues},
		"one without a number at all": {chained(full, `{"n":0,"use":"begin","continues":"`+hex.EncodeToString(full[:])+`"`), continues},
	} {
		w.write("x", c.line)
		if got := w.verify("x"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
