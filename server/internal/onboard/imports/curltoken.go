package imports

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// fields returns the fields of the body, if it is a form, or an object of JSON.
func (c *curl) fields() map[string]string {
	fields := map[string]string{}
	var members map[string]any
	switch err := json.Unmarshal([]byte(strings.Join(c.data, "")), &members); {
	case err == nil:
		for name, value := range members {
			fields[name], _ = value.(string)
		}
	case c.isForm():
		for _, field := range form(c.data) {
			fields[field[0]] = field[1]
		}
	}
	return fields
}

// grantTypes are the grants of token requests that can be imported, with their auth types.
var grantTypes = map[string]string{"client_credentials": "oauth_client_credentials", "password": "oauth_password", "refresh_token": "oauth_refresh_token"}

// grant returns the grant of a token request, if the command line is one, or "".
func (b *curlMaker) grant() (string, error) {
	grant := b.curl.fields()["grant_type"]
	if grant == "" || b.curl.get {
		return "", nil
	}
	if grantTypes[grant] == "" {
		return "", errors.New("the command line is a token request whose grant_type cannot be imported: client_credentials, password and refresh_token can; see docs/auth-types.md for others")
	}
	return grant, nil
}

// tokenRequest makes the connector of a token request: it asks for tokens as the command line does, and sends them to the API.
func (b *curlMaker) tokenRequest(grant string) {
	c := b.result.Connector
	if b.options.URL == "" {
		b.miss("the URL: the command line asks a token endpoint for a token, and does not say for which API: use --url")
	}
	kind, fields := grantTypes[grant], b.curl.fields()
	switch grant {
	case "password":
		b.auth(kind, "username", "the user's name, username of the form", "password", "the user's password, password of the form")
	case "refresh_token":
		b.auth(kind, "refresh_token", "the refresh token, refresh_token of the form")
	}
	basic := b.curl.user != nil || strings.HasPrefix(strings.ToLower(strings.Join(b.curl.header("Authorization"), "")), "basic ")
	_, secret := fields["client_secret"]
	b.auth(kind, "client_id", "the client's identifier")
	switch {
	case basic:
		b.auth(kind, "client_secret", "the client's secret")
		c.Config.add("client_auth", "client_secret_basic")
	case secret || grant == "client_credentials":
		b.auth(kind, "client_secret", "the client's secret, client_secret of the form")
	default:
		c.Config.add("client_auth", "none")
	}
	endpoint := *b.url
	endpoint.Scheme, endpoint.User, endpoint.RawQuery, endpoint.Fragment = "https", nil, "", ""
	if b.options.TokenURL == "" && shows(uuids.ReplaceAllString(endpoint.Path, "")) {
		b.miss("the token endpoint: its path may have a credential: if it has none, use --token-url")
	}
	c.Config.add("token_url", literal(cmp.Or(b.options.TokenURL, endpoint.String())))
	for _, name := range []string{"scope", "audience"} {
		if shows(uuids.ReplaceAllString(fields[name], "")) {
			b.note("%s may have a credential, and is left out: if it has none, add it by hand", name)
			fields[name] = ""
		}
	}
	c.Config.add("scope", literal(fields["scope"]))
	c.Config.add("audience", literal(fields["audience"]))
	switch {
	case !json.Valid([]byte(strings.Join(b.curl.data, ""))):
	case grant != "refresh_token":
		b.note("the token request of the command line is JSON, and that of the connector a form, as RFC 6749 section 4.4.2 has it: a server that takes JSON alone needs the auth type login")
	default:
		c.Config.add("token_request", "json")
	}
	for _, name := range []string{"grant_type", "client_id", "client_secret", "username", "password", "refresh_token", "scope", "audience"} {
		delete(fields, name)
	}
	if len(fields) > 0 {
		b.note("the body has other fields, which are left out: add them as parameters")
	}
	b.note("the command line is a token request: the connector makes it when it needs a token")
}

var uuids = regexp.MustCompile(`(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
