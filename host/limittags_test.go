package host

import "testing"

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
