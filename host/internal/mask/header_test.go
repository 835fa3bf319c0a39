package mask

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/contract"
)

// A trace shows the words of standards and of the plugin in the headers in which they belong, and hides all other texts: a server
// may put a credential anywhere (threats.md 208).
func TestMaskedHeaders_threats_208(t *testing.T) {
	list := append(reads(t, contract.AnswerSealed, "header:X-Key", "cookie:session", "auth:Custom/ticket", "info:after", "form:hidden", "json:/X-Count"),
		reads(t, contract.AnswerInteger, "header:X-Count")...)
	enum := reads(t, contract.AnswerEnum, "header:X-Mode", "auth:Custom/mode")
	for i := range enum {
		enum[i].Enum = []string{"fast", "slow"}
	}
	list = append(list, enum...)
	const secret = "s3cret-of-somebody"
	for _, c := range []struct{ name, value, want string }{
		{"X-Other", secret, ""},
		{"X-Key", secret, "M"},
		{"X-Key", "7", "M"},
		{"X-Count", "7", "7"},
		{"X-Count", secret, "M"},
		{"X-Mode", "FAST", "FAST"},
		{"X-Mode", secret, "M"},
		{"Age", "7776000", "7776000"},
		{"Age", "77760000", ""}, // a credential may have eight digits
		{"Hidden", "7", ""},
		{"Session", secret, ""},
		{"Set-Cookie", "session=" + secret, "session=M"},
		{"Set-Cookie", "other=" + secret, ""},
		{"Set-Cookie", "hidden=" + secret, ""},
		{"Set-Cookie", "Session=" + secret, ""},
		{"Www-Authenticate", secret, "Masked"},
		{"Www-Authenticate", "basic realm=" + secret, `Basic realm="M"`},
		{"Www-Authenticate", "CUSTOM ticket=" + secret, `Custom ticket="M"`},
		{"Www-Authenticate", "x-key " + secret, "Masked"},
		{"Www-Authenticate", "fast x=y", "Masked"},
		{"Www-Authenticate", "hidden", "Masked"},
		{"Www-Authenticate", "Bearer s3cret=" + secret, "Bearer"},
		{"Www-Authenticate", "Bearer after=" + secret, `Bearer after="M"`},
		{"Www-Authenticate", "Bearer error=invalid_token", `Bearer error="invalid_token"`},
		{"Www-Authenticate", "Bearer error=invalid_grant", `Bearer error="invalid_grant"`},
		{"Www-Authenticate", "Bearer realm=invalid_grant", `Bearer realm="M"`},
		{"Www-Authenticate", "Bearer error=" + secret, `Bearer error="M"`},
		{"Www-Authenticate", `Digest qop="auth,auth-int"`, `Digest qop="auth,auth-int"`},
		{"Www-Authenticate", `Digest qop="auth auth-int"`, `Digest qop="auth auth-int"`},
		{"Www-Authenticate", `Digest qop="auth,` + secret + `"`, `Digest qop="M"`},
		{"Www-Authenticate", `Digest qop="auth ` + secret + `"`, `Digest qop="M"`},
		{"Www-Authenticate", "Custom mode=slow", `Custom mode="slow"`},
		{"Www-Authenticate", "Custom mode=" + secret, `Custom mode="M"`},
		{"Www-Authenticate", "Custom ticket=slow", `Custom ticket="M"`},
		{"Www-Authenticate", "Custom realm=slow", `Custom realm="M"`},
		{"Authentication-Info", "after=" + secret + ", s3cret=x", `after="M"`},
	} {
		header := http.Header{c.name: {c.value}}
		shown := (&Masker{list: list}).header(c.name, header)
		if got := maskedText.ReplaceAllString(shown, "M"); got != c.want || strings.Contains(shown, "s3cret") {
			t.Errorf("%s: %s is shown as %s, want %s", c.name, c.value, got, c.want)
		}
	}
}
