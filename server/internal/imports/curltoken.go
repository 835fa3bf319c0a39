package imports

import "strings"

// grant returns the grant of a token request, if the command line is one, or "".
func (b *curlMaker) grant() string {
	if !b.curl.isForm() {
		return ""
	}
	for _, field := range b.curl.form() {
		if field[0] == "grant_type" {
			switch field[1] {
			case "client_credentials", "password", "refresh_token":
				return field[1]
			}
		}
	}
	return ""
}

// tokenRequest makes the connector of a token request: it asks for tokens as the command line does, and sends them to the API.
func (b *curlMaker) tokenRequest(grant string) {
	c := b.result.Connector
	if b.options.URL == "" {
		b.miss("the URL: the command line asks a token endpoint for a token, and does not say for which API: use --url")
	}
	c.Type = map[string]string{"client_credentials": "oauth_client_credentials", "password": "oauth_password", "refresh_token": "oauth_refresh_token"}[grant]
	fields := map[string]string{}
	for _, field := range b.curl.form() {
		fields[field[0]] = field[1]
	}
	switch grant {
	case "password":
		c.Config.add("username", b.secret("username", "the user's name, username of the form"))
		c.Config.add("password", b.secret("password", "the user's password, password of the form"))
	case "refresh_token":
		c.Config.add("refresh_token", b.secret("refresh-token", "the refresh token, refresh_token of the form"))
	}
	basic := b.curl.user != nil || strings.HasPrefix(strings.ToLower(strings.Join(b.curl.header("Authorization"), "")), "basic ")
	_, secret := fields["client_secret"]
	c.Config.add("client_id", b.secret("client-id", "the client's identifier"))
	switch {
	case basic:
		c.Config.add("client_secret", b.secret("client-secret", "the client's secret"))
		c.Config.add("client_auth", "client_secret_basic")
	case secret || grant == "client_credentials":
		c.Config.add("client_secret", b.secret("client-secret", "the client's secret, client_secret of the form"))
	default:
		c.Config.add("client_auth", "none")
	}
	endpoint := *b.url
	endpoint.Scheme, endpoint.User, endpoint.RawQuery, endpoint.Fragment = "https", nil, "", ""
	c.Config.add("token_url", literal(endpoint.String()))
	c.Config.add("scope", literal(fields["scope"]))
	c.Config.add("audience", literal(fields["audience"]))
	for _, name := range []string{"grant_type", "client_id", "client_secret", "username", "password", "refresh_token", "scope", "audience"} {
		delete(fields, name)
	}
	if len(fields) > 0 {
		b.note("the form has other fields, which are left out: add them as parameters")
	}
	b.note("the command line is a token request: the connector makes it when it needs a token")
}
