// Package urlcheck checks URLs that operators write.
package urlcheck

import (
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Rule says what a URL is for. The zero value is for any URL of https.
type Rule struct {
	// AllowHTTP allows plain http, too.
	AllowHTTP bool
	// PlainHTTP is the end of the error for plain http: "which sends everything in the open: use https".
	PlainHTTP string
	// Credentials says where credentials go, since they do not go into the URL: "put the credential into auth".
	Credentials string
	// Example ends the errors for what is no such URL: "https://api.example.com/v1". "" is none.
	Example string
}

// Parse parses a URL. Its error says what is wrong, to follow the name of the URL, and quotes nothing of it.
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
	case u.Scheme == "http" && !r.AllowHTTP:
		return nil, errors.New("is plain http, " + r.PlainHTTP)
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

// CheckPort returns an error for what is neither a port nor "".
func CheckPort(port string) error {
	if number, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || number == 0) {
		return errors.New("has a port that is not 1 to 65535")
	}
	return nil
}

var fixedHost = regexp.MustCompile(`^[A-Za-z]+://[^/?#{}\\]+[/?]`)

// FixedHost reports whether the scheme and the host of a URL with templates are complete before the first template.
func FixedHost(text string) bool { return fixedHost.MatchString(text) }
