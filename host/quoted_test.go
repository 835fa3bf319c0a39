package host_test

import (
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// A plugin puts a sealed value into a parameter of a header as a quoted-string (RFC 9110 section 5.6.4), whatever is in it.
func TestQuotedStrings(t *testing.T) {
	for secret, want := range map[string]string{
		"a plain secret":           `Key key="a plain secret"`,
		`quo"tes and \ in it, é\"`: `Key key="quo\"tes and \\ in it, é\\\""`,
	} {
		w := newWorld(t, withoutBuiltIns, withGuest(misusing(func(env contract.Env) (string, error) {
			if got := env.Encode(contract.FormatQuoted, `plain "text"`); got != `"plain \"text\""` {
				t.Errorf("plain text is %s", got)
			}
			return header("X-Key", "Key key="+env.Encode(contract.FormatQuoted, value(env, "to_header"))), nil
		})))
		for _, name := range []string{"k", "text"} {
			w.canary(name)
		}
		w.setSecret("s", secret)
		if got := w.get(w.connect("custom", misused)).Header.Get("X-Key"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	refuseAll(t, []misuse{{"quoted, it keeps its sinks", func(env contract.Env) (string, error) {
		return header("X-Key", env.Encode(contract.FormatQuoted, value(env, "to_token"))), nil
	}, host.StagePlugin, "do not reach"}})
}
