//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

// consentsB has the accounts of products for developers, teams and media.
func consentsB() map[string]consents {
	const post, basic = "client_secret_post", "client_secret_basic"
	return map[string]consents{
		"airtable-user": {
			authorize: "https://airtable.com/oauth2/v1/authorize", token: "https://airtable.com/oauth2/v1/token", auth: basic,
			query: []string{"scope", "data.records:read"}, target: "GET https://api.airtable.com/v0/meta/whoami",
			answer: `{"access_token":"` + apiToken + `","token_type":"Bearer","scope":"data.records:read","expires_in":3600,"refresh_token":"` + refreshToken + `","refresh_expires_in":5184000}`,
			pkce:   "S256",
		},
		"asana-user": {
			authorize: "https://app.asana.com/-/oauth_authorize", token: "https://app.asana.com/-/oauth_token", auth: post,
			query: []string{"scope", "users:read"}, target: "GET https://app.asana.com/api/1.0/users/me",
			answer: `{"access_token":"` + apiToken + `","expires_in":3600,"token_type":"bearer","data":{"id":4673218951,"name":"Greg Sanchez"},"refresh_token":"` + refreshToken + `"}`,
		},
		"figma-user": {
			authorize: "https://www.figma.com/oauth", token: "https://api.figma.com/v1/oauth/token", refresh: "https://api.figma.com/v1/oauth/refresh", auth: basic,
			query: []string{"scope", "current_user:read"}, target: "GET https://api.figma.com/v1/me",
			answer: `{"user_id_string":"1234","access_token":"` + apiToken + `","token_type":"bearer","expires_in":7776000,"refresh_token":"` + refreshToken + `"}`,
		},
		"github-user": {
			authorize: "https://github.com/login/oauth/authorize", token: "https://github.com/login/oauth/access_token", auth: post,
			query: []string{"scope", "read:user"}, target: "GET https://api.github.com/user",
			answer: `{"access_token":"` + apiToken + `","scope":"read:user","token_type":"bearer"}`,
		},
		"gitlab-user": {
			authorize: "https://gitlab.com/oauth/authorize", token: "https://gitlab.com/oauth/token", auth: post,
			query: []string{"scope", "read_user"}, target: "GET https://gitlab.com/api/v4/user",
			answer: `{"access_token":"` + apiToken + `","token_type":"bearer","expires_in":7200,"refresh_token":"` + refreshToken + `","created_at":1607635748}`,
		},
		"linear-user": {
			authorize: "https://linear.app/oauth/authorize", token: "https://api.linear.app/oauth/token", auth: post,
			query: []string{"scope", "read"}, target: "POST https://api.linear.app/graphql",
		},
		"salesforce-user": {
			authorize: "https://login.salesforce.com/services/oauth2/authorize", token: "https://login.salesforce.com/services/oauth2/token", auth: post,
			query: []string{"scope", "api refresh_token"}, target: "GET https://acme.my.salesforce.com/services/data/v64.0/limits",
			answer:   `{"access_token":"` + apiToken + `","refresh_token":"` + refreshToken + `","instance_url":"https://acme.my.salesforce.com","issued_at":"1700000000000","scope":"api refresh_token","token_type":"Bearer"}`,
			optional: "token_ttl",
		},
		"spotify-user": {
			authorize: "https://accounts.spotify.com/authorize", token: "https://accounts.spotify.com/api/token", auth: basic,
			query: []string{"scope", "user-read-private"}, target: "GET https://api.spotify.com/v1/me",
		},
		"twitch-user": {
			authorize: "https://id.twitch.tv/oauth2/authorize", token: "https://id.twitch.tv/oauth2/token", auth: post,
			query: []string{"scope", "user:read:email"}, target: "GET https://api.twitch.tv/helix/users", checks: []check{sends("Client-Id", clientID)},
			answer: `{"access_token":"` + apiToken + `","expires_in":14124,"refresh_token":"` + refreshToken + `","scope":["user:read:email"],"token_type":"bearer"}`,
		},
		"zendesk-user": {
			authorize: "https://acme.zendesk.com/oauth/authorizations/new", token: "https://acme.zendesk.com/oauth/tokens", auth: post, json: true,
			query: []string{"scope", "read"}, form: []string{"scope", "read"}, target: "GET https://acme.zendesk.com/api/v2/users/me", set: []string{"your-subdomain", "acme"},
		},
		"zoom-user": {
			authorize: "https://zoom.us/oauth/authorize", token: "https://zoom.us/oauth/token", auth: basic,
			target: "GET https://api.zoom.us/v2/users/me",
			answer: `{"access_token":"` + apiToken + `","token_type":"bearer","refresh_token":"` + refreshToken + `","expires_in":3599,"scope":"user:read:user","api_url":"https://api.zoom.us"}`,
		},
	}
}
