package host_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// specification.md "user in the path of a URL", threats.md 311: what users are called decides neither about the path of a token request nor
// about its parameters. A value in front of the host is the operator's, and stays as it is.
func TestValuesInTokenURLs(t *testing.T) {
	const refused = "token_url has a value in its path"
	template := tokenURL + "/own%2Fpart;v=1/{{ tenant_id }}/x?y={{ user.email }}"
	for _, c := range []struct{ url, tenant, email, want string }{
		{template, "acme", "a@b.c", tokenURL + "/own%2Fpart;v=1/acme/x?y=a%40b.c"},
		{template, "a b", "x&scope=admin#f", tokenURL + "/own%2Fpart;v=1/a%20b/x?y=x%26scope%3Dadmin%23f"},
		{template, "acme", "%26?/..", tokenURL + "/own%2Fpart;v=1/acme/x?y=%2526%3F%2F.."},
		{template, "../../other", "", refused},
		{tokenURL + "/{{ default(user.username, '') }}/x", "acme", "", refused},
		{tokenURL + "/x/{{ default(user.username, '') }}", "acme", "", refused},
		{tokenURL + "//{{ tenant_id }}/", "acme", "", tokenURL + "//acme/"},
		{tokenURL + "/a{{ default(user.username, '') }}", "acme", "", tokenURL + "/a"},
		{template, "..", "", refused},
		{template, "%2e%2e", "", refused},
		{template, ".", "", refused},
		{template, "a?scope=admin", "", refused},
		{template, "a/b", "", refused},
		{template, "a%2fb", "", refused},
		{template, "a%252fb", "", refused},
		{template, "a;b", "", refused},
		{template, "a#b", "", refused},
		{template, `a\b`, "", refused},
		{tokenURL + "/.{{ tenant_id }}", ".", "", refused},
		{tokenURL + "?{{ tenant_id }}", "a/../b&c", "", tokenURL + "?a%2F..%2Fb%26c"},
		{"{{ get_variable('realm') }}/token", "", "", "https://login.test/realms/a;b/token"},
	} {
		t.Run(c.url+" "+c.tenant+" "+c.email, func(t *testing.T) {
			w := newWorld(t, func(h *host.Config) { h.Variables = map[string]string{"realm": "https://login.test/realms/a;b"} })
			w.canary("s")
			connector := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", c.url))
			_, err := w.try(connector, get(host.WithUser(context.Background(), host.User{ID: "1", Email: cmp.Or(c.email, "x"), TenantID: c.tenant})))
			if c.want == refused {
				if err == nil || !strings.Contains(err.Error(), refused) || w.login.Count()+w.api.Count() > 0 {
					t.Errorf("the error is %v, after %d token requests", err, w.login.Count())
				}
				return
			}
			if err != nil || w.login.Last().URL != c.want {
				t.Errorf("sent to %s (%v), want %s", w.login.Last().URL, err, c.want)
			}
		})
	}
}
