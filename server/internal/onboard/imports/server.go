package imports

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// noURL is the missing part of a document that does not say where the API is.
const noURL = "the URL: the document does not say where the API is: use --url"

// A server holds the place of the API of a document.
type server struct {
	// url is the base URL, or "" if the document does not say it.
	url       string
	variables map[string]string
}

// server returns the first server with https that is complete, or else one with http, as https. The result gets its notes.
func (d *document) server(userURL string, result *Result) server {
	all := d.servers()
	if userURL != "" {
		// The variables, such as the region, count nevertheless.
		for _, s := range all {
			if s.fits(userURL) {
				s.url = userURL
				return s.server
			}
		}
		return server{url: userURL}
	}
	for _, scheme := range []string{"https", "http"} {
		for _, s := range all {
			u, err := url.Parse(s.url)
			if err != nil || u.Host == "" || u.Scheme != scheme || u.User != nil || !isHost(u, false) || shows(uuids.ReplaceAllString(u.Path, "")) {
				continue
			}
			if scheme == "http" {
				u.Scheme = "https"
				if u.Port() == "80" {
					u.Host = u.Hostname()
				}
				result.note("the document has plain http only; the connector has https, since http sends the credential in the open")
			}
			for _, name := range s.variableNames {
				result.note("the URL has %s for %s, as the document has it by default; --url changes that", s.variables[name], name)
			}
			u.RawQuery, u.Fragment = "", ""
			s.url = strings.TrimSuffix(u.String(), "/")
			return s.server
		}
	}
	return server{}
}

// A candidate is a server with the variables that it has.
type candidate struct {
	server
	template      string
	variableNames []string
}

// fits reports whether a URL may be one of this server, by its host.
func (c *candidate) fits(userURL string) bool {
	host := variableSyntax.ReplaceAllString(hostOf(c.template), "\x00")
	matched, err := regexp.MatchString("^"+strings.ReplaceAll(regexp.QuoteMeta(host), "\x00", `[^./]+`)+"$", hostOf(userURL))
	return err == nil && matched
}

func hostOf(text string) string {
	_, rest, _ := strings.Cut(text, "//")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

var variableSyntax = regexp.MustCompile(`\{([^{}/]{1,100})\}`)

// servers returns the servers whose variables all have values.
func (d *document) servers() (all []candidate) {
	if d.root.get("swagger") != nil {
		return d.serversOfSwagger()
	}
	const maxServers, longestURL = 1000, 2048
	items := d.root.get("servers").items()
	for _, item := range items[:min(len(items), maxServers)] {
		c := candidate{template: item.string("url"), server: server{variables: map[string]string{}}}
		if len(c.template) > longestURL {
			continue
		}
		complete := true
		c.url = variableSyntax.ReplaceAllStringFunc(c.template, func(found string) string {
			name := found[1 : len(found)-1]
			value := item.get("variables", name)
			text := value.string("default")
			if text == "" && len(value.get("enum").items()) > 0 {
				text = value.get("enum").items()[0].text
			}
			if !isHarmless(text) {
				text, complete = "", false
			}
			if text == "" && (value.get("default") == nil || strings.Contains(hostOf(c.template), found)) {
				complete = false
			}
			addNew(&c.variableNames, name)
			c.variables[name] = text
			return text
		})
		if strings.HasPrefix(c.url, "//") {
			c.url = "https:" + c.url
		}
		if complete {
			all = append(all, c)
		}
	}
	return all
}

func (d *document) serversOfSwagger() (all []candidate) {
	host := d.root.string("host")
	if host == "" || strings.ContainsAny(host, "/{} ") {
		return nil
	}
	rest := host + "/" + strings.TrimPrefix(d.root.string("basePath"), "/")
	schemes := d.root.get("schemes").items()
	if len(schemes) == 0 {
		schemes = []*node{{text: "https"}}
	}
	for _, scheme := range schemes {
		all = append(all, candidate{server: server{url: scheme.text + "://" + rest}})
	}
	return all
}

// resolve returns a URL, which may be relative to the API's. Unless the user has given it, it shows no credential.
func (s *server) resolve(text, userURL string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	if u.User != nil {
		return "", errors.New("has a user name, which could be mistaken for its host")
	}
	if text != userURL && u.Host != "" && !isHost(u, false) {
		return "", errors.New("has no name of a host")
	}
	if text != userURL && (u.Fragment != "" || strings.ContainsAny(u.Path, "=&") || shows(uuids.ReplaceAllString(u.Path, "")) || behindName.MatchString(u.RawQuery) || !isHarmless(uuids.ReplaceAllString(u.RawQuery, ""))) {
		return "", errors.New("may have a credential")
	}
	if !u.IsAbs() {
		base, err := url.Parse(s.url)
		if err != nil || s.url == "" {
			return "", fmt.Errorf("is relative, and the URL of the API is unknown")
		}
		// A relative reference of OpenAPI is one to the server, not to the directory above it.
		base.Path = strings.TrimSuffix(base.Path, "/") + "/"
		u = base.ResolveReference(u)
	}
	return u.String(), nil
}
