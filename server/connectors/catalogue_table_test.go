//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"maps"
	"testing"
)

// accounts returns an account of each product of the catalogue, by its name there. The products check what their documentation
// says, which is linked in the catalogue.
func accounts(t *testing.T) map[string]account {
	t.Helper()
	all := map[string]account{}
	for _, some := range []map[string]account{bearerAccounts(), headerAccounts(), passwordAccounts(), tokenAccounts(), signedAccounts(t)} {
		maps.Copy(all, some)
	}
	return all
}

// one returns the secrets of an account with one secret.
func one(name, value string) map[string]string { return map[string]string{name: value} }

// withToken returns the account of a product that takes a token of its pages as a bearer token.
func withToken(name, token, target string, further ...check) account {
	return account{secrets: one(name, token), api: request(target, append(further, bearing(token))...)}
}

// withHeader returns the account of a product that takes a key in a header, with a text before it.
func withHeader(name, secret, target, header, before string, further ...check) account {
	return account{secrets: one(name, secret), api: request(target, append(further, sends(header, before+secret))...)}
}

// of returns the account with what replaces texts of the connector, in pairs.
func (a account) of(pairs ...string) account {
	a.set = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		a.set[pairs[i]] = pairs[i+1]
	}
	return a
}

// bearerAccounts returns the accounts of products that take a bearer token.
func bearerAccounts() map[string]account {
	return map[string]account{
		"airtable":     withToken("airtable", "patZKDFJ3.0123456789abcdef", "GET https://api.airtable.com/v0/meta/whoami"),
		"asana":        withToken("asana", "1/1199000000000000:0c2e17f3a8b94d56", "GET https://app.asana.com/api/1.0/users/me"),
		"cloudflare":   withToken("cloudflare", "Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY", "GET https://api.cloudflare.com/client/v4/user/tokens/verify"),
		"contentful":   withToken("contentful", "b4c0n73n7fu1", "GET https://cdn.contentful.com/spaces/cfexampleapi/environments/master/content_types").of("your-space-id", "cfexampleapi"),
		"digitalocean": withToken("digitalocean", "dop_v1_b7508724fa1ae3d9", "GET https://api.digitalocean.com/v2/account"),
		"github":       withToken("github", "github_pat_11AAAAAAA0123456789", "GET https://api.github.com/user"),
		"grafana":      withToken("grafana", "glsa_HOruNAb7SOiCdshU7algkrq7FDsNSLAa_55e2f8be", "GET https://acme.grafana.net/api/org").of("your-stack", "acme"),
		"hubspot":      withToken("hubspot", "pat-na1-11111111-2222-3333-4444-555555555555", "GET https://api.hubapi.com/account-info/v3/details"),
		"intercom":     withToken("intercom", "dG9rOmExNjk5YjQ5XzI0", "GET https://api.intercom.io/me"),
		"notion":       withToken("notion", "ntn_1234567890abcdefg", "GET https://api.notion.com/v1/users/me"),
		"openai":       withToken("openai", "sk-proj-abcdef0123456789", "GET https://api.openai.com/v1/models"),
		"sendgrid":     withToken("sendgrid", "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf", "GET https://api.sendgrid.com/v3/scopes"),
		"sentry":       withToken("sentry", "sntrys_eyJpYXQiOjE2OTAwMDAwMDB9", "GET https://sentry.io/api/0/organizations/"),
		"slack":        withToken("slack", slackToken, "POST https://slack.com/api/auth.test"),
		"square":       withToken("square", "EAAAEOuLQObrVwJvCvoio3H13b8Ssqz1ighmTBKZvIENW9qxirHGHkqsGcPBC1uN", "GET https://connect.squareup.com/v2/locations"),
		"stripe":       withToken("stripe", "sk_test_BQokikJOvBiI2HlWgH4olfQ2", "GET https://api.stripe.com/v1/balance"),
		"x":            withToken("x", "AAAAAAAAAAAAAAAAAAAAAMLheAAAAAAA0%2BuSeid", "GET https://api.x.com/2/users/by/username/xdevelopers"),
	}
}

