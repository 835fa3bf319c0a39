package hostfn

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/abi"
)

// composed is the outgoing request for compose. Its texts have references in place of secrets.
type composed struct {
	sealed sealer
	header http.Header
	method string
	// scheme is in lower case. host is the one that the API sees in Host.
	scheme, host string
	// path and query are as they are sent. hasQuery is set for a target with a ?.
	path, query string
	hasQuery    bool
	// length is that of the body in decimal. It is empty if it is not known.
	length string
}

// read returns the request, and records that the guest reads it.
func (t *composition) read() *composed {
	c := t.call
	c.needRequest(abi.UserCompose)
	q := &t.request
	if q.header != nil {
		return q
	}
	r := c.inputs.Request
	target := r.URL.RequestURI()
	longest := len(target) + len(r.Host)
	for name, values := range r.Header {
		longest = max(longest, len(name))
		for _, value := range values {
			longest = max(longest, len(value))
		}
	}
	q.sealed = sealer{c, c.requestForms(longest), nil}
	if q.header = r.Header; q.header == nil {
		q.header = http.Header{}
	}
	q.method = cmp.Or(r.Method, http.MethodGet)
	q.scheme = strings.ToLower(r.URL.Scheme)
	q.host = q.sealed.text(sentHost(r))
	path, query, hasQuery := strings.Cut(target, "?")
	q.path, q.query, q.hasQuery = q.sealed.text(path), q.sealed.text(query), hasQuery
	if n, known := c.contentLength(); known {
		q.length = strconv.FormatInt(n, 10)
	}
	t.count(longest)
	return q
}

// authority returns the host and the port in lower case, without the default port of the scheme (RFC 9110 section 4.2.3).
func (q *composed) authority() string {
	port := ":443"
	if q.scheme == "http" {
		port = ":80"
	}
	return strings.TrimSuffix(strings.ToLower(q.host), port)
}

// hostname returns the authority without its port.
func (q *composed) hostname() string {
	authority := q.authority()
	return authority[:portAt(authority)]
}

// port returns the port, also if it is the default of the scheme.
func (q *composed) port() string {
	authority := q.authority()
	if at := portAt(authority); at < len(authority) {
		return authority[at+1:]
	}
	if q.scheme == "http" {
		return "80"
	}
	return "443"
}

// portAt returns the index of the colon before the port of an authority, or the length of the authority.
func portAt(authority string) int {
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		return colon
	}
	return len(authority)
}

// query returns the query with what the composition adds, as the host will append it, and whether there is one.
func (t *composition) query() (query string, has bool) {
	r := t.read()
	query, has = r.query, r.hasQuery || len(t.Query) > 0
	for _, p := range t.Query {
		if query != "" {
			query += "&"
		}
		query += t.call.Encode(abi.FormatPercent, p.Name) + "=" + t.call.Encode(abi.FormatPercent, p.Value)
	}
	return query, has
}

// appendTarget appends the path and the query, as in the request line (RFC 9112 section 3.2.1).
func (t *composition) appendTarget(b []byte) []byte {
	b = append(b, t.request.path...)
	if query, has := t.query(); has {
		b = append(append(b, '?'), query...)
	}
	return b
}

// header returns the values of a header as it will be sent, without space around them, joined by a comma and a space (RFC 9110
// section 5.3).
func (t *composition) header(name string) (value string, found bool) {
	r := t.read()
	switch lower := strings.ToLower(name); {
	case lower == "host":
		return r.host, true
	case lower == "content-length" && r.length != "0":
		return r.length, r.length != ""
	case lower == "content-length":
		return "", false
	}
	add := func(text string) {
		if found {
			value += ", "
		}
		value, found = value+strings.Trim(text, " \t"), true
	}
	for _, p := range t.Headers {
		if strings.EqualFold(p.Name, name) {
			add(p.Value)
		}
	}
	if found {
		return value, true
	}
	for _, key := range keysOf(r.header, name) {
		for _, text := range r.header[key] {
			add(r.sealed.text(text))
		}
	}
	return value, found
}

