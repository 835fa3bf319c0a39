// Package wellknown has the rules for where an issuer has its metadata, and whose metadata a document is (RFC 8414, OpenID Connect
// Discovery 1.0).
package wellknown

import (
	"net/http"
	"net/url"
	"strings"
)

// Paths of the metadata.
const (
	oauth  = "/.well-known/oauth-authorization-server"
	openID = "/.well-known/openid-configuration"
)

// Locations returns the URLs at which an issuer has its metadata. That of RFC 8414 section 3.1 has the well-known part between
// host and path, and that of OpenID Connect Discovery section 4 at the end. Both take a slash off the end of the issuer.
func Locations(issuer string) (ofOAuth, ofOpenID string) {
	u, err := url.Parse(issuer)
	if err != nil {
		return issuer, issuer // those who check the configuration refuse it
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	origin := u.Scheme + "://" + u.Host
	return origin + oauth + path, origin + path + openID
}

// Issuer returns the issuer whose metadata a URL is, or "". The issuer may have a slash at its end that the URL does not show.
func Issuer(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return ""
	}
	origin := u.Scheme + "://" + u.Host
	if path, ok := strings.CutSuffix(u.EscapedPath(), openID); ok {
		return origin + path
	}
	if path, ok := strings.CutPrefix(u.EscapedPath(), oauth); ok {
		return origin + path
	}
	return ""
}

// Absent reports whether a status says that there is no document. Servers, and the gateways in front of them, answer unknown paths
// with 400, 401, 403, 405 and 410 too.
func Absent(status int) bool { return status >= http.StatusBadRequest && !Again(status) }

// Again reports whether a status asks for another try.
func Again(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// Mismatch returns "" if the member issuer of a document is the issuer that was asked for (RFC 8414 section 3.3), and otherwise
// what is wrong with it. The text quotes nothing of the document.
func Mismatch(member any, issuer string) string {
	value, isText := member.(string)
	switch {
	case !isText:
		return "has no issuer"
	case value == issuer:
		return ""
	case value == issuer+"/":
		return "has this issuer with a slash at its end: write the issuer with it"
	case value+"/" == issuer:
		return "has this issuer without the slash at its end: write the issuer without it"
	case strings.ContainsAny(value, "{}"):
		return "has a placeholder in its issuer, because it is for several tenants: write the issuer of one"
	}
	return "is of another issuer: write the value of its member issuer"
}
