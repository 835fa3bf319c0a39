//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import "fmt"

// consentsC returns some of the products whose users consent.
func consentsC() map[string]consents {
	const bot = "DiscordBot (https://app.acme.example, 1)"
	return map[string]consents{
		"clickup-user": {
			authorize: "https://app.clickup.com/api", token: "https://api.clickup.com/api/v2/oauth/token", auth: "client_secret_post",
			answer: `{"access_token":"` + apiToken + `"}`, target: "GET https://api.clickup.com/api/v2/user",
		},
		"discord-user": {
			authorize: "https://discord.com/oauth2/authorize", query: []string{"scope", "identify"},
			token: "https://discord.com/api/oauth2/token", auth: "client_secret_post",
			answer: fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":604800,"refresh_token":%q,"scope":"identify"}`, apiToken, refreshToken),
			target: "GET https://discord.com/api/v10/users/@me", checks: []check{sends("User-Agent", bot)},
			set: []string{"https://your-company.example", "https://app.acme.example"},
		},
		"intercom-user": {
			authorize: "https://app.intercom.com/oauth", token: "https://api.intercom.io/auth/eagle/token", auth: "client_secret_post",
			answer: fmt.Sprintf(`{"token_type":"Bearer","token":%[1]q,"access_token":%[1]q}`, apiToken), target: "GET https://api.intercom.io/me",
		},
		"mailchimp-user": {
			authorize: "https://login.mailchimp.com/oauth2/authorize", token: "https://login.mailchimp.com/oauth2/token", auth: "client_secret_post",
			answer: `{"access_token":"` + apiToken + `","expires_in":0,"scope":null}`, target: "GET https://us19.api.mailchimp.com/3.0/ping",
			set: []string{"your-dc", "us19"},
		},
		"monday-user": {
			authorize: "https://auth.monday.com/oauth2/authorize", query: []string{"scope", "me:read"},
			token: "https://auth.monday.com/oauth_ms/oauth/token", auth: "client_secret_post", json: true,
			answer: fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","scope":"me:read"}`, apiToken, refreshToken),
			target: "POST https://api.monday.com/v2", header: "Authorization", checks: []check{contains(`{"query":"{ me { id } }"}`)},
			optional: "token_ttl",
		},
		"pipedrive-user": {
			authorize: "https://oauth.pipedrive.com/oauth/authorize", token: "https://oauth.pipedrive.com/oauth/token", auth: "client_secret_basic",
			answer: fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","refresh_token":%q,"scope":"base","expires_in":3599,"api_domain":"https://acme.pipedrive.com"}`,
				apiToken, refreshToken),
			target: "GET https://acme.pipedrive.com/api/v1/users/me",
		},
		"shopify-user": {
			authorize: "https://acme.myshopify.com/admin/oauth/authorize", query: []string{"scope", "read_products"},
			token: "https://acme.myshopify.com/admin/oauth/access_token", auth: "client_secret_post", form: []string{"expiring", "1"},
			answer: fmt.Sprintf(`{"access_token":%q,"scope":"read_products","expires_in":3600,"refresh_token":%q,"refresh_token_expires_in":7776000}`, apiToken, refreshToken),
			target: "GET https://acme.myshopify.com/admin/api/2026-07/shop.json", header: "X-Shopify-Access-Token", set: []string{"your-shop", "acme"},
		},
		"square-user": {
			authorize: "https://connect.squareup.com/oauth2/authorize", query: []string{"scope", "MERCHANT_PROFILE_READ"},
			token: "https://connect.squareup.com/oauth2/token", auth: "client_secret_post", json: true, pkce: "none",
			answer: fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_at":"2036-01-02T15:04:05Z","merchant_id":"ML2PMZQ","refresh_token":%q,"short_lived":false}`,
				apiToken, refreshToken),
			target: "GET https://connect.squareup.com/v2/locations", optional: "expires_at_from",
		},
		"webflow-user": {
			authorize: "https://webflow.com/oauth/authorize", query: []string{"scope", "sites:read"},
			token: "https://api.webflow.com/oauth/access_token", auth: "client_secret_post", json: true,
			answer: `{"token_type":"bearer","access_token":"` + apiToken + `","scope":"sites:read"}`, target: "GET https://api.webflow.com/v2/sites",
		},
		"x-user": {
			authorize: "https://x.com/i/oauth2/authorize", query: []string{"scope", "tweet.read users.read offline.access"},
			token: "https://api.x.com/2/oauth2/token", auth: "client_secret_basic",
			answer: fmt.Sprintf(`{"token_type":"bearer","expires_in":7200,"access_token":%q,"scope":"users.read tweet.read offline.access","refresh_token":%q}`,
				apiToken, refreshToken),
			target: "GET https://api.x.com/2/users/me",
		},
	}
}
