package gateway

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlpath"
	"github.com/keywright/keywright/server/internal/trial"
)

// makeQuery returns the parts of the query of out, and the same masked. The first one is the query of the definition's URL.
func (c *Connector) makeQuery(ctx context.Context, first string, in trial.Incoming, out *outgoing) (query, masked []string, err error) {
	params, err := parseQuery(in.Query)
	if !in.Trusted {
		if err != nil {
			return nil, nil, refuse(http.StatusBadRequest, "the query is not well formed: write %%26 for an & and %%3B for a ; that is part of a value")
		}
		out.dropped = c.drops(params)
	}
	add := func(part, maskedPart string) {
		if part != "" {
			query, masked = append(query, part), append(masked, maskedPart)
		}
	}
	add(first, first)
	for _, p := range c.query {
		if in.Trusted && params[p.Name] != nil {
			if !p.Overridable {
				return nil, nil, refuse(http.StatusBadRequest, "the query parameter %s is the definition's", host.Printable(p.Name))
			}
			continue // the caller's query, which is appended as a whole, has it
		}
		callers, err := p.callerValues("query parameter", params[p.Name])
		if err != nil {
			return nil, nil, err
		}
		name := url.QueryEscape(p.Name)
		for _, value := range callers {
			add(name+value, name+value)
		}
		if len(callers) == 0 {
			text, err := c.value(ctx, "query parameter", p)
			if err != nil {
				return nil, nil, err
			}
			if text.Value == "" {
				continue
			}
			out.addCredential(text)
			add(name+"="+urlpath.Percent(text.Value), name+"="+text.Masked)
		}
		delete(params, p.Name)
	}
	if in.Trusted {
		add(in.Query, in.Query)
	} else if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, out.Method) {
		// Without a parameter, such a request may be another operation: DELETE /key?tagging of S3 removes tags, DELETE /key the object.
		for _, name := range slices.Sorted(maps.Keys(params)) {
			return nil, nil, refuse(http.StatusBadRequest, "the query parameter %s is not passed on, and %s may do something else without it: it passes if query of the connector has it with overridable: true",
				host.Printable(name), out.Method)
		}
	}
	return query, masked, nil
}

// parseQuery returns the parameters of a query by their names. It returns what follows each name, encoded anew: "" if no equals sign
// does. Like [url.ParseQuery], it goes on after a parameter that is not well formed, and returns an error.
func parseQuery(query string) (params map[string][]string, err error) {
	params = map[string][]string{}
	for part := range strings.SplitSeq(query, "&") {
		one, wrong := url.ParseQuery(part)
		err = cmp.Or(err, wrong)
		for name, values := range one {
			value := ""
			if strings.Contains(part, "=") {
				value = "=" + urlpath.Percent(values[0])
			}
			params[name] = append(params[name], value)
		}
	}
	return params, err
}

// drops returns the names of params, sorted and printable, that are no overridable parameters of the definition.
func (c *Connector) drops(params map[string][]string) []string {
	var names []string
	for name := range params {
		if !slices.ContainsFunc(c.query, func(p parameter) bool { return p.Overridable && p.Name == name }) {
			names = append(names, host.Printable(name))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxDropped)]
}

// withQuery returns base with a query made of these parts. It returns base itself if it has that query already, and
// otherwise a copy.
func withQuery(base *url.URL, query []string) *url.URL {
	text := strings.Join(query, "&")
	if text == base.RawQuery {
		return base
	}
	u := *base
	u.RawQuery = text
	return &u
}
