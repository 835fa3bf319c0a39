package host_test

import (
	"net/http"
	"testing"

	"github.com/keywright/keywright/abi"
)

// Attacks on what a plugin, an API and a caller can do with challenges, and with credentials in the path and in cookies.

// A plugin that passes an answer on, and reads nothing, does so for that answer only: its outcome is not that of the next
// request.
func TestAPassIsNotUsedAgain(t *testing.T) {
	about := challenged
	about.Challenge = &abi.Challenge{Statuses: []int{403}}
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: about, authenticate: func(env abi.Env) (string, error) {
		if env.CacheDrop("x") {
			return `{"pass":true}`, nil
		}
		if _, ok := env.CacheGet("x"); !ok {
			env.CacheSet("x", "y", 300)
		}
		return "{}", nil
	}}))
	connector := w.connect("custom", config{})
	w.api.Answer(status(http.StatusForbidden))
	for range 4 {
		if status, err := w.try(connector, get(t.Context())); status != http.StatusForbidden || err != nil {
			t.Errorf("%d, %v", status, err)
		}
	}
}
