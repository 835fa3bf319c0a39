package expr

import (
	"errors"
	"slices"
	"testing"
)

// discover names an issuer and a member literally, and its value comes from outside.
func TestDiscover(t *testing.T) {
	table{
		{"discover('https://login.test', 'token_endpoint')", "'https://login.test/token_endpoint'"},
		{"'https://login.test' | discover('token_endpoint')", "'https://login.test/token_endpoint'"},
		{"discover('https://login.test', 'token_endpoint') + '?a=b'", "'https://login.test/token_endpoint?a=b'"},
		{"default(discover('https://other.test', 'token_endpoint'), 'x')", "column 9: discover('https://other.test', 'token_endpoint'): no such issuer"},
	}.inTemplates(t)
	e := mustCompile(t, "tenant_id == 'a' ? discover('https://a.test', 'm') : discover('https://b.test', 'n')", ofTemplates)
	if want := []Discovery{{"https://a.test", "m"}, {"https://b.test", "n"}}; !slices.Equal(e.Discovered, want) || e.Secret || e.Kind != Text {
		t.Errorf("the expression has %v, want %v", e.Discovered, want)
	}
	r := NewRun(new(lookups), templateLimits)
	if _, err := r.Evaluate(mustCompile(t, "discover('https://other.test', 'm')", ofTemplates)); !errors.Is(err, errNoIssuer) {
		t.Errorf("the error is %v", err)
	}

	table{
		{"discover('https://login.test')", "column 1: discover takes an issuer, and a member of its metadata"},
		{"discover('https://login.test', 'a', 'b')", "column 1: discover takes an issuer, and a member of its metadata"},
		{"discover(user.id, 'token_endpoint')", "column 10: the issuer must be a literal text, in quotes"},
		{"discover('https://' + tenant_id, 'token_endpoint')", "column 21: the issuer must be a literal text, in quotes"},
		{"discover(get_secret('crm'), 'token_endpoint')", "column 10: the issuer must be a literal text, in quotes"},
		{"discover('https://login.test', user.id)", "column 32: the member must be a literal text, in quotes"},
	}.refused(t, ofTemplates)
	table{
		{"discover('https://login.test', 'token_endpoint')", "column 1: discover is not available here: it names where credentials go; put it into auth"},
	}.refused(t, new(lookups).language())

	checked := *ofTemplates
	checked.CheckDiscovery = func(Discovery) (int, string) { return 1, "is nothing that there is" }
	table{{"discover('https://login.test', 'x')", "column 32: is nothing that there is"}}.refused(t, &checked)
}
