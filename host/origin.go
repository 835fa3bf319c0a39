package host

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"github.com/keywright/keywright/internal/urlcheck"
)

// origin is an origin, RFC 6454 section 4.
type origin struct{ scheme, host, port string }

func (o origin) String() string { return o.scheme + "://" + o.host + ":" + o.port }

// parseOrigin parses an origin of a connector. A path or query is an error, because it looks like a limit on the
// requests and would not be one.
func (d *dialer) parseOrigin(text string) (origin, error) {
	rule := urlcheck.Rule{HTTP: d.egress.AllowsHTTP, PlainHTTP: "which sends everything in the open: use https, or name the host in PlainHTTP of the Egress"}
	u, err := rule.Parse(text)
	switch {
	case err != nil:
		return origin{}, err
	case u.RawQuery != "" || u.ForceQuery || (u.Path != "" && u.Path != "/"):
		return origin{}, errors.New("has more than scheme, host and port")
	}
	return originOf(u)
}

// originOf returns the origin of a URL, with its host in lower case and an explicit port.
func originOf(u *url.URL) (origin, error) {
	o := origin{scheme: strings.ToLower(u.Scheme), port: u.Port()}
	switch {
	case o.scheme == "https" && o.port == "":
		o.port = "443"
	case o.scheme == "http" && o.port == "":
		o.port = "80"
	case o.scheme != "https" && o.scheme != "http":
		return origin{}, fmt.Errorf("has the scheme %q, https is wanted", Printable(u.Scheme))
	}
	if err := urlcheck.CheckPort(o.port); err != nil {
		return origin{}, err
	}
	host := u.Hostname()
	if !ascii(host) { // like net/http, without converting to lower case first: for ẞ that would be another name
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return origin{}, errors.New("has a host name that does not exist")
		}
	}
	host = strings.ToLower(host)
	if host == "" {
		return origin{}, errors.New("has no host")
	}
	o.host = host
	return o, nil
}

// ascii reports whether s has only ASCII characters.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// schemeHost is the scheme and host of a URL as they are written in a request.
type schemeHost struct{ scheme, host string }
