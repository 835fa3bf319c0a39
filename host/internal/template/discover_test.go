package template

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// A template with discover knows what it discovers. A mistake has its column, and names what was meant. threats.md 140
func TestDiscover(t *testing.T) {
	wantText(t, "{{ discover('https://login.test', 'token_endpoint') }}?a=b", "https://login.test/token_endpoint?a=b")
	object := testworld.Must(compileObject(map[string]any{
		"a": "{{ discover('https://login.test', 'token_endpoint') }} {{ discover('https://a.test/b', 'userinfo_endpoint') }}",
		"b": []any{"{{ discover('https://login.test', 'revocation_endpoint') }}{{ discover('https://login.test', 'token_endpoint') }}"},
	}))(t)
	want := []Discovery{
		{Issuer: "https://a.test/b", Member: "userinfo_endpoint"},
		{Issuer: "https://login.test", Member: "revocation_endpoint"},
		{Issuer: "https://login.test", Member: "token_endpoint"},
	}
	if got := object.Names().Discovered; !slices.Equal(got, want) {
		t.Errorf("the object discovers %v, want %v", got, want)
	}
	for _, endpoint := range endpoints {
		if _, err := compile("{{ discover('http://localhost:8080/a/', '" + endpoint + "') }}"); err != nil {
			t.Errorf("%s: err = %v", endpoint, err)
		}
	}

	for issuer, want := range map[string]string{
		"login.test":                             "column 13: the issuer is not an https URL such as https://login.example.com",
		"https://":                               "column 13: the issuer has no host",
		"https://me:pw@login.test":               "column 13: the issuer has user info, which would end up in logs",
		"https://login.test#a":                   "column 13: the issuer has a fragment, which is never sent: remove it",
		"https://login.test?":                    "column 13: the issuer has a query, which an issuer must not have (RFC 8414 section 2)",
		"https://login.test/a?b=c":               "column 13: the issuer has a query, which an issuer must not have (RFC 8414 section 2)",
		"https://login.test/.well-known/openid-": "column 13: the issuer is the URL of the metadata: write the value of the member issuer in it",
	} {
		_, err := compile("{{ discover('" + issuer + "', 'token_endpoint') }}")
		if err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, want %s", issuer, err, want)
		}
	}
	for member, want := range map[string]string{
		"token_endpoints": `column 35: there is no such endpoint; did you mean "token_endpoint"?`,
		"Token_Endpoint":  `column 35: there is no such endpoint; did you mean "token_endpoint"?`,
		"jwks_uri":        "column 35: there is no such endpoint; there are " + strings.Join(endpoints, ", "),
		"issuer":          "column 35: there is no such endpoint; there are " + strings.Join(endpoints, ", "),
	} {
		_, err := compile("{{ discover('https://login.test', '" + member + "') }}")
		if err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, want %s", member, err, want)
		}
	}
}
