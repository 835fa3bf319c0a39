package imports

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/keywright/keywright/host"
)

// flows are the flows of OAuth, those first that are preferred, with their names in Swagger 2.
var flows = []struct{ name, swagger string }{
	{"clientCredentials", "application"}, {"authorizationCode", "accessCode"}, {"password", "password"}, {"implicit", "implicit"},
}

func (s *schemer) oauth(name string, n *node) error {
	found := map[string]*node{}
	var names []string
	for _, f := range flows {
		flow := n.get("flows", f.name)
		if n.get("flows") == nil && n.string("flow") == f.swagger {
			flow = n
		}
		if flow != nil && flow.kind == isObject {
			found[f.name] = flow
			names = append(names, f.name)
		}
	}
	flowName := s.options.Flow
	switch {
	case len(names) == 0:
		return fmt.Errorf("the scheme %s has no flow that is known: there are clientCredentials, authorizationCode, password and implicit", name)
	case flowName == "":
		flowName = names[0]
		if len(names) > 1 {
			s.note("the scheme %s has %d flows, of which %s was taken; --flow chooses another: %s", name, len(names), flowName, strings.Join(names[1:], ", "))
		}
	case found[flowName] == nil:
		return fmt.Errorf("the scheme %s has no flow %q; there are: %s", name, flowName, strings.Join(names, ", "))
	}
	flow := found[flowName]
	switch flowName {
	case "clientCredentials":
		s.auth("oauth_client_credentials")
	case "password":
		s.auth("oauth_password", "username", "the user's name", "password", "the user's password")
	default:
		s.auth("oauth_authorization_code")
		s.code(name, flow, flowName == "implicit")
		return nil
	}
	s.clientSecret(true)
	s.endpoint(name, flow, "tokenUrl", "token_url")
	s.scope(name, flow)
	return nil
}

func (s *schemer) code(name string, flow *node, implicit bool) {
	c := s.Connector
	authorization := s.endpoint(name, flow, "authorizationUrl", "authorization_url")
	authServer := knownServer(authorization)
	if implicit {
		s.implicit(name, authorization, authServer)
	} else {
		s.endpoint(name, flow, "tokenUrl", "token_url")
	}
	if refresh := flow.string("refreshUrl"); refresh != "" && refresh != flow.string("tokenUrl") {
		s.endpoint(name, flow, "refreshUrl", "refresh_url")
	}
	s.clientSecret(false)
	s.scope(name, flow)
	if authServer == nil {
		return
	}
	if authServer.resource {
		if u, err := url.Parse(s.server.url); err == nil && u.Host != "" {
			c.Config.add("resource", "https://"+u.Host+"/")
			s.note("resource is the origin of the API, since this endpoint of Entra ID needs it; the documentation of the API may name another")
		}
	}
	if len(authServer.parameters) > 0 {
		c.Config.add("authorization_parameters", authServer.parameters)
		s.note("authorization_parameters ask for a refresh token, in the way of this server")
	}
}

// An authorizationServer is a server whose documentation says what documents with the flow implicit leave out.
type authorizationServer struct {
	host, path string
	// token is the path of the token endpoint, or its URL.
	token string
	// resource is true if the server needs the parameter resource.
	resource   bool
	parameters Fields
}

// knownServers are the servers that many documents have with the flow implicit. Tenants take the place of *.
var knownServers = []authorizationServer{
	{host: "accounts.google.com", path: "/o/oauth2/auth", token: "https://oauth2.googleapis.com/token", parameters: offline},
	{host: "accounts.google.com", path: "/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token", parameters: offline},
	{host: "login.microsoftonline.com", path: "/*/oauth2/authorize", token: "/oauth2/token", resource: true},
	{host: "login.microsoftonline.com", path: "/*/oauth2/v2.0/authorize", token: "/oauth2/v2.0/token"},
}

var offline = Fields{{"access_type", "offline"}, {"prompt", "consent"}}

// knownServer returns the server of an authorization endpoint, with the URL of its token endpoint, or nil.
func knownServer(authorization string) *authorizationServer {
	u, err := url.Parse(authorization)
	if err != nil || u.Scheme != "https" {
		return nil
	}
	for _, authServer := range knownServers {
		tenant := strings.Split(u.Path, "/")
		if authServer.host != u.Host || len(tenant) < 2 || strings.Replace(authServer.path, "*", tenant[1], 1) != u.Path {
			continue
		}
		if strings.HasPrefix(authServer.token, "/") {
			authServer.token = "https://" + u.Host + "/" + tenant[1] + authServer.token
		}
		return &authServer
	}
	return nil
}

// implicit adds the token endpoint of a scheme whose flow does not need one. The implicit flow brings a token to the browser, where a
// server cannot use it; RFC 9700 section 2.1.2 says to use the authorization code in its place.
func (s *schemer) implicit(name, authorization string, authServer *authorizationServer) {
	c := s.Connector
	switch sibling := s.siblingToken(authorization); {
	case s.options.TokenURL != "":
		c.Config.add("token_url", literal(s.options.TokenURL))
	case sibling != "":
		c.Config.add("token_url", literal(sibling))
		s.elsewhere("token_url", sibling)
	case authServer != nil:
		c.Config.add("token_url", authServer.token)
	default:
		s.miss("the token endpoint: the scheme %s has the flow implicit, whose document names none: use --token-url", name)
		return
	}
	s.note("the scheme %s has the flow implicit, which is for browsers; the connector uses the authorization code of the same server", name)
}

