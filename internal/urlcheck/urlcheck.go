// Package urlcheck checks the URLs in an operator's configuration.
package urlcheck

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// ErrPlainHTTP is wrapped by the error for a URL of plain http that is not allowed.
var ErrPlainHTTP = errors.New("is plain http")

// Rule sets which URLs are allowed, and the texts of errors. The zero value allows any https URL.
type Rule struct {
	// AllowHTTP allows plain http, too.
	AllowHTTP bool
	// HTTP reports whether a URL of plain http is allowed, if AllowHTTP is not set. Nil means that none is.
	HTTP func(*url.URL) bool
	// PlainHTTP is the end of the error for plain http: "which sends everything in the open: use https".
	PlainHTTP string
	// Credentials says where a credential belongs instead of the URL: "put the credential into auth". If it is "", the error
	// for user info does not say so.
	Credentials string
	// Example is an example URL for the errors about texts that are not URLs: "https://api.example.com/v1". If it is "", they
	// have no example.
	Example string
}

// Parse parses a URL. It requires https (or http, if AllowHTTP is set) and a host, and refuses user info, fragments and
// invalid ports. The error is meant to follow the URL's name, and quotes nothing of the URL.
func (r Rule) Parse(text string) (*url.URL, error) {
	example, credentials := r.Example, r.Credentials
	if example != "" {
		example = " such as " + example
	}
	if credentials != "" {
		credentials = ": " + credentials
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "":
		return nil, errors.New("is not a URL" + example)
	case u.Scheme == "http" && !r.AllowHTTP && (r.HTTP == nil || !r.HTTP(u)):
		return nil, fmt.Errorf("%w, %s", ErrPlainHTTP, r.PlainHTTP)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("is not an https URL" + example)
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("has user info, which would end up in logs" + credentials)
	case strings.Contains(text, "#"):
		return nil, errors.New("has a fragment, which is never sent: remove it")
	}
	if err := CheckPort(u.Port()); err != nil {
		return nil, err
	}
	return u, nil
}

// ParseHost parses the name or address of a host, with or without a port. It returns the URL https://text. It refuses spellings
// that the URLs of that host do not have, because such a text would name no host.
func ParseHost(text string) (*url.URL, error) {
	u, err := Rule{}.Parse("https://" + text)
	if err != nil || u.Host != text || strings.ContainsAny(text, "* ") {
		return nil, errors.New("is not the name of a host, such as login.example.com or localhost:8443")
	}
	switch name, port := u.Hostname(), u.Port(); {
	case strings.TrimRight(name, ".\u3002\uff0e\uff61") != name: // all of them are dots in names (UTS #46)
		return nil, errors.New("ends in a dot: write the name without it")
	case strings.HasSuffix(text, ":"), strings.HasPrefix(port, "0"):
		return nil, errors.New("has a port that is not written as a number from 1 to 65535: write it as in localhost:8443, or leave it out with the colon")
	default:
		if address, err := netip.ParseAddr(name); err == nil && !strings.EqualFold(address.String(), name) {
			return nil, errors.New("is an address in an unusual form: write " + address.String())
		}
	}
	return u, nil
}

