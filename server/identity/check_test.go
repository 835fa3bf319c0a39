package identity_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/identity"
)

func TestCheckNamesEveryProblemWithItsPlace(t *testing.T) {
	jwt := func(change func(*identity.JWT)) identity.Config {
		c := &identity.JWT{Bearer: true, JWKSURL: "https://login.test/jwks", Issuer: issuer, Audiences: []string{audience}}
		change(c)
		return identity.Config{Mode: identity.ModeJWT, JWT: c}
	}
	header := func(change func(*identity.Header)) identity.Config {
		c := headerConfig()
		change(c.Header)
		return c
	}
	for name, test := range map[string]struct {
		config identity.Config
		want   []string // the beginning of each problem
	}{
		"nothing":                 {identity.Config{}, nil},
		"none":                    {identity.Config{Mode: "none"}, nil},
		"a good jwt":              {jwt(func(*identity.JWT) {}), nil},
		"a good header":           {headerConfig(), nil},
		"unknown mode":            {identity.Config{Mode: "basic"}, []string{`type is "basic"`}},
		"mode without its part":   {identity.Config{Mode: "jwt"}, []string{"jwt is missing"}},
		"header without its part": {identity.Config{Mode: "header"}, []string{"header is missing"}},
		"part of another mode":    {identity.Config{Header: headerConfig().Header}, []string{"header is given"}},
		"everything at once": {
			identity.Config{Mode: "jwt", JWT: &identity.JWT{Algorithms: []string{"none", "RS1"}}},
			[]string{"jwt does not say where the token", "jwt.issuer is missing", "jwt.audiences is missing", "jwt.algorithms[0] is none", "jwt.algorithms[1] there is no"},
		},
		"an issuer alone":                     {jwt(func(c *identity.JWT) { c.JWKSURL = "" }), nil},
		"an issuer without https":             {jwt(func(c *identity.JWT) { c.JWKSURL, c.Issuer = "", "http://login.test" }), []string{"jwt.issuer is plain http"}},
		"an issuer that is no URL":            {jwt(func(c *identity.JWT) { c.JWKSURL, c.Issuer = "", "login" }), []string{"jwt.issuer is not an https URL such as https://login.example.com: without jwks_url and jwks_file, the keys are found by it"}},
		"an issuer with a query":              {jwt(func(c *identity.JWT) { c.JWKSURL, c.Issuer = "", "https://login.test?a=b" }), []string{"jwt.issuer has a query"}},
		"an issuer that is no URL, with keys": {jwt(func(c *identity.JWT) { c.Issuer = "login" }), nil},
		"metadata as keys":                    {jwt(func(c *identity.JWT) { c.JWKSURL = "https://login.test/realms/a/.well-known/openid-configuration" }), []string{"jwt.jwks_url is the metadata of an issuer, and not its keys: remove it, and write issuer: https://login.test/realms/a, with a slash"}},
		"metadata of RFC 8414 as keys":        {jwt(func(c *identity.JWT) { c.JWKSURL = "https://login.test/.well-known/oauth-authorization-server/a" }), []string{"jwt.jwks_url is the metadata of an issuer, and not its keys: remove it, and write issuer: https://login.test/a, with"}},
		"HS256 without a file":                {jwt(func(c *identity.JWT) { c.JWKSURL, c.Algorithms = "", []string{"HS256"} }), []string{"jwt.algorithms[0] is symmetric"}},
		"file and URL":                        {jwt(func(c *identity.JWT) { c.JWKSFile = "jwks.json" }), []string{"jwt.jwks_file is given besides"}},
		"plain http":                          {jwt(func(c *identity.JWT) { c.JWKSURL = "http://login.test/jwks" }), []string{"jwt.jwks_url is plain http"}},
		"no URL":                              {jwt(func(c *identity.JWT) { c.JWKSURL = "login.test/jwks" }), []string{"jwt.jwks_url is not an https URL"}},
		"a file as URL":                       {jwt(func(c *identity.JWT) { c.JWKSURL = "file:///etc/jwks" }), []string{"jwt.jwks_url is not an https URL"}},
		"user info":                           {jwt(func(c *identity.JWT) { c.JWKSURL = "https://a:b@login.test/jwks" }), []string{"jwt.jwks_url has user info"}},
		"fragment":                            {jwt(func(c *identity.JWT) { c.JWKSURL = "https://login.test/jwks#a" }), []string{"jwt.jwks_url has a fragment"}},
		"HS256 from a URL":                    {jwt(func(c *identity.JWT) { c.Algorithms = []string{"RS256", "HS256"} }), []string{"jwt.algorithms[1] is symmetric"}},
		"an empty audience":                   {jwt(func(c *identity.JWT) { c.Audiences = []string{audience, ""} }), []string{"jwt.audiences[1] is empty"}},
		"no name for a cookie":                {jwt(func(c *identity.JWT) { c.Cookie = "a b" }), []string{"jwt.cookie is not"}},
		"claim with a newline":                {jwt(func(c *identity.JWT) { c.Claims.TenantID = "a\n" }), []string{"jwt.claims.tenant_id is not"}},
		"hosts of tokens":                     {jwt(func(c *identity.JWT) { c.TokenHosts = []string{"login.test", "https://login.test"} }), []string{"jwt.token_hosts[1] is not the name of a host"}},
		"no proxies":                          {header(func(c *identity.Header) { c.Proxies = nil }), []string{"header.proxies is missing"}},
		"all addresses":                       {header(func(c *identity.Header) { c.Proxies = []string{"0.0.0.0/0", "::/0"} }), []string{"header.proxies[0] is every", "header.proxies[1] is every"}},
		"a name for an address":               {header(func(c *identity.Header) { c.Proxies = []string{"proxy.test"} }), []string{"header.proxies[0] is not an address"}},
		"bits beyond the mask":                {header(func(c *identity.Header) { c.Proxies = []string{"10.1.2.3/24"} }), []string{"header.proxies[0] has bits set"}},
		"IPv4 as IPv6":                        {header(func(c *identity.Header) { c.Proxies = []string{"::ffff:10.0.0.0/104"} }), []string{"header.proxies[0] is an IPv4 address"}},
		"an id alone":                         {header(func(c *identity.Header) { c.Email = "" }), nil},
		"an address alone":                    {header(func(c *identity.Header) { c.ID = "" }), nil},
		"nobody":                              {header(func(c *identity.Header) { c.ID, c.Email = "", "" }), []string{"header does not say who"}},
		"no header's name":                    {header(func(c *identity.Header) { c.ID = "X User" }), []string{"header.id is not a header's name"}},
		"an underscore":                       {header(func(c *identity.Header) { c.ID = "X_User" }), []string{"header.id is not a header's name"}},
		"what browsers set":                   {header(func(c *identity.Header) { c.ID = "authorization" }), []string{"header.id is authorization"}},
		"one header twice":                    {header(func(c *identity.Header) { c.TenantID = "X-Forwarded-EMAIL" }), []string{"header.tenant_id is the header of email"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.config.Check(nil)
			ok := slices.EqualFunc(got, test.want, func(p host.Problem, want string) bool { return strings.HasPrefix(p.Path+" "+p.Message, want) })
			if !ok {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if len(test.want) > 0 {
				_, err := identity.New(t.Context(), test.config, identity.Options{})
				if err == nil || !strings.HasPrefix(err.Error(), test.want[0]) {
					t.Errorf("New: %v, want %s", err, test.want[0])
				}
			}
		})
	}
	if got := jwt(func(c *identity.JWT) { c.JWKSURL = "http://127.0.0.1:1/jwks" }).Check(host.Egress{PlainHTTP: []string{"127.0.0.1:1"}}.AllowsHTTP); len(got) > 0 {
		t.Errorf("in development: %v", got)
	}
}