// siblingToken returns the token endpoint that another scheme of the document has for the same authorization endpoint.
func (s *schemer) siblingToken(authorization string) string {
	for _, name := range s.document.names {
		n, err := s.document.scheme(name)
		if err != nil {
			continue
		}
		flow := n.get("flows", "authorizationCode")
		if flow == nil && n.string("flow") == "accessCode" {
			flow = n
		}
		if token := flow.string("tokenUrl"); token != "" && flow.string("authorizationUrl") == authorization {
			if u, err := s.server.resolve(token, ""); err == nil {
				return u
			}
		}
	}
	return ""
}

func (s *schemer) endpoint(name string, flow *node, member, field string) string {
	text := flow.string(member)
	if field == "token_url" && s.options.TokenURL != "" {
		text = s.options.TokenURL
	}
	if text == "" {
		hint := ""
		if field == "token_url" {
			hint = ": use --token-url"
		}
		s.miss("%s: the scheme %s does not have it%s", field, name, hint)
		return ""
	}
	resolved, err := s.server.resolve(text, s.options.TokenURL)
	if err != nil {
		s.miss("%s: that of the scheme %s is no URL, or may have a credential, or is relative and the URL of the API is unknown", field, name)
		return ""
	}
	if rest, plain := strings.CutPrefix(resolved, "http://"); plain {
		resolved = "https://" + rest
		s.note("%s is plain http in the document; the connector has https, since http sends the credential in the open", field)
	}
	s.Connector.Config.add(field, literal(resolved))
	s.elsewhere(field, resolved)
	return resolved
}

// elsewhere notes that an endpoint, which gets the client's secret, belongs to another site than the API.
func (s *schemer) elsewhere(field, endpoint string) {
	u, err := url.Parse(endpoint)
	if err == nil && field != "authorization_url" && site(endpoint) != site(s.Connector.URL) {
		s.note("%s is at %s, and the API is not: the connector sends the client's secret there", field, u.Host)
	}
}

// site returns the registered domain of a URL's host, or the host itself if no domain is registered.
func site(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(u.Hostname()))
	if err != nil {
		return u.Host
	}
	return domain
}

// clientSecret adds the client. Its identifier is a secret only where no browser sees it.
func (s *schemer) clientSecret(secretID bool) {
	c := s.Connector
	if secretID {
		c.Config.add("client_id", s.secret("client-id", "the client's identifier"))
	} else {
		c.Config.add("client_id", s.variable("client_id", "the client's identifier"))
	}
	c.Config.add("client_secret", s.secret("client-secret", "the client's secret"))
	s.note("client_auth is client_secret_post unless it is there: no document says whether the token endpoint wants client_secret_basic")
}

// scope adds the scopes of the requirement, or else all of the flow.
func (s *schemer) scope(name string, flow *node) {
	scopes, all := s.scopes[name], flow.get("scopes")
	if all != nil && len(all.names) > 0 {
		listed := map[string]bool{}
		for _, scope := range all.names {
			listed[scope] = true
		}
		validScopes := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !listed[scope] })
		if len(validScopes) < len(scopes) {
			s.note("the document asks for scopes that the scheme %s does not have; they are left out", name)
		}
		scopes = validScopes
	}
	if len(scopes) == 0 {
		if scopes = all.members(); len(scopes) > 1 {
			s.note("scope has all %d scopes of the document: remove those that you do not need", len(scopes))
		}
	}
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool {
		return strings.TrimSpace(scope) == "" || host.Printable(scope) != scope
	})
	s.Connector.Config.add("scope", literal(strings.Join(scopes, " ")))
}

// openID makes the auth of a scheme of OpenID Connect, whose endpoints are discovered.
func (s *schemer) openID(name string, n *node) error {
	const suffix = "/.well-known/openid-configuration"
	resolved, err := s.server.resolve(n.string("openIdConnectUrl"), "")
	issuer, found := strings.CutSuffix(resolved, suffix)
	if err != nil || !found || !strings.HasPrefix(issuer, "https://") || strings.ContainsAny(issuer, "'\\{}?#") {
		return fmt.Errorf("the scheme %s has an openIdConnectUrl that is not https, or does not end with %s", name, suffix)
	}
	discover := func(member string) string { return "{{ discover('" + issuer + "', '" + member + "') }}" }
	c := s.Connector
	switch s.options.Flow {
	case "", "authorizationCode":
		c.Type = "oauth_authorization_code"
		c.Config.add("authorization_url", discover("authorization_endpoint"))
		c.Config.add("token_url", discover("token_endpoint"))
		s.clientSecret(false)
		c.Config.add("scope", literal(strings.Join(slices.Compact(append([]string{"openid"}, s.scopes[name]...)), " ")))
	case "clientCredentials":
		c.Type = "oauth_client_credentials"
		s.clientSecret(true)
		c.Config.add("token_url", discover("token_endpoint"))
		c.Config.add("scope", literal(strings.Join(s.scopes[name], " ")))
	default:
		return fmt.Errorf("the scheme %s is OpenID Connect: --flow is authorizationCode or clientCredentials", name)
	}
	s.note("the issuer is %s, as the document has it; if its metadata has a slash at the end, add it", issuer)
	return nil
}
