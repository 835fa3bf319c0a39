package hostfn

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/urlcheck"
)

// And returns the mutation of authentications one after the other: m, which may be nil, and then next. It is an error if both set the
// same, of which a server would take either one. Where a name is a secret, all of its kind counts as the same: otherwise a plugin could
// use the error to check a guess of the name.
func (m *Mutation) And(next *Mutation) (*Mutation, error) {
	if m == nil {
		return next, nil
	}
	all := &Mutation{
		Headers: slices.Concat(m.Headers, next.Headers), Cookies: slices.Concat(m.Cookies, next.Cookies), Path: slices.Concat(m.Path, next.Path),
		Query: joinMembers(m.Query, next.Query), Form: joinMembers(m.Form, next.Form),
		SealedName: m.SealedName || next.SealedName, sealedParameter: m.sealedParameter || next.sealedParameter,
		parameters: slices.Concat(m.parameters, next.parameters), credentials: slices.Concat(m.credentials, next.credentials),
		openedTexts: slices.Concat(m.openedTexts, next.openedTexts), URL: cmp.Or(m.URL, next.URL), MaskedURL: m.MaskedURL + next.MaskedURL,
	}
	var part string
	switch {
	case all.SealedName && len(m.Headers) > 0 && len(next.Headers) > 0, m.setsOneOf(next.Headers), next.setsOneOf(m.Headers):
		part = "header"
	case slices.ContainsFunc(next.Cookies, func(p abi.Pair) bool {
		return slices.ContainsFunc(m.Cookies, func(earlier abi.Pair) bool { return earlier.Name == p.Name })
	}):
		part = "cookie"
	case all.sealedParameter && len(m.parameters) > 0 && len(next.parameters) > 0, shareMember(m.Query, next.Query), shareMember(m.Form, next.Form):
		part = "parameter"
	case m.setsURL() && next.setsURL():
		part = "url"
	case len(next.Path) > 0 && (len(m.Path) > 0 || m.setsURL()): // a placeholder may be found in the other's text, or be a guess of it
		part = "path"
	default:
		return all, nil
	}
	return nil, errors.New("the mutation sets a " + part + " that an earlier one of auth sets, or may set: leave it to one of them")
}

func (m *Mutation) setsURL() bool { return m.URL != nil || m.MaskedURL != "" }

func joinMembers(text, more string) string {
	if text != "" && more != "" {
		text += "&"
	}
	return text + more
}

// setsOneOf reports whether m sets one of headers, whatever the case of its name.
func (m *Mutation) setsOneOf(headers []abi.Pair) bool {
	return slices.ContainsFunc(headers, func(p abi.Pair) bool { return m.sets(p.Name) })
}

func (m *Mutation) sets(header string) bool {
	return m != nil && (len(m.Cookies) > 0 && strings.EqualFold(header, "Cookie") ||
		slices.ContainsFunc(m.Headers, func(p abi.Pair) bool { return strings.EqualFold(p.Name, header) }))
}

// shareMember reports whether two encoded lists of parameters have members that some server may take for one.
func shareMember(text, more string) bool {
	for member := range strings.SplitSeq(text, "&") {
		for one := range strings.SplitSeq(more, "&") {
			name, second := urlcheck.MemberName(member), urlcheck.MemberName(one)
			if member != "" && one != "" && (urlcheck.MayBeMember(name, second) || urlcheck.MayBeMember(second, name)) {
				return true
			}
		}
	}
	return false
}

// view returns the request as the guest sees it: what earlier authentications have put in is a reference as a whole, by its place. A
// search for the texts would miss short ones, or confirm guesses of them. So the guest can sign these texts, and do nothing else.
func (c *core) view() *http.Request {
	m, r := c.inputs.Earlier, c.inputs.Request
	switch {
	case m == nil:
		return r
	case c.viewed != nil:
		return c.viewed
	}
	view, target := *r, *r.URL
	view.URL, view.Header = &target, maps.Clone(r.Header)
	for name := range view.Header {
		switch {
		case !m.sets(name):
		case m.SealedName:
			delete(view.Header, name) // to show it would confirm a guess of the name
		default:
			view.Header[name] = []string{c.earlier(strings.Join(view.Header[name], ", "))}
		}
	}
	if len(m.Path) > 0 || m.URL != nil { // the host is listed, and signatures cover it
		target.Path, target.RawPath = "/"+c.earlier(strings.TrimPrefix(target.EscapedPath(), "/")), ""
	}
	if m.Query != "" {
		target.RawQuery = strings.TrimSuffix(target.RawQuery, m.Query) + c.viewMembers(m.Query, func(value string) string { return value })
	}
	c.viewed = &view
	return c.viewed
}

// earlierForm returns what earlier authentications append to the body, with the separator, or "". It is no part of the body of the inputs.
func (c *core) earlierForm() string {
	m := c.inputs.Earlier
	switch {
	case m == nil || m.Form == "":
		return ""
	case c.inputs.BodySize > 0:
		return "&" + m.Form
	}
	return m.Form
}

// viewForm returns what earlier authentications append to a form, as the guest sees it. The references are to decoded values.
func (c *core) viewForm() string {
	if c.earlierForm() == "" {
		return ""
	}
	return "&" + c.viewMembers(c.inputs.Earlier.Form, func(value string) string {
		decoded, _ := url.QueryUnescape(value) // the host has encoded it
		return decoded
	})
}

// viewMembers returns members that have been appended to a text, with references in place of their values. If a name may be sealed, each
// member is one reference: to show its name would confirm a guess of it.
func (c *core) viewMembers(appended string, decode func(value string) string) string {
	members := strings.Split(appended, "&")
	for i, member := range members {
		name, value, _ := strings.Cut(member, "=")
		if members[i] = name + "=" + c.earlier(decode(value)); c.inputs.Earlier.sealedParameter {
			members[i] = c.earlier(member)
		}
	}
	return strings.Join(members, "&")
}

// earlier returns a reference to a text that an earlier authentication has put into the request.
func (c *core) earlier(text string) string {
	v := seal.Value{Text: text, Sinks: seal.Digest, Derived: seal.Header | seal.Query | seal.Digest}
	if c.mode == Explaining { // the text is masked
		v.Mask = text
	}
	return c.seal(v)
}
