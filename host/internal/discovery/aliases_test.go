package discovery_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/internal/testworld"
)

// A client with a certificate is sent to the endpoints of mtls_endpoint_aliases, where there are any (RFC 8705 section 5).
// Others, and browsers, are not.
func TestEndpointsForClientsWithACertificate(t *testing.T) {
	const start = `{"issuer":"https://login.test","token_endpoint":"https://login.test/token","authorization_endpoint":"https://login.test/authorize",` +
		`"revocation_endpoint":"https://login.test/revoke","mtls_endpoint_aliases":`
	const both = start + `{"token_endpoint":"https://mtls.login.test/token","authorization_endpoint":"https://mtls.login.test/authorize","other":1}}`
	for name, c := range map[string]struct {
		text   string
		mutual bool
		// want has the endpoint of each member, or the beginning of its error.
		want map[string]string
	}{
		"without a certificate": {both, false, map[string]string{"token_endpoint": "https://login.test/token", "revocation_endpoint": "https://login.test/revoke"}},
		"with one": {both, true, map[string]string{
			"token_endpoint": "https://mtls.login.test/token", "revocation_endpoint": "https://login.test/revoke", "authorization_endpoint": "https://login.test/authorize",
		}},
		"only there":            {strings.Replace(both, `"token_endpoint"`, `"a_endpoint"`, 1), true, map[string]string{"token_endpoint": "https://mtls.login.test/token"}},
		"null":                  {start + `null}`, true, map[string]string{"token_endpoint": "https://login.test/token"}},
		"a text":                {start + `"https://mtls.login.test"}`, true, map[string]string{"token_endpoint": "has mtls_endpoint_aliases that are no object"}},
		"a text, for nobody":    {start + `"https://mtls.login.test"}`, false, map[string]string{"token_endpoint": "https://login.test/token"}},
		"plain http":            {start + `{"token_endpoint":"http://mtls.login.test/token"}}`, true, map[string]string{"token_endpoint": "token_endpoint in mtls_endpoint_aliases is plain http"}},
		"a number for an alias": {start + `{"token_endpoint":1}}`, true, map[string]string{"token_endpoint": "token_endpoint in mtls_endpoint_aliases is not a text"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testworld.Respond(200, c.text))
			w.asker.Mutual = c.mutual
			for member, want := range c.want {
				endpoint, err := w.cache.Find(t.Context(), discovery.Key{Issuer: issuer}, member, w.asker)
				if endpoint != want && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s is %q, %v; want %s", member, endpoint, err, want)
				}
			}
		})
	}
}
