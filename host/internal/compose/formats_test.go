package compose

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/contract"
)

// The size that an encoded secret counts as is enough for any text of its length, so that it does not depend on the text. For the
// text that grows the most it is exact.
func TestSizesOfEncodedTexts(t *testing.T) {
	for format, longest := range map[string]string{
		contract.FormatPercent: "\xff", contract.FormatForm: "\xff", contract.FormatQuoted: `"`, contract.FormatHex: "a", contract.FormatHexUpper: "a",
		contract.FormatBase64: "a", contract.FormatBase64URL: "a", contract.FormatBase64URLPadded: "a", contract.FormatBase32: "a",
	} {
		f := Formats[format]
		for _, n := range []int{0, 1, 2, 3, 10, 100} {
			if got, want := f.Size(n), len(f.Encode(strings.Repeat(longest, n))); got != want {
				t.Errorf("%s of %d bytes counts as %d, and may have %d", format, n, got, want)
			}
		}
	}
}