// headerAccounts returns the accounts of products that take a key in a header in a way of their own, in the query or in the path.
func headerAccounts() map[string]account {
	const linearQuery, mondayQuery = `{"query":"{ viewer { id } }"}`, `{"query":"{ me { id } }"}`
	return map[string]account{
		"adyen": withHeader("adyen", "AQEyhmfxK0123456789", "GET https://management-live.adyen.com/v3/me", "X-API-Key", ""),
		"algolia": withHeader("algolia", "6be0576ff61c053d5f9a3225e2a90f76", "GET https://latency.algolia.net/1/indexes", "X-Algolia-API-Key", "",
			sends("X-Algolia-Application-Id", "LATENCY")).of("YOUR-APP-ID", "LATENCY"),
		"anthropic": withHeader("anthropic", "sk-ant-api03-0123456789", "GET https://api.anthropic.com/v1/models", "X-Api-Key", ""),
		"clickup":   withHeader("clickup", "pk_4753994_EXP7MPOJ7XQM5UJDV2M45MPF0YHH5YHO", "GET https://api.clickup.com/api/v2/user", "Authorization", ""),
		"datadog": {
			secrets: map[string]string{"datadog-api-key": "9775a026f1ca7d1c6c5af9d94d9595a4", "datadog-application-key": "87ce4a24b5553d2e482ea8a8500e71b8ad4554ff"},
			api: request("GET https://api.datadoghq.com/api/v2/users", sends("DD-API-KEY", "9775a026f1ca7d1c6c5af9d94d9595a4"),
				sends("DD-APPLICATION-KEY", "87ce4a24b5553d2e482ea8a8500e71b8ad4554ff")),
		},
		"deepl": withHeader("deepl", "279a2e9d-83b3-c416-7e2d-f721593e42a0:fx", "GET https://api-free.deepl.com/v2/usage", "Authorization", "DeepL-Auth-Key "),
		"discord": withHeader("discord", "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", "GET https://discord.com/api/v10/users/@me", "Authorization", "Bot ",
			sends("User-Agent", "DiscordBot (https://bot.acme.example, 1)")).of("https://your-company.example", "https://bot.acme.example"),
		"elasticsearch": withHeader("elasticsearch", "VuaCfGcBCdbkQm-e5aOx:ui2lp2axTNmsyakw9tvNnw", "GET https://acme.es.example/_security/_authenticate", "Authorization", "ApiKey ").
			of("your-deployment.es.example.com", "acme.es.example"),
		"figma":       withHeader("figma", "figd_0123456789", "GET https://api.figma.com/v1/me", "X-Figma-Token", ""),
		"gemini":      withHeader("gemini", "AIzaSyDaGmWKa4JsXZ", "GET https://generativelanguage.googleapis.com/v1beta/models", "X-Goog-Api-Key", ""),
		"gitlab":      withHeader("gitlab", "glpat-0123456789", "GET https://gitlab.com/api/v4/user", "Private-Token", ""),
		"google-maps": {secrets: one("google-maps", "AIzaSyDaGmWKa4JsXZ"), api: request("GET https://maps.googleapis.com/maps/api/geocode/json", asks("address", "Berlin", "key", "AIzaSyDaGmWKa4JsXZ"))},
		"klaviyo":     withHeader("klaviyo", "pk_0123456789", "GET https://a.klaviyo.com/api/accounts", "Authorization", "Klaviyo-API-Key "),
		"linear":      withHeader("linear", "lin_api_0123456789", "POST https://api.linear.app/graphql", "Authorization", "", contains(linearQuery)),
		"monday":      withHeader("monday", "eyJhbGciOiJIUzI1NiJ9.e30.abc", "POST https://api.monday.com/v2", "Authorization", "", contains(mondayQuery)),
		"okta":        withHeader("okta", "00QCjAl4MlV-WPXM", "GET https://acme.okta.com/api/v1/users/me", "Authorization", "SSWS ").of("your-org", "acme"),
		"openweather": {secrets: one("openweather", "b1b15e88fa797225412429c1c50c122a"), api: request("GET https://api.openweathermap.org/data/2.5/weather", asks("q", "London", "appid", "b1b15e88fa797225412429c1c50c122a"))},
		"opsgenie":    withHeader("opsgenie", "eb243592-faa2-4ba2-a551q-1afdf565c889", "GET https://api.opsgenie.com/v2/account", "Authorization", "GenieKey "),
		"pagerduty":   withHeader("pagerduty", "y_NbAkKc66ryYTWUXYEu", "GET https://api.pagerduty.com/abilities", "Authorization", "Token token="),
		"pipedrive":   withHeader("pipedrive", "659c9fddb16335e48cc67114694b52074e812e03", "GET https://acme.pipedrive.com/api/v1/users/me", "X-Api-Token", "").of("your-company", "acme"),
		"postmark":    withHeader("postmark", "ed742d75-5a45-49b6-a0a1-5b9ec3dc9e5d", "GET https://api.postmarkapp.com/server", "X-Postmark-Server-Token", ""),
		"shopify":     withHeader("shopify", "shpat_0123456789", "GET https://acme.myshopify.com/admin/api/2026-07/shop.json", "X-Shopify-Access-Token", "").of("your-shop", "acme"),
		"telegram":    {secrets: one("telegram", "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"), api: request("GET https://api.telegram.org/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/getMe")},
		"trello": {
			secrets: map[string]string{"trello-key": "0471642aefef5fa1fa76530ce1ba4c85", "trello-token": "ATTA9eb76d9a9d02b8dd40c2f3e5df18556c"},
			api: request("GET https://api.trello.com/1/members/me",
				sends("Authorization", `OAuth oauth_consumer_key="0471642aefef5fa1fa76530ce1ba4c85", oauth_token="ATTA9eb76d9a9d02b8dd40c2f3e5df18556c"`)),
		},
	}
}

