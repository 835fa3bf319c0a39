package host

import (
	"net/url"
	"strings"
	"testing"
)

// An authorization response counts only if it is from the connector's authorization server (RFC 9207 section 2.4), and has a code
// of at most 4096 bytes.
func TestAuthorizationResponseChecks(t *testing.T) {
	const issuer = "https://login.test"
	for name, c := range map[string]struct {
		issuer   string
		required bool
		response url.Values
		want     ConsentReason
		code     string
	}{
		"a code":                     {"", false, url.Values{"code": {"c"}}, "", ""},
		"the longest code":           {"", false, url.Values{"code": {strings.Repeat("c", 4096)}}, "", ""},
		"a longer code":              {"", false, url.Values{"code": {strings.Repeat("c", 4097)}}, ConsentForged, ""},
		"no code":                    {"", false, url.Values{}, ConsentForged, ""},
		"two codes":                  {"", false, url.Values{"code": {"c", "d"}}, ConsentForged, ""},
		"the issuer":                 {issuer, true, url.Values{"code": {"c"}, "iss": {issuer}}, "", ""},
		"another issuer":             {issuer, false, url.Values{"code": {"c"}, "iss": {"https://evil.test"}}, ConsentForged, ""},
		"an issuer that is unknown":  {"", false, url.Values{"code": {"c"}, "iss": {issuer}}, "", ""},
		"no issuer":                  {issuer, false, url.Values{"code": {"c"}}, "", ""},
		"no issuer, which is needed": {issuer, true, url.Values{"code": {"c"}}, ConsentForged, ""},
		"denied":                     {issuer, true, url.Values{"error": {"access_denied"}, "iss": {issuer}}, ConsentDenied, "access_denied"},
		"denied by another issuer":   {issuer, true, url.Values{"error": {"access_denied"}, "iss": {"https://evil.test"}}, ConsentForged, ""},
		"an error":                   {"", false, url.Values{"error": {"server_error"}}, ConsentFailed, "server_error"},
		"an unknown error":           {"", false, url.Values{"error": {"made_up"}}, ConsentFailed, ""},
	} {
		p := &pendingConsent{Issuer: c.issuer, IssRequired: c.required, CodeParameter: "code"}
		got := p.answer(c.response)
		if (got == nil) != (c.want == "") || got != nil && (got.Reason != c.want || got.Code != c.code || got.Text == "") {
			t.Errorf("%s: the error is %+v, want reason %q, code %q", name, got, c.want, c.code)
		}
	}
}
