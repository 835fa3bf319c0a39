package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/wellknown"
)

type checker struct{ problem.Collector }

// Check returns all problems of a configuration, nil if it is valid. The Path of a problem names a member as in
// connectors.yaml, relative to the configuration: jwt.jwks_url, header.proxies[0]. Message is printable. http has the
// meaning of HTTP in [Options]. Check does not read keys.
func (c Config) Check(http func(*url.URL) bool) (all []host.Problem) {
	var k checker
	k.config(c, http)
	for _, p := range k.Problems {
		all = append(all, host.Problem{Path: p.Path, Message: host.Printable(p.Message)})
	}
	return all
}

func (k *checker) config(c Config, http func(*url.URL) bool) {
	switch {
	case !slices.Contains([]string{"", ModeNone, ModeJWT, ModeHeader}, c.Mode):
		k.Wrong("type", "is %q; there are none, jwt and header", c.Mode)
		return
	case c.JWT != nil && c.Mode != ModeJWT:
		k.Wrong("jwt", "is given, but the type is another: set type to jwt, or remove it")
	case c.Header != nil && c.Mode != ModeHeader:
		k.Wrong("header", "is given, but the type is another: set type to header, or remove it")
	case c.Mode == ModeJWT && c.JWT == nil:
		k.Wrong("jwt", "is missing: it says where session tokens stand, and what they have to be")
	case c.Mode == ModeHeader && c.Header == nil:
		k.Wrong("header", "is missing: it says which headers name the user, and whose are believed")
	}
	if c.JWT != nil {
		k.jwt(c.JWT, http)
	}
	if c.Header != nil {
		k.header(c.Header)
	}
}

func (k *checker) jwt(c *JWT, http func(*url.URL) bool) {
	if !c.Bearer && c.Cookie == "" {
		k.Wrong("jwt", "does not say where the token stands: set bearer to true, or cookie to the name of a cookie")
	}
	if c.Cookie != "" && !httpguts.ValidHeaderFieldName(c.Cookie) {
		k.Wrong("jwt.cookie", "is not the name of a cookie")
	}
	k.keys(c, http)
	if len(c.Audiences) == 0 {
		k.Wrong("jwt.audiences", "is missing: without it a token that was made for another service would count here")
	}
	for i, audience := range c.Audiences {
		if audience == "" {
			k.Wrong(fmt.Sprintf("jwt.audiences[%d]", i), "is empty")
		}
	}
	k.algorithms(c)
	for i, text := range c.TokenHosts {
		if _, err := urlcheck.ParseHost(text); err != nil {
			k.Wrong(fmt.Sprintf("jwt.token_hosts[%d]", i), "%v", err)
		}
	}
	for _, f := range c.Claims.fields() {
		if fit(*f.name) != "" {
			k.Wrong("jwt.claims."+f.field, "is not the name of a claim")
		}
	}
}

// keys checks where the keys come from, and the issuer.
func (k *checker) keys(c *JWT, http func(*url.URL) bool) {
	rule := urlcheck.Rule{HTTP: http, PlainHTTP: plainKeys, Example: "https://login.example.com/jwks.json"}
	discovers := c.JWKSFile == "" && c.JWKSURL == ""
	if c.JWKSFile != "" && c.JWKSURL != "" {
		k.Wrong("jwt.jwks_file", "is given besides jwks_url: remove one of them")
	}
	if c.JWKSURL != "" {
		if _, err := rule.Parse(c.JWKSURL); err != nil {
			k.Wrong("jwt.jwks_url", "%v", err)
		} else if issuer := wellknown.Issuer(c.JWKSURL); issuer != "" {
			k.Wrong("jwt.jwks_url", "is the metadata of an issuer, and not its keys: remove it, and write issuer: %s, with a slash at the end if the metadata has one; the keys are found by that", issuer)
		}
	}
	rule.Example = "https://login.example.com"
	switch {
	case c.Issuer == "":
		k.Wrong("jwt.issuer", "is missing: what the claim iss of a token has to be; if it is a URL with metadata, the keys are found by it")
	case discovers && strings.Contains(c.Issuer, "?"):
		k.Wrong("jwt.issuer", "has a query: set jwks_url or jwks_file, because the keys cannot be found by it")
	case discovers:
		if _, err := rule.Parse(c.Issuer); err != nil {
			k.Wrong("jwt.issuer", "%v: without jwks_url and jwks_file, the keys are found by it", err)
		}
	}
}

func (k *checker) algorithms(c *JWT) {
	for i, algorithm := range c.Algorithms {
		path := fmt.Sprintf("jwt.algorithms[%d]", i)
		switch {
		case strings.EqualFold(algorithm, "none"):
			k.Wrong(path, "is none: a token without a signature is anybody's")
		case jws.Method(algorithm) == nil:
			k.Wrong(path, "there is no algorithm %q; there are %s", algorithm, strings.Join(jws.Algorithms(), ", "))
		case jws.Symmetric(algorithm) && c.JWKSFile == "":
			k.Wrong(path, "is symmetric: whoever can read its key can make tokens, so it may only come from jwks_file")
		}
	}
}

func (k *checker) header(c *Header) {
	if len(c.Proxies) == 0 {
		k.Wrong("header.proxies", "is missing: the addresses of the proxies whose headers are believed")
	}
	for i, text := range c.Proxies {
		if _, err := parseProxy(text); err != nil {
			k.Wrong(fmt.Sprintf("header.proxies[%d]", i), "%v", err)
		}
	}
	if c.ID == "" && c.Email == "" {
		k.Wrong("header", "does not say who the user is: set id or email to the name of a header")
	}
	byName := map[string]string{}
	for _, f := range c.fields() {
		name := *f.name
		if name == "" {
			continue
		}
		path := "header." + f.field
		switch {
		case !httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "_"):
			k.Wrong(path, "is not a header's name of letters, digits and hyphens")
		case slices.Contains(notIdentity, fold(name)):
			k.Wrong(path, "is %s, which browsers set: use a header of the proxy's own", name)
		case byName[fold(name)] != "":
			k.Wrong(path, "is the header of %s as well", byName[fold(name)])
		default:
			byName[fold(name)] = f.field
		}
	}
}

// notIdentity lists headers that cannot name the user, because they have another meaning and browsers set them.
var notIdentity = []string{"authorization", "proxy-authorization", "cookie", "host", "connection", "origin", "referer", "user-agent"}

func parseProxy(text string) (netip.Prefix, error) {
	prefix, err := urlcheck.Range(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New("is not an address or prefix such as 10.1.2.0/24")
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, errors.New("is an IPv4 address written as IPv6: write it as IPv4")
	case prefix.Bits() == 0:
		return netip.Prefix{}, errors.New("is every address: anybody could say who they are")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits set beyond its length: write %v, or a longer one", prefix.Masked())
	}
	return prefix, nil
}