// Names reports whether text, which [ParseHost] accepts, names the host of a URL. Without a port it names the host with any port.
func Names(text string, u *url.URL) bool {
	host, port := url.URL{Host: text}, u.Port()
	port = cmp.Or(port, map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return strings.EqualFold(host.Hostname(), u.Hostname()) && (host.Port() == "" || host.Port() == port)
}

// Loopback reports whether a host, with or without a port, is localhost or a loopback address.
func Loopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// Range parses a range of addresses, or a single one.
func Range(text string) (netip.Prefix, error) {
	if single, err := netip.ParseAddr(text); err == nil && single.Zone() == "" {
		return netip.PrefixFrom(single, single.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// Network returns the address of a peer, or its network of 64 bits for IPv6, which one machine may have all of.
func Network(remote string) netip.Prefix {
	const network = 64
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // such as the peer of a Unix socket
	}
	address := peer.Addr().Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = network
	}
	prefix, _ := address.Prefix(bits) // the number of bits is one that it has
	return prefix
}

// CheckPort returns an error unless port is "" or a number from 1 to 65535.
func CheckPort(port string) error {
	if number, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || number == 0) {
		return errors.New("has a port that is not 1 to 65535")
	}
	return nil
}

var fixedHost = regexp.MustCompile(`^[A-Za-z]+://[^/?#{}\\]+[/?]`)

// FixedHost reports whether the scheme and the host of a URL with templates are complete before the first template.
func FixedHost(text string) bool { return fixedHost.MatchString(text) }

var (
	tenant = `\{\{\s*(?:tenant_id|get_variable\(\s*(?:'[\w.-]+'|"[\w.-]+")\s*,\s*(?:'tenant'|"tenant")\s*\))\s*\}\}`
	label  = `(?:` + tenant + `|[^./?#@:{}\\]+)`

	tenantExpression = regexp.MustCompile(tenant)
	tenantHost       = regexp.MustCompile(`^[A-Za-z]+://` + label + `(?:\.` + label + `)+(?::[0-9]+)?(?:[/?]|$)`)
	hostLabel        = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
)

// HostPattern returns a URL with a star in place of each expression in its host, and reports whether there is one. Such an expression is a
// whole label, and the tenant's: tenant_id, or get_variable('NAME', 'tenant').
func HostPattern(text string) (pattern string, ok bool) {
	host := tenantHost.FindString(text)
	if !strings.Contains(host, "{{") {
		return text, false
	}
	return tenantExpression.ReplaceAllLiteralString(host, "*") + text[len(host):], true
}

// ErrLabel is the error for a value that is a part of a host, and no [Label].
var ErrLabel = errors.New("a value that is part of a host is no label of one: 1 to 63 of a to z, 0 to 9 and hyphens, with a hyphen at neither end")

// Label reports whether a text is a label of a host in lower case (RFC 1123 section 2.1), and none of another alphabet, which begins with
// xn-- (RFC 5890 section 2.3.2.1).
func Label(text string) bool { return hostLabel.MatchString(text) && !strings.HasPrefix(text, "xn--") }

// MemberName returns the decoded name of a member of a form or query, as an API may read it: until a NUL, as C does, as PHP makes a
// variable of it (manual, "Variables From External Sources"; main/php_variables.c for a [ without a ]), and as ASP reads %uXXXX, a % that
// encodes nothing, and fullwidth letters.
func MemberName(member string) string {
	name, _, _ := strings.Cut(member, "=")
	if decoded, err := url.QueryUnescape(name); err == nil {
		name = decoded
	} else {
		name = unescaped.ReplaceAllStringFunc(name, unescape)
	}
	name, _, _ = strings.Cut(name, "\x00")
	name = variable.Replace(strings.TrimSpace(strings.Map(halfwidth, name)))
	if prefix, suffix, open := strings.Cut(name, "["); open && !strings.Contains(suffix, "]") {
		return prefix + "_" + suffix
	}
	return name
}

var (
	unescaped = regexp.MustCompile(`%(u[0-9A-Fa-f]{4}|[0-9A-Fa-f]{2})?|\+`)
	variable  = strings.NewReplacer(" ", "_", ".", "_")
)

// unescape returns the character that a match of unescaped stands for, or "".
func unescape(text string) string {
	if text == "+" {
		return " "
	}
	code, err := strconv.ParseUint(strings.TrimPrefix(text[1:], "u"), 16, 32)
	switch {
	case err != nil:
		return ""
	case text[1] == 'u':
		return string(rune(code))
	}
	return string([]byte{byte(code)})
}

// halfwidth returns the ASCII character of a fullwidth one (Unicode, block Halfwidth and Fullwidth Forms), and others as they are.
func halfwidth(r rune) rune {
	if '\uff01' <= r && r <= '\uff5e' {
		return r - '\uff01' + '!'
	}
	return r
}

// MayBeMember reports whether an API may take a member for another one: in any case of letters, or for a list of that name. Both names
// are those of MemberName.
func MayBeMember(name, second string) bool {
	return strings.EqualFold(name, second) || len(name) > len(second) && strings.EqualFold(name[:len(second)], second) && name[len(second)] == '['
}
