package catalogue

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/internal/problem"
)

var (
	urlLine = regexp.MustCompile(`(?m)^url: (.*)$`)
	urls    = regexp.MustCompile(`https://[^\s"',}]+`)
)

// base returns the URL of a connector.
func base(connector string) string { return urlLine.FindStringSubmatch(connector)[1] }

// placeNames returns the names of the product's places, in order.
func (a *API) placeNames() []string { return slices.Sorted(maps.Keys(a.Places)) }

// names returns what is shared without being an endpoint: scopes and audiences, which are the same at a server of the user's own, too.
func (a *API) names() []string {
	return slices.DeleteFunc(slices.Clone(a.Shared), func(text string) bool { return strings.Contains(a.Connector, "_url: "+text) })
}

// replaced returns the connector with other texts, but for those that stay.
func (a *API) replaced(texts map[string]string, stay []string) string {
	var pairs []string
	for _, text := range stay {
		pairs = append(pairs, text, text)
	}
	for _, text := range slices.Backward(slices.Sorted(maps.Keys(texts))) { // a text stands behind those that begin with it
		pairs = append(pairs, text, texts[text])
	}
	return strings.NewReplacer(pairs...).Replace(a.Connector)
}

// connectorAt returns the connector in a place of the product, or at a URL, and texts to replace there. If the URL is of the form that the
// product has in some place, all URLs are those of that place. Otherwise those below the connector's own move with it, and it is an
// error if one is left behind, since the secrets of one environment would go to another (threats.md 370).
func (a *API) connectorAt(place, target string) (connector string, set map[string]string, err error) {
	if _, ok := a.Places[place]; !ok && place != "" {
		return "", nil, fmt.Errorf("the catalogue has no place %s of %s: docs/apis.md names the places of each product", problem.Quote(place), a.Name)
	}
	if target == "" {
		return a.replaced(a.Places[place], a.Shared), nil, nil
	}
	target = strings.TrimRight(target, "/")
	for _, place := range append([]string{""}, a.placeNames()...) {
		placed := a.replaced(a.Places[place], a.Shared)
		if parts, ok := a.parts(base(placed), target); ok && (connector == "" || len(parts) < len(set)) { // the form that leaves least open
			connector, set = placed, parts
		}
	}
	if connector != "" {
		return connector, set, nil
	}
	from, to := base(a.Connector), target
	if u, err := url.Parse(from); err == nil && strings.HasSuffix(to, u.Path) {
		from, to = strings.TrimSuffix(from, u.Path), strings.TrimSuffix(to, u.Path)
	}
	connector = urlLine.ReplaceAllLiteralString(a.replaced(map[string]string{from: to}, a.names()), "url: "+strconv.Quote(target))
	if remaining := a.remainingURLs(connector); len(remaining) > 0 {
		return "", nil, fmt.Errorf("with --url %s, the connector of %s would still use %s: see docs/apis.md for --place, or make the file without --url and change each URL there",
			target, a.Name, strings.Join(remaining, " and "))
	}
	return connector, nil, nil
}

// parts returns what a URL has in place of the texts to fill in, if it is of a form.
func (a *API) parts(form, target string) (set map[string]string, ok bool) {
	pattern := regexp.QuoteMeta(form)
	var names []string
	for _, f := range a.Fill {
		if f.Replace == "" || !strings.Contains(form, f.Replace) {
			continue
		}
		group := `(?P<p%d>[^./]+)`
		if strings.Contains(f.Replace, ".") {
			group = `(?P<p%d>[^/]+)`
		}
		pattern = strings.Replace(pattern, regexp.QuoteMeta(f.Replace), fmt.Sprintf(group, len(names)), 1)
		names = append(names, f.Replace)
	}
	shape := regexp.MustCompile(`(?i)^` + pattern + `$`)
	match := shape.FindStringSubmatch(target)
	if match == nil {
		return nil, false
	}
	set = map[string]string{}
	for i, name := range names {
		if set[name] = match[shape.SubexpIndex(fmt.Sprint("p", i))]; a.settable(name, set[name]) != nil {
			return nil, false
		}
	}
	return set, true
}

// remainingURLs returns the URLs and hosts of the catalogue's place that a connector still has beside its URL. Those that users fill in are
// none, and neither are names.
func (a *API) remainingURLs(connector string) (remaining []string) {
	rest := urlLine.ReplaceAllString(connector, "")
	for _, text := range a.names() {
		rest = strings.ReplaceAll(rest, text, "")
	}
	own := urls.FindAllString(a.Connector, -1)
	for _, place := range a.placeNames() {
		own = slices.AppendSeq(own, maps.Keys(a.Places[place]))
	}
	for _, text := range own {
		users := slices.ContainsFunc(a.Fill, func(f Fill) bool { return f.Replace != "" && strings.HasPrefix(text, f.Replace) })
		if !users && strings.Contains(rest, text) && !strings.Contains(strings.Join(remaining, " "), text) {
			remaining = append(remaining, text)
		}
	}
	return remaining
}
