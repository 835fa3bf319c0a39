package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/internal/problem"
)

// Options changes the connector of a product for one file.
type Options struct {
	// Name is the name of the connector, and Permalink what it makes as a permalink. The secrets have the permalink in their names then,
	// in place of the product's name, so that two accounts of one product have secrets of their own. If Name is empty, the
	// connector is called as in the catalogue.
	Name, Permalink string
	// Place is a place of the product, if it is not empty.
	Place string
	// URL is that of the connector, if it is not empty. Everything else that depends on it changes with it, or With returns an error.
	URL string
	// Set has the values that replace texts of the connector, by the text.
	Set map[string]string
}

var nameLine = regexp.MustCompile(`(?m)^name: .*$`)

// With returns the product with the connector that the options ask for. Its Fill has no text that the options replace.
func (a *API) With(o Options) (*API, error) {
	changed := *a
	changed.Fill = nil
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		if err := a.settable(name, o.Set[name]); err != nil {
			return nil, err
		}
	}
	connector, set, err := a.connectorAt(o.Place, o.URL)
	if err != nil {
		return nil, err
	}
	changed.Connector = connector
	for _, f := range a.Fill {
		if f.Replace != "" && !strings.Contains(changed.Connector, f.Replace) {
			continue // the place, or the URL, does without
		}
		if value := cmp.Or(set[f.Replace], o.Set[f.Replace]); value != "" && f.Replace != "" {
			changed.Connector = strings.ReplaceAll(changed.Connector, f.Replace, value)
			continue
		}
		if f.Secret != "" && o.Permalink != "" {
			f.Secret = o.Permalink + strings.TrimPrefix(f.Secret, a.Name)
		}
		changed.Fill = append(changed.Fill, f)
	}
	if o.Name != "" {
		changed.Name = o.Permalink
		changed.Connector = nameLine.ReplaceAllLiteralString(changed.Connector, "name: "+strconv.Quote(o.Name))
		changed.Connector = secretName.ReplaceAllStringFunc(changed.Connector, func(call string) string {
			return "get_secret('" + o.Permalink + strings.TrimPrefix(call, "get_secret('"+a.Name)
		})
	}
	return &changed, nil
}

// settable returns an error unless the connector has a text to replace, and a value may stand in its place.
func (a *API) settable(name, value string) error {
	var names []string
	for _, f := range a.Fill {
		if f.Replace != "" {
			names = append(names, f.Replace)
		}
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("the connector of %s has nothing to set", a.Name)
	case !slices.Contains(names, name):
		return fmt.Errorf("the connector of %s has no %s%s", a.Name, problem.Quote(name), problem.DidYouMean(name, names))
	case value == "" || strings.ContainsAny(value, "\"'\\{}#\n\r\t"):
		return fmt.Errorf("the value of %s is empty, or has a quote, a backslash, a brace, # or a line break: put it into the file by hand", name)
	}
	return nil
}

// Item returns the connector as an item of the list connectors, without indentation, behind comments that say what to fill in.
func (a *API) Item() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n", a.Title, a.Docs)
	for _, f := range a.Fill {
		fmt.Fprintf(&b, "# %s\n", f.line())
	}
	a.entry(&b)
	return b.String()
}

// entry writes the connector as an item of the list connectors, with the path of Try for callers of the gateway.
func (a *API) entry(b *strings.Builder) {
	sign := "- "
	for line := range strings.Lines(a.Connector) {
		b.WriteString(sign + line)
		sign = "  "
		if _, path := a.Request(); strings.HasPrefix(line, "url:") && !strings.ContainsAny(path, "{?") && !strings.Contains(a.Connector, "\npaths:") {
			b.WriteString(sign + "paths: [" + path + "] # what callers of the gateway may use: add the paths that they need\n")
		}
	}
}

// Place returns Where, with the name of the secret for {secret}.
func (f *Fill) Place() string { return strings.ReplaceAll(f.Where, "{secret}", f.Secret) }

// MadeFile returns the name of the file that a command in Where makes for the secret, or "" if there is no such command.
func (f *Fill) MadeFile() string {
	if strings.Contains(f.Where, "{secret}") {
		return f.Secret
	}
	return ""
}

func (f *Fill) line() string {
	if f.Secret != "" {
		return fmt.Sprintf("Secret %s: %s, such as %s (%s)", f.Secret, f.What, f.Example, f.Place())
	}
	return fmt.Sprintf("Replace %s by %s, such as %s (%s)", f.Replace, f.What, f.Example, f.Place())
}

var (
	urlLine = regexp.MustCompile(`(?m)^url: (.*)$`)
	urls    = regexp.MustCompile(`https://[^\s"',}]+`)
)

func base(connector string) string { return urlLine.FindStringSubmatch(connector)[1] }

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

// remainingURLs returns the URLs and hosts of the catalogue's place that a connector has beside its URL and names.
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
