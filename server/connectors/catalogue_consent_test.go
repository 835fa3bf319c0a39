//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The client at products whose users consent, and what their authorization servers issue.
const clientID, refreshToken = "0f1e2d3c4b5a", "refresh-0123456789"

// consents is a product whose users consent, as it documents its authorization server and its API.
type consents struct {
	// authorize and token are the URLs of the endpoints. refresh is that for refresh tokens, if it is another one.
	authorize, token, refresh string
	// query has the parameters of the authorization request, in pairs, beside those that all have: client_id, redirect_uri,
	// response_type, state, and PKCE.
	query []string
	// auth is the client authentication at the token endpoint: client_secret_post, client_secret_basic or none.
	auth string
	// form has further parameters of each token request, in pairs. json is true if token requests have to be JSON.
	form []string
	json bool
	// pkce is "S256" for a product that demands PKCE, and "none" for one that refuses it.
	pkce string
	// answer is the answer of the token endpoint. If it is empty, it is that of RFC 6749, for an hour, with a refresh token.
	answer string
	// target is the first request. checks are the API's, beside that of the token.
	target string
	checks []check
	// header and prefix are those of the token, unless it is a bearer of RFC 6750.
	header, prefix string
	// set has pairs of texts of the connector and their replacements, beside the client ID. optional has members without which the product
	// answers too.
	set      []string
	optional string
}

// account returns the account of a user at the product. The name is that of the entry, whose secret is the client's.
func (c consents) account(name string) account {
	const secret = "client-secret-0123456789"
	answer := c.answer
	if answer == "" {
		answer = `{"access_token":"` + apiToken + `","token_type":"Bearer","expires_in":3600,"refresh_token":"` + refreshToken + `"}`
	}
	if c.header == "" {
		c.header, c.prefix = "Authorization", "Bearer "
	}
	a := account{set: pairs(append([]string{"your-client-id", clientID}, c.set...)), secrets: one(name, secret), optional: c.optional + " revocation_url"}
	if c.auth == "none" {
		a.secrets = nil
	}
	credential := func(r *http.Request) error { return c.checkToken(r, secret) }
	a.api = tokens(c.token, answer, request(c.target, append(c.checks, sends(c.header, c.prefix+apiToken))...), credential)
	if c.refresh != "" {
		a.api = tokens(c.refresh, answer, a.api, credential)
	}
	a.consent = request("GET "+c.authorize, c.checkAuthorization)
	return a
}

// checkToken returns an error unless a token request has the client's credential, and a code or a refresh token.
func (c consents) checkToken(r *http.Request, secret string) error {
	if err := posted(r); err != nil {
		return err
	}
	form := r.PostForm
	if c.json {
		var err error
		if form, err = members(r); err != nil {
			return err
		}
	}
	switch name, password, basic := r.BasicAuth(); {
	case c.auth == "client_secret_basic" && (!basic || name != clientID || password != secret || form.Has("client_secret")):
		return fmt.Errorf("Authorization = %s, form = %v, want the client in the header", r.Header.Get("Authorization"), form)
	case c.auth == "client_secret_post" && (basic || form.Get("client_id") != clientID || form.Get("client_secret") != secret):
		return fmt.Errorf("form = %v, want the client in it", form)
	case c.auth == "none" && (basic || form.Get("client_id") != clientID || form.Has("client_secret")):
		return fmt.Errorf("form = %v, want a public client", form)
	}
	for pair := range slices.Chunk(c.form, 2) {
		if form.Get(pair[0]) != pair[1] {
			return fmt.Errorf("%s = %q, want %q", pair[0], form.Get(pair[0]), pair[1])
		}
	}
	grant, endpoint := form.Get("grant_type"), "https://"+r.Host+r.URL.Path
	if c.refresh != "" && (grant == "refresh_token") != (endpoint == c.refresh) {
		return fmt.Errorf("%s gets a %s", endpoint, grant)
	}
	switch grant {
	case "authorization_code":
		if c.pkce == "S256" && form.Get("code_verifier") == "" || c.pkce == "none" && form.Has("code_verifier") {
			return fmt.Errorf("code_verifier = %q, want it with PKCE alone", form.Get("code_verifier"))
		}
		if form.Get("code") == consentCode && form.Get("redirect_uri") == consentURI {
			return nil
		}
	case "refresh_token":
		if form.Get("refresh_token") == refreshToken {
			return nil
		}
	}
	return fmt.Errorf("form = %v, want the code or the refresh token", form)
}

// members returns the members of a body in JSON, all of them texts.
func members(r *http.Request) (url.Values, error) {
	var texts map[string]string
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		return nil, fmt.Errorf("Content-Type = %s, want that of JSON", got)
	}
	if err := json.NewDecoder(r.Body).Decode(&texts); err != nil {
		return nil, err
	}
	form := url.Values{}
	for name, text := range texts {
		form.Set(name, text)
	}
	return form, nil
}

// checkAuthorization returns an error unless the browser brings what the product documents of an authorization request.
func (c consents) checkAuthorization(r *http.Request) error {
	q := r.URL.Query()
	usual := q.Get("client_id") == clientID && q.Get("response_type") == "code" && q.Get("redirect_uri") == consentURI && q.Get("state") != ""
	usual = usual && (c.pkce == "" || c.pkce == "S256" == (q.Get("code_challenge_method") == "S256" && q.Get("code_challenge") != ""))
	names := strings.Fields("client_id response_type redirect_uri state nonce code_challenge code_challenge_method")
	for pair := range slices.Chunk(c.query, 2) {
		usual = usual && q.Get(pair[0]) == pair[1]
		names = append(names, pair[0])
	}
	for name := range q {
		usual = usual && slices.Contains(names, name)
	}
	if !usual {
		return fmt.Errorf("query = %v, want that of the product", q)
	}
	return nil
}

// consentAccounts returns the accounts of products whose users consent.
func consentAccounts() map[string]account {
	all := map[string]account{}
	for _, list := range []map[string]consents{consentsA(), consentsB(), consentsC(), consentsD()} {
		for name, c := range list {
			all[name] = c.account(name)
		}
	}
	return all
}
