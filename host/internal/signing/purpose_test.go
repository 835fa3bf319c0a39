package signing_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/contract"
)

// A message whose sealed value an API may have chosen is signed only if the text in front of that excludes other protocols. A
// header of a JWS consists of these characters, and decoders skip padding and line breaks (threats.md 101).
func TestTextInFrontOfASealedValue_threats_101(t *testing.T) {
	const open = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=\r\n"
	for r := range rune(0x100) {
		problem := signing.CheckPurpose(contract.PurposeMessage, "a"+string(r)+"SEALED", "a"+string(r))
		if refused := problem != ""; refused != strings.ContainsRune(open, r) {
			t.Errorf("%q in front of a sealed value: %q", r, problem)
		}
	}
	for _, begin := range []string{"", " ", `"`, `"a/`, strings.Repeat(" ", 63)} {
		if signing.CheckPurpose(contract.PurposeMessage, begin+"SEALED", begin) == "" {
			t.Errorf("%q in front of a sealed value is enough", begin)
		}
	}
}

// A key for HTTP signatures signs nothing but a signature base, each of whose lines has a name in quotes, a colon and a space
// (RFC 9421 section 2.5, threats.md 85).
func TestLinesOfASignatureBase_threats_85(t *testing.T) {
	const last = "\n\"@signature-params\": ()"
	for line, fits := range map[string]bool{
		`"a": 1`: true, `"a";sf: 1`: true, `"a": `: true,
		`a": 1`: false, `"a: 1`: false, `"": 1`: false, `"a" 1`: false, `"a":1`: false, `"a"`: false, `"a`: false, `a: 1`: false, ``: false, `": 1`: false,
	} {
		if got := signing.CheckPurpose(contract.PurposeHTTPSignature, line+last, line+last); (got == "") != fits {
			t.Errorf("%s: got = %q", line, got)
		}
	}
}
