package connectors_test

import (
	"maps"
	"testing"

	"github.com/keywright/keywright/host"
)

// accounts returns an account of each product of the catalogue, by its name there.
func accounts(t *testing.T) map[string]account {
	t.Helper()
	all := map[string]account{}
	for _, some := range []map[string]account{keyAccounts(), signedAccounts(t)} {
		maps.Copy(all, some)
	}
	return all
}

// keyAccounts returns the accounts of products that take a fixed key or password.
func keyAccounts() map[string]account {
	return map[string]account{
		"stripe": {
			secrets: host.MapSecrets{"stripe": "sk_test_BQokikJOvBiI2HlWgH4olfQ2"},
			api:     request("GET https://api.stripe.com/v1/balance", bearing("sk_test_BQokikJOvBiI2HlWgH4olfQ2")),
		},
		"zendesk": {
			secrets: host.MapSecrets{"zendesk": "6wiIBWbGkBMo1mRDMuVwkw1EPsNkeUj95PIz2akv"},
			set:     map[string]string{"your-subdomain": "acme", "agent@your-company.example": "jdoe@acme.example"},
			api:     request("GET https://acme.zendesk.com/api/v2/users/me.json", signedIn("jdoe@acme.example/token", "6wiIBWbGkBMo1mRDMuVwkw1EPsNkeUj95PIz2akv")),
		},
		"github": {
			secrets: host.MapSecrets{"github": "github_pat_11AAAAAAA0123456789"},
			api: request("GET https://api.github.com/user", bearing("github_pat_11AAAAAAA0123456789"),
				sends("Accept", "application/vnd.github+json"), sends("X-GitHub-Api-Version", "2022-11-28")),
		},
	}
}
