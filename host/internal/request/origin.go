package request

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"

	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Origin is an origin, RFC 6454 section 4: its scheme, its host in lower case, and an explicit port.
type Origin struct{ Scheme, Host, Port string }

// String returns the origin as a URL without a path.
func (o Origin) String() string { return o.Scheme + "://" + o.Host + ":" + o.Port }

// Origins is the set of origins to which a connector sends requests. It must not be copied.
type Origins struct {
	all map[Origin]bool
	// Listed, if not nil, reports whether the host of a URL is one that tenants may have.
	Listed func(*url.URL) bool
	// last is the scheme and host of the last URL that was found to be of one of the origins.
	last atomic.Pointer[schemeHost]
}

// Add parses an origin and adds it. allowsHTTP reports whether a URL may be of http. A path or query is an error, because it
// looks like a limit on the requests and would not be one.
func (o *Origins) Add(text string, allowsHTTP func(*url.URL) bool) error {
	rule := urlcheck.Rule{HTTP: allowsHTTP, PlainHTTP: "which sends everything in the open: use https, or name the host in PlainHTTP of the Egress"}
	u, err := rule.Parse(text)
	switch {
	case err != nil:
		return err
	case u.RawQuery != "" || u.ForceQuery || (u.Path != "" && u.Path != "/"):
		return errors.New("has more than scheme, host and port")
	}
	parsed, err := OriginOf(u)
	if err != nil {
		return err
	}
	if o.all == nil {
		o.all = map[Origin]bool{}
	}
	o.all[parsed] = true
	return nil
}

// OriginOf returns the origin of a URL.
func OriginOf(u *url.URL) (Origin, error) {
	o := Origin{Scheme: strings.ToLower(u.Scheme), Port: u.Port()}
	switch {
	case o.Scheme == "https" && o.Port == "":
		o.Port = "443"
	case o.Scheme == "http" && o.Port == "":
		o.Port = "80"
	case o.Scheme != "https" && o.Scheme != "http":
		return Origin{}, fmt.Errorf("has the scheme %q, https is wanted", printable.Text(u.Scheme, 1024))
	}
	if err := urlcheck.CheckPort(o.Port); err != nil {
		return Origin{}, err
	}
	host := u.Hostname()
	if !ascii(host) { // like net/http, without converting to lower case first: for ẞ that would be another name
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return Origin{}, errors.New("has a host name that does not exist")
		}
	}
	if o.Host = strings.ToLower(host); o.Host == "" {
		return Origin{}, errors.New("has no host")
	}
	return o, nil
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// schemeHost is the scheme and host of a URL as they are written in a request.
type schemeHost struct{ scheme, host string }

// Insecure reports whether one of the origins is of http.
func (o *Origins) Insecure() bool {
	for origin := range o.all {
		if origin.Scheme == "http" {
			return true
		}
	}
	return false
}

// Check returns an error if a request is not for one of the origins. It also checks redirects that a
// client follows, since these are requests of their own.
func (o *Origins) Check(r *http.Request) error {
	if r.URL == nil || r.URL.Opaque != "" { // Opaque may put another host into the request line
		return errors.New("the request has no URL with a host and a path")
	}
	if err := o.CheckURL(r); err != nil {
		return err
	}
	if strings.IndexByte(r.URL.RawQuery, '#') >= 0 { // it is sent as it is, and would make the appended query a fragment
		return errors.New("the request's query holds a #: write it as %23")
	}
	if r.Host != "" && (r.Host != r.URL.Host || !ascii(r.Host)) { // otherwise CheckURL has checked it
		hostPort, err := httpguts.PunycodeHostPort(r.Host) // like net/http
		if err != nil {
			return errors.New("the request's Host is not the name of a host")
		}
		origin, err := OriginOf(&url.URL{Scheme: r.URL.Scheme, Host: hostPort})
		if err != nil || !o.all[origin] {
			return errors.New("the request's Host names another origin")
		}
	}
	return nil
}

// CheckURL checks the scheme and the host of a request's URL. It remembers the last pair of an origin as it was written, so
// that the next request with the same one is checked faster.
func (o *Origins) CheckURL(r *http.Request) error {
	u := r.URL
	if last := o.last.Load(); last != nil && last.scheme == u.Scheme && last.host == u.Host {
		return nil
	}
	origin, err := OriginOf(u)
	if err != nil {
		return fmt.Errorf("the request's URL %w", err)
	}
	star := strings.Contains(origin.Host, "*") // it stands for a label of a tenant, and is none: DNS may have it
	switch {
	case o.all[origin] && !star:
		o.last.Store(&schemeHost{u.Scheme, u.Host})
	case star || o.Listed == nil || !o.Listed(u):
		return fmt.Errorf("%s is not an origin of this connector, so it gets no credential", printable.Text(origin.String(), 1024))
	case !sameOrigin(r, origin):
		return errors.New("a redirect leads to the host of another tenant, so it gets no credential")
	}
	return nil
}

// sameOrigin reports whether a request follows no redirect, or one of the same origin.
func sameOrigin(r *http.Request, origin Origin) bool {
	if r.Response == nil {
		return true
	}
	last := r.Response.Request
	if last == nil || last.URL == nil {
		return false
	}
	from, err := OriginOf(last.URL)
	return err == nil && from == origin
}
