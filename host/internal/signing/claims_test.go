package signing_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/testworld"
)

// A numeric string becomes an integer, without its fraction (specification.md "exp, iat, nbf are cast").
func TestIntegers(t *testing.T) {
	tests := []struct {
		name string
		in   any
		want any
	}{
		{"seconds", "1700000000", json.Number("1700000000")},
		{"fraction", "1700000000.999", json.Number("1700000000")},
		{"negative", "-5", json.Number("-5")},
		{"negative fraction, towards zero", "-5.9", json.Number("-5")},
		{"plus sign", "+5", json.Number("5")},
		{"leading zeros", "-0012", json.Number("-12")},
		{"zero", "0", json.Number("0")},
		{"minus zero", "-0", json.Number("0")},
		{"minus nothing much", "-0.7", json.Number("0")},
		{"largest", "9223372036854775807.5", json.Number("9223372036854775807")},
		{"smallest", "-9223372036854775808", json.Number("-9223372036854775808")},
		{"zeros that are many", strings.Repeat("0", 400) + "7", json.Number("7")},

		{"empty", "", ""},
		{"word", "soon", "soon"},
		{"exponent", "1e9", "1e9"},
		{"hexadecimal", "0x10", "0x10"},
		{"underscore", "1_000", "1_000"},
		{"blank before", " 1", " 1"},
		{"line break after", "1\n", "1\n"},
		{"two signs", "+-1", "+-1"},
		{"two signs, the other way", "-+1", "-+1"},
		{"two minus signs", "--1", "--1"},
		{"sign only", "-", "-"},
		{"point only", ".", "."},
		{"no digit before the point", ".5", ".5"},
		{"no digit after the point", "5.", "5."},
		{"two points", "1.2.3", "1.2.3"},
		{"sign after the point", "1.-2", "1.-2"},
		{"comma", "1,000", "1,000"},
		{"other digits", "١٢٣", "١٢٣"},
		{"infinity", "Inf", "Inf"},
		{"date", "2024-01-01", "2024-01-01"},

		{"number", json.Number("1.5"), json.Number("1.5")},
		{"boolean", true, true},
		{"null", nil, nil},
		{"array", []any{"1"}, []any{"1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			claims := map[string]any{"exp": test.in, "sub": "42"}
			testworld.Check(t, signing.Integers(claims, []string{"exp", "iat"}))
			if diff := cmp.Diff(map[string]any{"exp": test.want, "sub": "42"}, claims); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIntegersRefusesHugeNumbers(t *testing.T) {
	for _, text := range []string{"9223372036854775808", "-9223372036854775809", "1" + strings.Repeat("0", 400) + ".0"} {
		claims := map[string]any{"exp": text}
		err := signing.Integers(claims, []string{"exp"})
		if err == nil || !strings.Contains(err.Error(), `"exp"`) || strings.Contains(err.Error(), text) {
			t.Errorf("%.30s: error %v, want one that names the claim, not the value", text, err)
		}
	}
}
