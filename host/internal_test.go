package host

import (
	"net/url"
	"strings"
	"testing"
	"time"
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

// A default in a tag of Limits that has no number, or a unit that does not exist, stops every test of the host: it must not
// become another limit.
func TestLimitTags(t *testing.T) {
	for _, text := range []string{"", "many", "12 parsecs", "twelve MiB", "1 mib"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken for %d", text, parseLimit(text))
				}
			}()
			parseLimit(text)
		}()
	}
	for text, want := range map[string]int64{"12": 12, "1,000": 1000, "2 MiB": 2 << 20, "15 s": 15e9} {
		if got := parseLimit(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The seconds of an attribute are whole, and no less than the time.
func TestRetryAfterOfASpan(t *testing.T) {
	for d, want := range map[time.Duration]int64{1: 1, 30 * time.Second: 30, 30*time.Second + 1: 31} {
		if got := (SpanEnd{retryAfter: d}).Attributes(); len(got) != 1 || got[0].Key != "keywright.retry_after_seconds" || got[0].Value.Int64() != want {
			t.Errorf("%v is %v, want %d", d, got, want)
		}
	}
	if got := (SpanEnd{}).Attributes(); len(got) != 0 {
		t.Errorf("no time is %v", got)
	}
}
