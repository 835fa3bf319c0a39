package mask

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// reads returns answers of a kind at these places.
func reads(t *testing.T, kind string, places ...string) (list []answer.Part) {
	t.Helper()
	for _, place := range places {
		source := testworld.Must(answer.ParseSource(place))(t)
		list = append(list, answer.Part{Answer: abi.Answer{Name: "a", From: place, Kind: kind}, Source: source})
	}
	return list
}

var maskedText = regexp.MustCompile(`masked-[0-9]+(-[0-9x]*)?`)

// A trace shows the words of standards and numbers where they belong, and hides all other texts: a server may put a credential
// anywhere (threats.md 208).
func TestMaskedBodies(t *testing.T) {
	const jwt = "urn:ietf:params:oauth:token-type:jwt"
	list := append(reads(t, contract.AnswerSealed, "json:/data/value", "form:tok3n", "form:otp5", "header:h4sh"), reads(t, contract.AnswerInteger, "json:/life", "form:age", "header:reset")...)
	const words = "abcdefghijklmnop_abcdefghijklmno_abcdefghijklmno" // of 48 bytes
	for _, c := range []struct{ media, body, want string }{
		{"application/json", `{"error":"invalid_grant","other":"invalid_grant"}`, `{"error":"invalid_grant","other":"M"}`},
		{"application/json", `{"error":"of-its-own"}`, `{"error":"M"}`},
		{"application/json", `{"other":"bearer","token_type":"Bearer"}`, `{"other":"M","token_type":"Bearer"}`},
		{"application/json", `{"token_type":"of-its-own"}`, `{"token_type":"M"}`},
		{"application/json", `{"issued_token_type":"` + jwt + `","other":"` + jwt + `"}`, `{"issued_token_type":"` + jwt + `","other":"M"}`},
		{"application/json", `{"issued_token_type":"of-its-own"}`, `{"issued_token_type":"M"}`},
		{"application/json", `{"expires_in":"3600","other":"3600"}`, `{"expires_in":"3600","other":"M"}`},
		{"application/json", `{"expires_in":"of-its-own"}`, `{"expires_in":"M"}`},
		{"application/json", `"invalid_grant"`, `"M"`},
		{"application/json", `["Bearer"]`, `["M"]`},
		{"application/json", `{"longest":123456789012345,"other":1234567890123456}`, `{"longest":123456789012345,"other":1}`},
		{"application/json", `{"data":{"value":831550199},"value":831550199}`, `{"data":{"value":111111111},"value":831550199}`},
		// The name or the place of a number says that it may be a credential, although the host does not read it there.
		{"application/json", `{"access_token":831550199,"data":{"otp":831550199,"refreshToken":831550199},"expires_in":3600}`, `{"access_token":111111111,"data":{"otp":111111111,"refreshToken":111111111},"expires_in":3600}`},
		{"application/json", `{"refresh_token_expires_in":7200}`, `{"refresh_token_expires_in":7200}`},
		{"application/json", `831550199`, `111111111`},
		{"application/json", `{"life":831550199}`, `{"life":831550199}`},
		{"application/json", `{"life":"831550199","lives":"831550199"}`, `{"life":"831550199","lives":"M"}`},
		{"application/json", `{"at":"2026-01-02T03:04:05.123456789+01:00"}`, `{"at":"2026-01-02T03:04:05.123456789+01:00"}`},
		{"application/json", `{"at":"2026-01-02T03:04:05.1234567890+01:00"}`, `{"at":"M"}`},
		{"application/json", `{"` + words + `":true}`, `{"` + words + `":true}`},
		{"application/json", `{"` + words + `_a":true}`, `{"M":true}`},
		{"application/x-www-form-urlencoded", "tok3n=secret&x9f=secret", "M=M&tok3n=M"},
		{"application/x-www-form-urlencoded", "h4sh=secret", "M=M"},
		{"application/x-www-form-urlencoded", "age=60&error=invalid_grant&error_description=secret&reset=60", "age=60&error=invalid_grant&error_description=M&reset=M"},
		{"application/x-www-form-urlencoded", "otp5=831550199&other=831550199", "other=M&otp5=M"},
		{"application/x-www-form-urlencoded", "a=%zz", ""},
		{"application/x-www-form-urlencoded", "", ""},
		{"text/plain", "a=b", ""},
	} {
		got := (&Masker{}).Answer(list, http.StatusOK, http.Header{"Content-Type": {c.media}}, []byte(c.body))
		if text := maskedText.ReplaceAllString(got.Body, "M"); text != c.want || got.Length != len(c.body) || strings.Contains(got.Body, "secret") {
			t.Errorf("%s is shown as %s, want %s", c.body, text, c.want)
		}
	}
}

// No two masked texts of a trace are equal, and each is about as long as what it stands for. It has the kinds of characters that a
// token cannot have.
func TestMaskedTexts(t *testing.T) {
	m := &Masker{}
	seen := map[string]bool{}
	for range 2 {
		got := m.Answer(nil, http.StatusOK, http.Header{}, []byte(`{"x9f3":"a","y8f2":"b","z7f1":["c","d"]}`))
		for _, text := range maskedText.FindAllString(got.Body, -1) {
			number := strings.Trim(text, "masked-x")
			if seen[number] {
				t.Errorf("%s is there twice", text)
			}
			seen[number] = true
		}
	}
	if len(seen) != 14 {
		t.Errorf("%d texts are masked", len(seen))
	}
	fill := strings.Repeat("1x", 32)
	for text, want := range map[string]string{
		strings.Repeat("a", 3): fill[:16-len("masked-1-")], strings.Repeat("a", 40): fill[:40-len("masked-1-")],
		strings.Repeat("a", 100): fill[:64-len("masked-1-")], "a\x7f": "1x1x1x1\n", "é": "1x1x1x1é", "a\u0080": "1x1x1x1\né",
	} {
		if got := (&Masker{}).text(text); got != "masked-1-"+want {
			t.Errorf("%q is %q", text, got)
		}
	}
}

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
		{"Retry-After", "831550199", ""},
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
