package expr

import (
	"strings"
	"testing"
)

// get_key names a key of a store, and perhaps its version. It has no text.
func TestKeysOfAStore(t *testing.T) {
	for source, want := range map[string]Key{
		"get_key('api')":                              {"api", 0},
		" (get_key('api', 1))":                        {"api", 1},
		"get_key('0-A.b_', 2147483647)":               {"0-A.b_", 1<<31 - 1},
		"'api' | get_key(7)":                          {"api", 7},
		"get_key('" + strings.Repeat("k", 128) + "')": {strings.Repeat("k", 128), 0},
	} {
		e := mustCompile(t, source, ofTemplates)
		if e.Key == nil || *e.Key != want || e.Kind != Text || len(e.Secrets) > 0 {
			t.Errorf("%s names %v, want %v", source, e.Key, want)
		}
		r := NewRun(new(lookups), templateLimits)
		if got := outcome(r.Evaluate(e)); !strings.HasSuffix(got, "get_key('"+want.Name+"') has no text") || !strings.HasPrefix(got, "column ") {
			t.Errorf("%s is %s", source, got)
		}
	}
	if e := mustCompile(t, "get_secret('api')", ofTemplates); e.Key != nil {
		t.Errorf("get_secret names the key %v", e.Key)
	}
}
