package host

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// origin is where requests go: RFC 6454 section 4.
type origin struct{ scheme, host, port string }

func (o origin) String() string { return o.scheme + "://" + o.host + ":" + o.port }

// parseOrigin reads an origin of a connector. A path, or anything else beyond the origin, is an error rather than
// ignored, since it looks as if it would bound the requests.
func parseOrigin(text string) (origin, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return origin{}, errors.New("is not a URL")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || (u.Path != "" && u.Path != "/"):
		return origin{}, errors.New("has more than scheme, host and port")
	}
	return originOf(u)
}

// originOf returns the origin of a URL, with its host in lower case and its port written out.
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
	if port, err := strconv.ParseUint(o.port, 10, 16); err != nil || port == 0 {
		return origin{}, errors.New("has a port that is not 1 to 65535")
	}
	host := u.Hostname()
	if !ascii(host) { // as net/http does it, and so without lowering it before: that of ẞ is another name
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

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// written is scheme and host as a request has them.
type written struct{ scheme, host string }

// checkTokenURL returns an error when a text may not be the value of a field of kind url.
func (h *Host) checkTokenURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "":
		return errors.New("is not a URL")
	case u.Scheme == "http" && !h.config.Egress.AllowHTTP:
		return errors.New("is plain http, which would send the credential in the open: use https")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("is not an https URL")
	case u.Host == "" || u.Hostname() == "":
		return errors.New("has no host")
	case u.User != nil:
		return errors.New("has user info, which would end up in logs: use the fields for credentials")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return errors.New("has a fragment, which is never sent")
	}
	return nil
}
