//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

// consentsA returns products whose users consent: what they document is on the pages that their rules name.
func consentsA() map[string]consents {
	google := func(scope, target string, set ...string) consents {
		return consents{
			authorize: "https://accounts.google.com/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token",
			query: []string{"scope", "https://www.googleapis.com/auth/" + scope, "access_type", "offline", "prompt", "consent"},
			auth:  "client_secret_post", target: target, set: set,
		}
	}
	const entra = "https://login.microsoftonline.com/contoso.onmicrosoft.com/oauth2/v2.0/"
	const sheet, tenant, cloud = "1qpyC0XzvTcKT6EISywvqESX3A0MwQoFDE8p-Bll4hps", "fe79f7dd-b6d4-4a92-ba7b-538af6289c58", "11223344-a1b2-3b33-c444-def123456789"
	return map[string]consents{
		"dropbox-user": {
			authorize: "https://www.dropbox.com/oauth2/authorize", token: "https://api.dropboxapi.com/oauth2/token",
			query: []string{"scope", "account_info.read", "token_access_type", "offline"}, auth: "client_secret_post",
			target: "POST https://api.dropboxapi.com/2/users/get_current_account",
		},
		"gmail":           google("gmail.readonly", "GET https://gmail.googleapis.com/gmail/v1/users/me/profile"),
		"google-calendar": google("calendar.readonly", "GET https://www.googleapis.com/calendar/v3/users/me/calendarList"),
		"google-sheets":   google("spreadsheets.readonly", "GET https://sheets.googleapis.com/v4/spreadsheets/"+sheet+"/values/A1", "your-spreadsheet-id", sheet),
		"hubspot-user": {
			authorize: "https://app.hubspot.com/oauth/authorize", token: "https://api.hubapi.com/oauth/v3/token",
			query: []string{"scope", "oauth"}, auth: "client_secret_post", target: "GET https://api.hubapi.com/account-info/v3/details",
		},
		"jira-user": { // whose documented answer has no token_type
			authorize: "https://auth.atlassian.com/authorize", token: "https://auth.atlassian.com/oauth/token",
			query: []string{"audience", "api.atlassian.com", "scope", "offline_access read:jira-user", "prompt", "consent"}, auth: "client_secret_post",
			json: true, answer: `{"access_token":"` + apiToken + `","refresh_token":"` + refreshToken + `","expires_in":3600,"scope":"offline_access read:jira-user"}`,
			target: "GET https://api.atlassian.com/ex/jira/" + cloud + "/rest/api/3/myself", set: []string{"your-cloud-id", cloud},
		},
		"microsoft-graph-user": {
			authorize: entra + "authorize", token: entra + "token", query: []string{"scope", "offline_access User.Read"}, auth: "client_secret_post",
			target: "GET https://graph.microsoft.com/v1.0/me", set: []string{"your-tenant-id", "contoso.onmicrosoft.com"},
		},
		"notion-user": { // whose documented answer has no lifetime, and whose page lists all members of the token request, none of PKCE
			authorize: "https://api.notion.com/v1/oauth/authorize", token: "https://api.notion.com/v1/oauth/token",
			query: []string{"owner", "user"}, auth: "client_secret_basic", json: true, optional: "pkce token_ttl",
			answer: `{"access_token":"` + apiToken + `","token_type":"bearer","refresh_token":"` + refreshToken + `","bot_id":"3c90c3cc","owner":{"type":"user"}}`,
			target: "GET https://api.notion.com/v1/users/me",
		},
		"slack-user": { // whose documented answer has the token of a bot where RFC 6749 has the token
			authorize: "https://slack.com/oauth/v2/authorize", token: "https://slack.com/api/oauth.v2.access",
			query: []string{"user_scope", "channels:read"}, auth: "client_secret_basic", optional: "pkce",
			answer: `{"ok":true,"access_token":"xoxb-1","token_type":"bot","authed_user":{"id":"U1234","scope":"channels:read","access_token":"` + apiToken + `","token_type":"user"}}`,
			target: "POST https://slack.com/api/auth.test",
		},
		"xero-user": {
			authorize: "https://login.xero.com/identity/connect/authorize", token: "https://identity.xero.com/connect/token",
			query: []string{"scope", "offline_access accounting.settings.read"}, auth: "client_secret_basic",
			target: "GET https://api.xero.com/api.xro/2.0/Organisation", checks: []check{sends("Xero-Tenant-Id", tenant)}, set: []string{"your-tenant-id", tenant},
		},
	}
}
