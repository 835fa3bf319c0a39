package catalogue

import (
	"cmp"
	"fmt"
	"maps"
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

// line returns an item of Fill in a line.
func (f *Fill) line() string {
	if f.Secret != "" {
		return fmt.Sprintf("Secret %s: %s, such as %s (%s)", f.Secret, f.What, f.Example, f.Place())
	}
	return fmt.Sprintf("Replace %s by %s, such as %s (%s)", f.Replace, f.What, f.Example, f.Place())
}
