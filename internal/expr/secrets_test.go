package expr

import (
	"errors"
	"slices"
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

// The ids that are no part of a name: threats.md 117.
var hostileIDs = []string{
	"", ".", "..", "../acme", "a/b", "/", "acme/", `a\b`, `..\acme`, "a.b", "ann@example.com", "Acme", "ACME", "acme ", " acme", "a b",
	"acme\n", "acme\x00", "\x7f", "%2e%2e", "a%2fb", "*", "a*", "-acme", "_acme", "ａcme", "açme", "acme\u200b", "\xff", "auth0|1", "a:b", "~",
	strings.Repeat("a", 129),
}

func TestTheNameOfATenantsSecret(t *testing.T) {
	for _, id := range append([]string{"acme", "0", "a_b-c", "8f14e45f-ceea-467f-a0e6-000000000001", strings.Repeat("a", 128)}, hostileIDs...) {
		for _, tt := range []struct{ name, tenantID, userID, want, missing string }{
			{"tenants/*/crm", id, "other", "tenants/" + id + "/crm", "the request has no tenant"},
			{"users/*/crm", "other", id, "users/" + id + "/crm", "the request has no user with an id"},
		} {
			got, err := StoredSecret(tt.name, tt.tenantID, tt.userID)
			switch {
			case !slices.Contains(hostileIDs, id):
				if got != tt.want || err != nil || !ValidSecret(got) {
					t.Errorf("%s of %q is %q, %v; want %q, which a store may have", tt.name, id, got, err, tt.want)
				}
			case got != "" || err == nil || ValidSecret(tt.want):
				t.Errorf("%s of %q is %q, %v; may a store have it? %t", tt.name, id, got, err, ValidSecret(tt.want))
			case id == "" && err.Error() != tt.missing:
				t.Errorf("without an id, the error is %q, want %q", err, tt.missing)
			case id != "" && !strings.Contains(err.Error(), "cannot be part of a secret's name: it must be 1 to 128 lower-case letters"):
				t.Errorf("the error for %q is %q", id, err)
			case len(id) > 3 && strings.Contains(err.Error(), id):
				t.Errorf("the error for %q quotes the id: %q", id, err)
			}
		}
	}
	if got, err := StoredSecret("crm", "", ""); got != "crm" || err != nil {
		t.Errorf("the secret of nobody in particular is %q, %v", got, err)
	}
}

// What a store is never asked for: threats.md 117.
func TestUnknownNames(t *testing.T) {
	for _, name := range []string{
		"", "tenants/*/crm", "users/*/crm", "tenants/acme", "tenants/acme/", "tenants//crm", "tenants/acme/../beta/crm", "tenants/acme/.crm",
		"tenants/acme/crm/x", "/tenants/acme/crm", "Tenants/acme/crm", "tenant/acme/crm", "groups/acme/crm", "acme/crm", `tenants\acme\crm`,
		"tenants/users/a/crm",
	} {
		if ValidSecret(name) {
			t.Errorf("a store may have %q", name)
		}
	}
	for _, name := range []string{"crm", "tenants", "users", "crm.pem", "tenants/acme/crm.pem", "users/users/users", "users/7/CRM"} {
		if !ValidSecret(name) {
			t.Errorf("no store may have %q", name)
		}
	}
}

func TestSecretOwner(t *testing.T) {
	for _, tt := range []struct {
		source  string
		secrets []string
		tenant  bool
		user    []string
		called  string
	}{
		{"get_secret('crm')", []string{"crm"}, false, nil, "get_secret('crm')"},
		{`get_secret("crm", "tenant")`, []string{"tenants/*/crm"}, true, nil, "get_secret('crm', 'tenant')"},
		{"'crm' | get_secret('user')", []string{"users/*/crm"}, false, []string{"id"}, "get_secret('crm', 'user')"},
	} {
		e := mustCompile(t, tt.source, ofTemplates)
		if !slices.Equal(e.Secrets, tt.secrets) || e.Tenant != tt.tenant || !slices.Equal(e.User, tt.user) || !e.Secret {
			t.Errorf("%s names the secrets %q, the tenant %t and the user's %q", tt.source, e.Secrets, e.Tenant, e.User)
		}
		if got := SecretCall(e.Secrets[0]); got != tt.called || e.Owned != (tt.tenant || tt.user != nil) {
			t.Errorf("%s is shown as %s", tt.source, got)
		}
	}
}
