//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// accounts returns an account of each product of the catalogue, by its name there. The products check what their documentation
// says, which is linked in the catalogue.
func accounts(t *testing.T) map[string]account {
	t.Helper()
	all := map[string]account{}
	for _, some := range []map[string]account{bearerAccounts(), headerAccounts(), passwordAccounts(), tokenAccounts(), signedAccounts(t), keyedAccounts(t), paymentAccounts(t), consentAccounts()} {
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
			api: request("GET https://acme.freshdesk.com/api/v2/agents/me", signedIn("5TMgbcZdRFY70hSpEdj", "")),
		},
		"jira": withPassword("jira", email, "ATATT3xFfGF0", "GET https://acme.atlassian.net/rest/api/3/myself").of(site...),
		"mailchimp": {
			secrets: one("mailchimp", "0123456789abcdef0123456789abcdef-us19"), set: one("your-dc", "us19"), optional: "username", // any user name will do
			api: request("GET https://us19.api.mailchimp.com/3.0/ping", signedIn("", "0123456789abcdef0123456789abcdef-us19")),
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

// apiToken is the token that token endpoints of the catalogue issue.
const apiToken = "4f2a9c8e7b6d5a3f1e0c"

// answer is the answer of most token endpoints.
const answer = `{"access_token":"` + apiToken + `","token_type":"Bearer","expires_in":3600}`

// withTokens returns the account of a product with a token endpoint, which checks its requests.
func withTokens(secrets map[string]string, tokenURL, document, target string, checks ...check) account {
	return account{secrets: secrets, api: tokens(tokenURL, document, request(target, bearing(apiToken)), checks...)}
}

// tokenAccounts returns the accounts of products whose token endpoint takes a secret.
func tokenAccounts() map[string]account {
	const entra = "https://login.microsoftonline.com/contoso.onmicrosoft.com/oauth2/v2.0/token"
	const id, secret = "client-17", "EC8-HxLk-wDnvGDJjDnuPWzKXkNzJ9fMvXZ"
	entraIDs := []string{"your-tenant-id", "contoso.onmicrosoft.com", "your-client-id", id}
	inForm := func(further ...string) check {
		return posts(append([]string{"grant_type", "client_credentials", "client_id", id, "client_secret", secret}, further...)...)
	}
	granted := func(further ...string) check {
		return posts(append([]string{"grant_type", "client_credentials"}, further...)...)
	}
	return map[string]account{
		"auth0": withTokens(one("auth0", secret), "https://acme.eu.auth0.com/oauth/token", answer, "GET https://acme.eu.auth0.com/api/v2/clients",
			inForm("audience", "https://acme.eu.auth0.com/api/v2/")).of("your-tenant.eu.auth0.com", "acme.eu.auth0.com", "your-client-id", id),
		"azure-management": {
			secrets: one("azure-management", secret), set: pairs(entraIDs),
			api: tokens(entra, answer, request("GET https://management.azure.com/subscriptions", asks("api-version", "2022-12-01"), bearing(apiToken)),
				inForm("scope", "https://management.azure.com/.default")),
		},
		"box": withTokens(one("box", secret), "https://api.box.com/oauth2/token", strings.Replace(answer, "Bearer", "bearer", 1), "GET https://api.box.com/2.0/users/me",
			inForm("box_subject_type", "enterprise", "box_subject_id", "1234567")).of("your-client-id", id, "your-enterprise-id", "1234567"),
		"dropbox": withTokens(map[string]string{"dropbox-app-secret": secret, "dropbox-refresh-token": "0pAl4iB3"}, "https://api.dropboxapi.com/oauth2/token",
			strings.Replace(answer, "3600", "14400", 1), "POST https://api.dropboxapi.com/2/users/get_current_account",
			posts("grant_type", "refresh_token", "refresh_token", "0pAl4iB3", "client_id", id, "client_secret", secret)).of("your-app-key", id),
		"ebay": withTokens(one("ebay", secret), "https://api.ebay.com/identity/v1/oauth2/token", strings.Replace(answer, "Bearer", "Application Access Token", 1),
			"GET https://api.ebay.com/buy/browse/v1/item_summary/search", signedIn(id, secret), granted("scope", "https://api.ebay.com/oauth/api_scope")).of("your-app-id", id),
		"ibm-cloud": withTokens(one("ibm-cloud", secret), "https://iam.cloud.ibm.com/identity/token",
			answer, "GET https://resource-controller.cloud.ibm.com/v2/resource_instances",
			posts("grant_type", "urn:ibm:params:oauth:grant-type:apikey", "apikey", secret)).without("expires_in_from"),
		"microsoft-graph": withTokens(one("microsoft-graph", secret), entra, answer, "GET https://graph.microsoft.com/v1.0/organization",
			inForm("scope", "https://graph.microsoft.com/.default")).of(entraIDs...),
		"paypal": withTokens(one("paypal", secret), "https://api-m.paypal.com/v1/oauth2/token", answer,
			"GET https://api-m.paypal.com/v1/notifications/webhooks-event-types", signedIn(id, secret), granted()).of("your-client-id", id),
		"quickbooks":  quickBooks(id, secret),
		"rocket-chat": rocketChat("rocket-chat", "correct horse battery", "chat.acme.example").of("chat.your-company.example", "chat.acme.example", "your-user", "bot"),
		"salesforce-client-credentials": withTokens(one("salesforce-client-credentials", secret), "https://acme.my.salesforce.com/services/oauth2/token",
			`{"access_token":"`+apiToken+`","instance_url":"https://acme.my.salesforce.com","token_type":"Bearer","issued_at":"1700000000000"}`,
			"GET https://acme.my.salesforce.com/services/data/v64.0/limits", inForm()).of("your-domain", "acme", "your-consumer-key", id).without("token_ttl"),
		"shopify-client-credentials": {
			secrets: one("shopify-client-credentials", secret), set: map[string]string{"your-shop": "acme", "your-client-id": id}, optional: "expires_in_from",
			api: tokens("https://acme.myshopify.com/admin/oauth/access_token", `{"access_token":"`+apiToken+`","scope":"read_products","expires_in":86399}`,
				request("GET https://acme.myshopify.com/admin/api/2026-07/shop.json", sends("X-Shopify-Access-Token", apiToken)), inForm()),
		},
		"spotify": withTokens(one("spotify", secret), "https://accounts.spotify.com/api/token", answer,
			"GET https://api.spotify.com/v1/artists/0TnOYISbd1XYRBk9myaseg", signedIn(id, secret), granted()).of("your-client-id", id),
		"twitch": {
			secrets: one("twitch", secret), set: one("your-client-id", id),
			api: tokens("https://id.twitch.tv/oauth2/token", strings.Replace(answer, "Bearer", "bearer", 1),
				request("GET https://api.twitch.tv/helix/games/top", sends("Client-Id", id), bearing(apiToken)), inForm()),
		},
		"xero": withTokens(one("xero", secret), "https://identity.xero.com/connect/token", answer, "GET https://api.xero.com/api.xro/2.0/Organisation",
			signedIn(id, secret), granted("scope", "accounting.settings.read")).of("your-client-id", id),
		"zoom": withTokens(one("zoom", secret), "https://zoom.us/oauth/token", strings.Replace(answer, "Bearer", "bearer", 1), "GET https://api.zoom.us/v2/users",
			signedIn(id, secret), posts("grant_type", "account_credentials", "account_id", "lmno-pQRst")).of("your-account-id", "lmno-pQRst", "your-client-id", id).without("expires_in_from"),
	}
}

// without returns the account with members of auth.config that the product does not need.
func (a account) without(optional string) account {
	a.optional = optional
	return a
}

func pairs(list []string) map[string]string { return account{}.of(list...).set }

// quickBooks returns an account at Intuit whose user consents: its authorization server issues a code, and a refresh token for it.
func quickBooks(id, secret string) account {
	a := withTokens(one("quickbooks", secret), "https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer",
		strings.Replace(answer, `{`, `{"refresh_token":"AB11","x_refresh_token_expires_in":8726400,`, 1),
		"GET https://quickbooks.api.intuit.com/v3/company/9130347957983000/preferences", signedIn(id, secret), func(r *http.Request) error {
			if r.PostFormValue("grant_type") == "refresh_token" {
				return posts("grant_type", "refresh_token", "refresh_token", "AB11")(r)
			}
			if r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("code") != consentCode || r.PostFormValue("redirect_uri") != consentURI {
				return fmt.Errorf("form: %v", r.PostForm)
			}
			return nil
		}).of("your-client-id", id, "your-company-id", "9130347957983000").without("revocation_url")
	a.consent = request("GET https://appcenter.intuit.com/connect/oauth2", func(r *http.Request) error {
		q := r.URL.Query()
		if q.Get("client_id") != id || q.Get("response_type") != "code" || q.Get("scope") != "com.intuit.quickbooks.accounting" || q.Get("redirect_uri") != consentURI || q.Get("state") == "" {
			return fmt.Errorf("query: %v", q)
		}
		return nil
	})
	return a
}

// rocketChat returns an account at a workspace, where a login answers with a token and the ID of the user.
func rocketChat(secret, password, workspace string) account {
	api := request("GET https://"+workspace+"/api/v1/me", sends("X-Auth-Token", chatToken), sends("X-User-Id", "aobEdbYhXfu5hkeqG"))
	return account{
		secrets: one(secret, password),
		api: tokens("https://"+workspace+"/api/v1/login", `{"status":"success","data":{"userId":"aobEdbYhXfu5hkeqG","authToken":"`+chatToken+`"}}`, api,
			sends("Content-Type", "application/json"), func(r *http.Request) error {
				var login struct{ User, Password string }
				if err := json.NewDecoder(r.Body).Decode(&login); err != nil || login.User != "bot" || login.Password != password {
					return fmt.Errorf("%v %w", login, err)
				}
				return nil
			}),
	}
}
