package terminal_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/server/internal/terminal"
)

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two three", 0, "one two three"},
		{"one two three", 7, "one two|three"},
		{"one two three", 1, "one|two|three"},
		{"", 7, ""},
	} {
		if got := strings.Join(terminal.Wrap(test.text, test.width), "|"); got != test.want {
			t.Errorf("%q at %d: got %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

// The last column of a table is wrapped beside the others, or below them where it would be too narrow.
func TestTable(t *testing.T) {
	rows := [][]string{{"NAME", "MEANING"}, {"a", "the first of all letters"}, {strings.Repeat("b", 20), ""}}
	for width, want := range map[int]string{
		0:  "NAME                  MEANING|a                     the first of all letters|" + strings.Repeat("b", 20),
		50: "NAME                  MEANING|a                     the first of all letters|" + strings.Repeat("b", 20),
		40: "NAME|    MEANING|a|    the first of all letters|" + strings.Repeat("b", 20),
		29: "NAME|    MEANING|a|    the first of all letters|" + strings.Repeat("b", 20),
	} {
		table := terminal.Table(terminal.Style{}, width, rows)
		if got := strings.ReplaceAll(strings.TrimSpace(table), "\n", "|"); got != want {
			t.Errorf("at %d: got\n%s, want\n%s", width, got, want)
		}
	}
}