// withPassword returns the account of a product that takes a user name and a secret password.
func withPassword(name, username, password, target string) account {
	return account{secrets: one(name, password), api: request(target, signedIn(username, password))}
}

// passwordAccounts returns the accounts of products that take a user name and a password.
func passwordAccounts() map[string]account {
	const email = "jdoe@acme.example"
	site := []string{"your-site", "acme", "you@your-company.example", email}
	return map[string]account{
		"bitbucket":  withPassword("bitbucket", email, "ATATT3xFfGF0", "GET https://api.bitbucket.org/2.0/user").of(site[2:]...),
		"confluence": withPassword("confluence", email, "ATATT3xFfGF0", "GET https://acme.atlassian.net/wiki/api/v2/spaces").of(site...),
		"freshdesk": {
			secrets: one("freshdesk", "5TMgbcZdRFY70hSpEdj"), set: one("your-domain", "acme"), optional: "password", // any password will do
			api: request("GET https://acme.freshdesk.com/api/v2/agents/me", userOnly("5TMgbcZdRFY70hSpEdj")),
		},
		"jira": withPassword("jira", email, "ATATT3xFfGF0", "GET https://acme.atlassian.net/rest/api/3/myself").of(site...),
		"mailchimp": {
			secrets: one("mailchimp", "0123456789abcdef0123456789abcdef-us19"), set: one("your-dc", "us19"), optional: "username", // any user name will do
			api: request("GET https://us19.api.mailchimp.com/3.0/ping", passwordOnly("0123456789abcdef0123456789abcdef-us19")),
		},
		"mailgun":    withPassword("mailgun", "api", "key-0123456789", "GET https://api.mailgun.net/v3/domains"),
		"servicenow": withPassword("servicenow", "integration", "correct horse battery", "GET https://dev12345.service-now.com/api/now/table/incident").of("your-instance", "dev12345", "your-user", "integration"),
		"twilio":     withPassword("twilio", "SK0123456789", "CPbL4Jr3", "GET https://api.twilio.com/2010-04-01/Accounts.json").of("SK-YOUR-KEY", "SK0123456789"),
		"woocommerce": {
			secrets: map[string]string{"woocommerce-key": "ck_0123", "woocommerce-secret": "cs_4567"}, set: one("your-shop.example.com", "shop.acme.example"),
			api: request("GET https://shop.acme.example/wp-json/wc/v3/products", signedIn("ck_0123", "cs_4567")),
		},
		"zendesk": withPassword("zendesk", email+"/token", "6wiIBWbGkBMo1mRDMuVwkw1EPsNkeUj95PIz2akv", "GET https://acme.zendesk.com/api/v2/users/me.json").
			of("your-subdomain", "acme", "agent@your-company.example", email),
	}
}
