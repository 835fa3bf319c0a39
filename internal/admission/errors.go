package admission

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Reason is one thing for which a module is refused.
type Reason struct {
	Text     string
	Name     string // of the function, as the compiler called it; "" when the module does not say it
	Function int    // index of the function it is in, imports counted; -1 when it is in none
	Offset   int    // of the byte in the module as delivered; 0 when it is the module as a whole
}

// String is the text, and the place where there is one.
func (r Reason) String() string {
	switch {
	case r.Function >= 0 && r.Name != "":
		return fmt.Sprintf("%s (function %d, %q, byte %#x)", r.Text, r.Function, r.Name, r.Offset)
	case r.Function >= 0:
		return fmt.Sprintf("%s (function %d, byte %#x)", r.Text, r.Function, r.Offset)
	case r.Offset > 0:
		return fmt.Sprintf("%s (byte %#x)", r.Text, r.Offset)
	}
	return r.Text
}

// RefusedError is why a module is not admitted: every reason that could be found, up to a number. What cannot be read
// at all hides what comes after it.
type RefusedError struct {
	Reasons []Reason
}

func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		texts[i] = r.String()
	}
	return "the module is refused: " + strings.Join(texts, "; ")
}

// cut shortens what a stranger wrote to what fits an error message.
func cut(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	n := most
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
