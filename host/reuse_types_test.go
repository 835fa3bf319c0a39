package host_test

import (
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// A request repeats the mutation of one whose token was cached, without a call of the plugin.
func TestCachedTokensNeedNoCall(t *testing.T) {
	configs := testworld.AuthTypes(tokenURL)
	w := newWorld(t, listed("login.test"), func(c *host.Config) { c.BuiltIns = allBuiltIns(t) })
	w.keys()
	w.canary("s")
	w.login.Answer(w.Issued(w.Now))
	for _, authType := range []string{"oauth_client_credentials", "oauth_jwt_bearer", "oauth_password", "google_service_account", "github_app", "login"} {
		c := w.connect(authType, configs[authType])
		for i, want := range []bool{false, false, true} {
			w.get(c)
			if got := w.calls[len(w.calls)-1].Reused; got != want {
				t.Errorf("%s, request %d: reused = %t, want %t", authType, i, got, want)
			}
		}
	}
}
