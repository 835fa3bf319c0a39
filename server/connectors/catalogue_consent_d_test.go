//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

// consentsD returns products whose users consent, by their names.
func consentsD() map[string]consents {
	const redditAgent = "web:com.acme.reports:v1 (by /u/acme_bot)"
	return map[string]consents{
		"canva": {
			authorize: "https://www.canva.com/api/oauth/authorize", token: "https://api.canva.com/auth/v1/oauth/token",
			query: []string{"scope", "profile:read"}, auth: "client_secret_basic", target: "GET https://api.canva.com/rest/v1/users/me/profile",
		},
		"digitalocean-user": {
			authorize: "https://cloud.digitalocean.com/v1/oauth/authorize", token: "https://cloud.digitalocean.com/v1/oauth/token",
			query: []string{"scope", "read"}, auth: "client_secret_post", target: "GET https://api.digitalocean.com/v2/account",
		},
		"eventbrite": {
			authorize: "https://www.eventbrite.com/oauth/authorize", token: "https://www.eventbrite.com/oauth/token",
			auth: "client_secret_post", answer: `{"access_token":"` + apiToken + `","token_type":"bearer"}`,
			target: "GET https://www.eventbriteapi.com/v3/users/me/",
		},
		"heroku": {
			authorize: "https://id.heroku.com/oauth/authorize", token: "https://id.heroku.com/oauth/token",
			query: []string{"scope", "identity"}, auth: "client_secret_post", target: "GET https://api.heroku.com/account",
			checks: []check{sends("Accept", "application/vnd.heroku+json; version=3")},
		},
		"linkedin": { // it refuses PKCE, and its answer has no token_type
			authorize: "https://www.linkedin.com/oauth/v2/authorization", token: "https://www.linkedin.com/oauth/v2/accessToken",
			query: []string{"scope", "r_basicprofile"}, pkce: "none", auth: "client_secret_post",
			answer: `{"access_token":"` + apiToken + `","expires_in":5184000,"scope":"r_basicprofile"}`, target: "GET https://api.linkedin.com/v2/me",
		},
		"patreon": {
			authorize: "https://www.patreon.com/oauth2/authorize", token: "https://www.patreon.com/api/oauth2/token",
			query: []string{"scope", "identity"}, auth: "client_secret_post", target: "GET https://www.patreon.com/api/oauth2/v2/identity",
		},
		"reddit": {
			authorize: "https://www.reddit.com/api/v1/authorize", token: "https://www.reddit.com/api/v1/access_token",
			query: []string{"scope", "identity", "duration", "permanent"}, auth: "client_secret_basic",
			target: "GET https://oauth.reddit.com/api/v1/me", checks: []check{sends("User-Agent", redditAgent)},
			set: []string{"your-app-name", "com.acme.reports", "your-user-name", "acme_bot"},
		},
		"strava": {
			authorize: "https://www.strava.com/oauth/authorize", token: "https://www.strava.com/api/v3/oauth/token",
			query: []string{"scope", "read"}, auth: "client_secret_post", target: "GET https://www.strava.com/api/v3/athlete",
			answer: `{"token_type":"Bearer","expires_at":1568775134,"expires_in":21600,"refresh_token":"` + refreshToken + `","access_token":"` + apiToken + `"}`,
		},
		"wrike": {
			authorize: "https://login.wrike.com/oauth2/authorize/v4", token: "https://login.wrike.com/oauth2/token",
			query: []string{"scope", "wsReadOnly"}, auth: "client_secret_post", target: "GET https://app-eu.wrike.com/api/v4/contacts",
			answer: `{"access_token":"` + apiToken + `","refresh_token":"` + refreshToken + `","token_type":"bearer","expires_in":3600,"host":"app-eu.wrike.com"}`,
			set:    []string{"your-host", "app-eu"},
		},
		"zoho-crm": {
			authorize: "https://accounts.zoho.com/oauth/v2/auth", token: "https://accounts.zoho.com/oauth/v2/token",
			query: []string{"scope", "ZohoCRM.org.READ", "access_type", "offline", "prompt", "consent"}, auth: "client_secret_post",
			answer: `{"access_token":"` + apiToken + `","refresh_token":"` + refreshToken + `","api_domain":"https://www.zohoapis.com","token_type":"Bearer","expires_in":3600}`,
			target: "GET https://www.zohoapis.com/crm/v8/org", header: "Authorization", prefix: "Zoho-oauthtoken ",
		},
	}
}
