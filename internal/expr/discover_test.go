package expr

import (
	"errors"
	"slices"
	"testing"
)

// discover names an issuer and a member literally, and its value comes from outside.
func TestDiscover(t *testing.T) {
	e := mustCompile(t, "tenant_id == 'a' ? discover('https://a.test', 'm') : discover('https://b.test', 'n')", ofTemplates)
	if want := []Discovery{{"https://a.test", "m"}, {"https://b.test", "n"}}; !slices.Equal(e.Discovered, want) || e.Secret || e.Kind != Text {
		t.Errorf("the expression has %v, want %v", e.Discovered, want)
	}
	r := NewRun(new(lookups), templateLimits)
	if _, err := r.Evaluate(mustCompile(t, "discover('https://other.test', 'm')", ofTemplates)); !errors.Is(err, errNoIssuer) {
		t.Errorf("the error is %v", err)
	}

	checked := *ofTemplates
	checked.CheckDiscovery = func(Discovery) (int, string) { return 1, "is nothing that there is" }
	table{{"discover('https://login.test', 'x')", "column 32: is nothing that there is"}}.refused(t, &checked)
}
