package template

import (
	"strings"
	"testing"
)

// A single backslash right before an expression would be read together with the backslash that the host writes, so a field with
// an escape refuses it. Pairs of backslashes, other text and fields without an escape are allowed.
func TestABackslashBeforeAnExpression(t *testing.T) {
	const value = "{{ user.id }}"
	for _, test := range []struct {
		source, special string
		column          int // of the error, or 0
	}{
		{`\` + value, `\{`, 2},
		{`a\\\` + value, `\{`, 5},
		{value + `\` + value, `\{`, len(value) + 2},
		{`\\` + value, `\{`, 0},
		{`a` + value, `\{`, 0},
		{value + `\`, `\{`, 0},
		{value + value, `\{`, 0},
		{`a\ b`, `\{`, 0},
		{`\` + value, ``, 0},
	} {
		_, errs := CompileEscaped(test.source, test.special)
		switch {
		case test.column == 0 && len(errs) > 0:
			t.Errorf("%s with %q is refused: %v", test.source, test.special, errs[0])
		case test.column > 0 && (len(errs) != 1 || errs[0].Column != test.column || !strings.Contains(errs[0].Message, `write \\`)):
			t.Errorf("%s with %q has the errors %v, want one in column %d", test.source, test.special, errs, test.column)
		}
	}
}

// A connector names the tenant, or secrets of an owner, if any of its templates does.
func TestMergedNamesOfTheTenantAndOfOwners(t *testing.T) {
	for _, all := range [][]Names{{{Tenant: true, Owned: true}, {}}, {{}, {Tenant: true, Owned: true}}} {
		if n := Merged(all...); !n.Tenant || !n.Owned {
			t.Errorf("of %+v there is %+v", all, n)
		}
	}
	if n := Merged(Names{Tenant: true}, Names{Owned: true}); !n.Tenant || !n.Owned {
		t.Errorf("of two templates there is %+v", n)
	}
	if n := Merged(Names{}, Names{}); n.Tenant || n.Owned {
		t.Errorf("of nothing there is %+v", n)
	}
}