// keysOf returns the keys of a header in any case of letters, sorted.
func keysOf(header http.Header, name string) (keys []string) {
	for key := range header {
		if strings.EqualFold(key, name) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// list returns the headers as they will be sent that a list of names selects, sorted by name. The names are in lower case. The
// values have no space around them and single spaces in them; those of one name are joined by a comma.
func (t *composition) list(selection string) []abi.Pair {
	if t.selected != nil && t.selection == selection {
		return t.selected
	}
	r := t.read()
	items := parseSelection(selection)
	all := make([]abi.Pair, 0, len(r.header)+len(t.Headers)+2)
	bytes := 0
	add := func(name, value string) {
		bytes += len(name) + len(value) + len(selection)
		if name = strings.ToLower(name); selects(items, name) {
			all = append(all, abi.Pair{Name: name, Value: folded(value)})
		}
	}
	add("host", r.host)
	if length, sent := t.header("content-length"); sent {
		add("content-length", length)
	}
	for _, key := range sortedKeys(r.header) {
		if t.replaces(key) {
			continue
		}
		for _, value := range r.header[key] {
			add(r.sealed.text(key), r.sealed.text(value))
		}
	}
	for _, p := range t.Headers {
		add(p.Name, p.Value)
	}
	t.count(bytes)
	slices.SortStableFunc(all, func(a, b abi.Pair) int { return strings.Compare(a.Name, b.Name) })
	t.selection, t.selected = selection, joined(all)
	return t.selected
}

// sortedKeys returns the keys of headers that plugins see, without those that the HTTP client writes itself.
func sortedKeys(header http.Header) []string {
	keys := make([]string, 0, len(header))
	for key := range header {
		if !abi.Unseen(key) && !strings.EqualFold(key, "Host") && !strings.EqualFold(key, "Content-Length") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// replaces reports whether the composition has a header of a name.
func (t *composition) replaces(name string) bool {
	return slices.ContainsFunc(t.Headers, func(p abi.Pair) bool { return strings.EqualFold(p.Name, name) })
}

// joined returns sorted pairs with one for each name.
func joined(pairs []abi.Pair) []abi.Pair {
	out := pairs[:0]
	for _, p := range pairs {
		if last := len(out) - 1; last >= 0 && out[last].Name == p.Name {
			out[last].Value += "," + p.Value
		} else {
			out = append(out, p)
		}
	}
	return out
}

// selected is an item of a list of headers: a name or, if prefix is set, the begin of names. If out is set, they are left out.
type selected struct {
	name        string
	prefix, out bool
}

// parseSelection returns the items of a list of headers.
func parseSelection(list string) []selected {
	items := make([]selected, 0, strings.Count(list, ";")+1)
	for item := range strings.SplitSeq(strings.ToLower(list), ";") {
		var s selected
		s.name, s.out = strings.CutPrefix(item, "!")
		s.name, s.prefix = strings.CutSuffix(s.name, "*")
		items = append(items, s)
	}
	return items
}

// selects reports whether a list selects a header. What is left out is so whatever its place in the list.
func selects(items []selected, name string) (is bool) {
	for i := range items {
		s := &items[i]
		if s.name == name || s.prefix && strings.HasPrefix(name, s.name) {
			if s.out {
				return false
			}
			is = true
		}
	}
	return is
}

// folded returns the value of a header without space around it, and with single spaces in it.
func folded(value string) string {
	if value = strings.Trim(value, " \t"); !strings.Contains(value, "  ") && strings.IndexByte(value, '\t') < 0 {
		return value
	}
	return strings.Join(strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// parameter returns the value of a parameter of the query as RFC 9421 section 2.2.8 writes it. It ends the call if the query has
// several of the name.
func (t *composition) parameter(name string) (value string, found bool) {
	query, _ := t.query()
	t.count(2 * len(query))
	name = queryParam(formDecode(name))
	for p := range strings.SplitSeq(query, "&") {
		key, text, _ := strings.Cut(p, "=")
		if p == "" || t.encoded(key) != name {
			continue
		}
		if found {
			t.call.endf(StagePlugin, "the request's query has %s more than once, so that it cannot be signed alone", Printable(name, 128))
		}
		value, found = t.encoded(text), true
	}
	return value, found
}

// encoded returns a name or a value of a query, decoded and encoded as in RFC 9421. It leaves references as they are.
func (t *composition) encoded(text string) string { return queryParam(formDecode(text)) }
