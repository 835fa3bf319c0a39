package host

import (
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/event"
)

// An authorization response has one code of at most 4096 bytes. TestIssOfAConsent, and the tests of the plugin, show what else of it
// is checked.
func TestAuthorizationResponseChecks(t *testing.T) {
	for name, c := range map[string]struct {
		codes []string
		fits  bool
	}{
		"a code":           {[]string{"c"}, true},
		"the longest code": {[]string{strings.Repeat("c", 4096)}, true},
		"a longer code":    {[]string{strings.Repeat("c", 4097)}, false},
		"no code":          {nil, false},
		"two codes":        {[]string{"c", "d"}, false},
	} {
		got := (&pendingConsent{CodeParameter: "code"}).answer(url.Values{"code": c.codes})
		if (got == nil) != c.fits || got != nil && (got.Reason != ConsentForged || got.Text == "") {
			t.Errorf("%s: the error is %+v", name, got)
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
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, 30 * time.Second: 30, 30*time.Second + 1: 31} {
		all := spans{}.end(event.Exchange, event.End{Err: &TokenError{RetryAfter: d}}).Attributes()
		i := slices.IndexFunc(all, func(a slog.Attr) bool { return a.Key == "keywright.retry_after_seconds" })
		if (i >= 0) != (want > 0) || i >= 0 && all[i].Value.Int64() != want {
			t.Errorf("the attributes after %v are %v, want %d seconds", d, all, want)
		}
	}
}
