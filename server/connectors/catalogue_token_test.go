//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

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
			"GET https://api.ebay.com/buy/browse/v1/item_summary/search", signedIn(id, secret), granted("scope", "https://api.ebay.com/oauth/api_scope")).of("your-app-id", id).without("expires_in_from"),
		"microsoft-graph": withTokens(one("microsoft-graph", secret), entra, answer, "GET https://graph.microsoft.com/v1.0/organization",
			inForm("scope", "https://graph.microsoft.com/.default")).of(entraIDs...),
		"paypal": withTokens(one("paypal", secret), "https://api-m.paypal.com/v1/oauth2/token", answer,
			"GET https://api-m.paypal.com/v1/notifications/webhooks-event-types", signedIn(id, secret), granted()).of("your-client-id", id),
		"quickbooks":  quickBooks(id, secret),
		"rocket-chat": rocketChatAccount(),
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

// rocketChatAccount returns an account at a workspace, where a login answers with a token and the ID of the user.
func rocketChatAccount() account {
	const password = "correct horse battery"
	api := request("GET https://chat.acme.example/api/v1/me", sends("X-Auth-Token", chatToken), sends("X-User-Id", "aobEdbYhXfu5hkeqG"))
	return account{
		secrets: one("rocket-chat", password), set: map[string]string{"chat.your-company.example": "chat.acme.example", "your-user": "bot"},
		api: tokens("https://chat.acme.example/api/v1/login", `{"status":"success","data":{"userId":"aobEdbYhXfu5hkeqG","authToken":"`+chatToken+`"}}`, api,
			sends("Content-Type", "application/json"), func(r *http.Request) error {
				var login struct{ User, Password string }
				if err := json.NewDecoder(r.Body).Decode(&login); err != nil || login.User != "bot" || login.Password != password {
					return fmt.Errorf("%v %w", login, err)
				}
				return nil
			}),
	}
}
