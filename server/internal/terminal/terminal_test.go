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
