package embed

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

// published is the providers.json of the npm package oembed-providers, version 1.0.20260604, which contains the list
// that oembed.com publishes. To update it, run npm pack oembed-providers, copy providers.json and LICENSE from the
// archive (the latter to providers.LICENSE), and change the version here and in NOTICE.
//
//go:embed providers.json
var published []byte

type providers struct {
	// schemes holds the URL patterns by the last two labels of their hosts.
	schemes map[string][]scheme
	// domains holds the registrable domains of all hosts in the list.
	domains map[string]bool
}

type scheme struct {
	// host and path are patterns in which * stands for any text. The path includes query and fragment.
	host, path string
	endpoint   *endpoint
}

type endpoint struct {
	provider string
	url      *url.URL
}

type listed struct {
	Name      string `json:"provider_name"`
	URL       string `json:"provider_url"`
	Endpoints []struct {
		URL     string   `json:"url"`
		Schemes []string `json:"schemes"`
		Formats []string `json:"formats"`
	} `json:"endpoints"`
}

// parseProviders parses a list of providers. It skips endpoints without schemes (which require discovery) or without
// JSON, and schemes that are not URLs or match more than one registrable domain.
func parseProviders(document []byte) (*providers, error) {
	var list []listed
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, fmt.Errorf("embed: the list of providers is not in the format of oembed.com: %w", err)
	}
	p := &providers{schemes: map[string][]scheme{}, domains: map[string]bool{}}
	for _, provider := range list {
		for _, e := range provider.Endpoints {
			target := endpointURL(e.URL)
			if target == nil || len(e.Formats) > 0 && !slices.Contains(e.Formats, "json") {
				continue
			}
			for _, text := range e.Schemes {
				s, ok := parseScheme(text)
				if !ok {
					continue
				}
				s.endpoint = &endpoint{provider.Name, target}
				key := lastLabels(s.host)
				p.schemes[key] = append(p.schemes[key], s)
				p.know(strings.TrimPrefix(s.host[strings.LastIndexByte(s.host, '*')+1:], "."))
				p.know(target.Hostname())
				if home, err := url.Parse(provider.URL); err == nil {
					p.know(home.Hostname())
				}
			}
		}
	}
	return p, nil
}

func (p *providers) know(host string) {
	if domain := registrable(host); domain != "" {
		p.domains[domain] = true
	}
}

// endpointURL parses the URL of an endpoint, or returns nil. It replaces http by https and {format} by json.
func endpointURL(text string) *url.URL {
	u, err := url.Parse(strings.ReplaceAll(text, "{format}", "json"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	u.Scheme = "https"
	return u
}

var (
	schemeURL = regexp.MustCompile(`^https?://([A-Za-z0-9.*-]+)(/\S*)$`)
	hostName  = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`)
)

// parseScheme parses a pattern of URLs (oEmbed, section 2.1). The text after the last * of its host must be a dot
// followed by a registrable domain, or by one below which others register names, such as needle.run.
func parseScheme(text string) (scheme, bool) {
	parts := schemeURL.FindStringSubmatch(text)
	if parts == nil {
		return scheme{}, false
	}
	host := strings.ToLower(parts[1])
	fixed := host
	if i := strings.LastIndexByte(host, '*'); i >= 0 {
		var label bool
		if fixed, label = strings.CutPrefix(host[i+1:], "."); !label {
			return scheme{}, false
		}
		suffix, official := publicsuffix.PublicSuffix(fixed)
		if registrable(fixed) == "" && (official || suffix != fixed || !strings.Contains(suffix, ".")) {
			return scheme{}, false
		}
	}
	return scheme{host: host, path: parts[2]}, hostName.MatchString(fixed)
}

// match returns the endpoint for a URL, or nil. It takes http for https, since many entries date from before the provider had https.
func (p *providers) match(text string) *endpoint {
	host, path, ok := splitURL(text)
	if !ok {
		return nil
	}
	for _, s := range p.schemes[lastLabels(host)] {
		if glob(s.host, host) && glob(s.path, path) {
			return s.endpoint
		}
	}
	return nil
}

// splitURL returns the host, and the path with query and fragment, of an http or https URL. ok is false for URLs that a
// browser might read differently from what their writer meant.
func splitURL(text string) (host, path string, ok bool) {
	const maxURL = 2048 // bytes of a URL to embed
	if len(text) > maxURL || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\\\"<>`", r)
	}) {
		return "", "", false
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || !slices.Contains([]string{"http:", "http:80", "https:", "https:443"}, u.Scheme+":"+u.Port()) {
		return "", "", false
	}
	host = strings.ToLower(u.Hostname())
	_, rest, _ := strings.Cut(text, "://")
	path = "/" + strings.TrimPrefix(rest[strings.IndexAny(rest+"/", "/?#"):], "/")
	return host, path, hostName.MatchString(host)
}

// glob reports whether text matches the pattern, in which each * stands for any text.
func glob(pattern, text string) bool {
	piece, pattern, wild := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, piece)
	if !wild || !ok {
		return ok && text == ""
	}
	for {
		piece, pattern, wild = strings.Cut(pattern, "*")
		if !wild {
			return strings.HasSuffix(text, piece)
		}
		if _, text, ok = strings.Cut(text, piece); !ok {
			return false
		}
	}
}

// lastLabels returns the last two labels of a host. In a scheme these never contain a *.
func lastLabels(host string) string {
	if i := strings.LastIndexByte(host, '.'); i > 0 {
		return host[strings.LastIndexByte(host[:i], '.')+1:]
	}
	return host
}

// registrable returns the registrable domain of a host, its public suffix and a label more, or "" for an IP address or a name without one.
func registrable(host string) string {
	host = strings.ToLower(host)
	if _, err := netip.ParseAddr(host); err == nil || !hostName.MatchString(host) {
		return ""
	}
	domain, _ := publicsuffix.EffectiveTLDPlusOne(host) // "" with an error
	return domain
}

// knows reports whether u is an https URL on a domain of the list.
func (p *providers) knows(u *url.URL) bool {
	return u.Scheme == "https" && u.User == nil && u.Port() == "" && p.domains[registrable(u.Hostname())]
}

// checkRedirect implements http.Client.CheckRedirect. It allows some redirects, to known providers only.
func (p *providers) checkRedirect(next *http.Request, via []*http.Request) error {
	const maxRedirects = 3
	next.Header.Del("Referer") // the next server need not know the previous one
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("the provider redirects more than %d times", maxRedirects)
	case !p.knows(next.URL):
		return errors.New("the provider redirects to where no known provider is")
	}
	return nil
}

func (e *endpoint) requestURL(page string) *url.URL {
	const maxWidth = 800 // pixels; the maximum width of embeds that providers are asked for
	u := *e.url
	query := u.Query()
	query.Set("url", page)
	query.Set("format", "json")
	query.Set("maxwidth", strconv.Itoa(maxWidth))
	u.RawQuery = query.Encode()
	return &u
}
