package compose

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
	"golang.org/x/net/http/httpguts"
)

// request is the outgoing request for compose. Its texts have references in place of secrets.
type request struct {
	sealed Sealer
	method string
	header http.Header
	// fields are the headers that plugins see. They are nil until a placeholder of headers is used.
	fields []field
	// scheme is in lower case. host is the one that the API sees in Host.
	scheme, host string
	// path and query are as they are sent. hasQuery is set for a target with a ?.
	path, query string
	hasQuery    bool
	// length is that of the body in decimal. It is empty if it is not known.
	length string
}

// read returns the request, and records that the guest reads it.
func (t *composition) read() *request {
	r := t.call.Request()
	q := &t.request
	if q.method != "" {
		return q
	}
	q.scheme = strings.ToLower(r.URL.Scheme)
	a := addressOf(r)
	longest := Longest(a.text, r.Header)
	q.sealed, q.header = t.call.Sealer(longest), r.Header
	q.method = q.sealed.Text(cmp.Or(r.Method, http.MethodGet))
	q.host = q.sealed.Part(a.text, a.host, a.path)
	q.path = cmp.Or(q.sealed.Part(a.text, a.path, a.query), "/")
	if q.hasQuery = a.fragment > a.query; q.hasQuery {
		q.query = q.sealed.Part(a.text, a.query+len("?"), a.fragment)
	}
	q.length = t.call.ContentLength()
	t.count(longest)
	return q
}

// Host returns the host of a request as net/http sends it: that of Host, if there is one, with names in other scripts in
// Punycode. The API checks a signature with it.
func Host(r *http.Request) string {
	host := cmp.Or(r.Host, r.URL.Host)
	if ascii, err := httpguts.PunycodeHostPort(host); err == nil {
		return ascii
	}
	return host
}

// Longest returns the length of the longest text of a request, of which address is the URL.
func Longest(address string, header http.Header) int {
	longest := len(address)
	for name, values := range header {
		longest = max(longest, len(name))
		for _, value := range values {
			longest = max(longest, len(value))
		}
	}
	return longest
}

// address is the URL of a request, with the host that the API sees. Its numbers are the indexes at which its parts begin.
type address struct {
	text                        string
	host, path, query, fragment int
}

func addressOf(r *http.Request) (a address) {
	host, mark, hash, fragment := Host(r), "", "", r.URL.EscapedFragment()
	path, query, hasQuery := strings.Cut(r.URL.RequestURI(), "?")
	if r.URL.Path == "" {
		path = ""
	}
	if hasQuery {
		mark = "?"
	}
	if fragment != "" {
		hash = "#"
	}
	a.text = r.URL.Scheme + "://" + host + path + mark + query + hash + fragment
	a.host = len(r.URL.Scheme) + len("://")
	a.path = a.host + len(host)
	a.query = a.path + len(path)
	a.fragment = a.query + len(mark) + len(query)
	return a
}

// field is a header of the request. A secret in its name or its values is a reference.
type field struct {
	name   string
	values []string
	// sealed is set once that is true of the values.
	sealed bool
}

// headers returns the headers that plugins see, sorted by name, without those that the HTTP client writes itself.
func (q *request) headers() []field {
	if q.fields != nil {
		return q.fields
	}
	q.fields = make([]field, 0, len(q.header))
	for key, values := range q.header {
		if !contract.Unseen(key) && !strings.EqualFold(key, "Host") && !strings.EqualFold(key, "Content-Length") {
			q.fields = append(q.fields, field{name: q.sealed.Text(key), values: values})
		}
	}
	slices.SortFunc(q.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return q.fields
}

func (f *field) read(s Sealer) []string {
	if f.sealed {
		return f.values
	}
	f.sealed = true
	for i, value := range f.values {
		if text := s.Text(value); text != value {
			f.values = slices.Clone(f.values) // those of the request stay
			f.values[i] = text
		}
	}
	return f.values
}

// authority returns the host and the port in lower case, without the default port of the scheme (RFC 9110 section 4.2.3).
func (q *request) authority() string {
	port := ":443"
	if q.scheme == "http" {
		port = ":80"
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(q.host), port), ":")
}

// hostname returns the authority without its port.
func (q *request) hostname() string {
	authority := q.authority()
	return authority[:portAt(authority)]
}

// port returns the port, also if it is the default of the scheme.
func (q *request) port() string {
	authority := q.authority()
	if i := portAt(authority); i < len(authority) {
		return authority[i+1:]
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

// length returns the length of the body in decimal. It is empty if it is not known, as with a form that the composition adds.
func (t *composition) length() string {
	if len(t.Form) > 0 {
		return ""
	}
	return t.read().length
}

// query returns the query with what the composition adds, as the host will append it, and whether there is one.
func (t *composition) query() (query string, ok bool) {
	r := t.read()
	if len(t.Query) == 0 {
		return r.query, r.hasQuery
	}
	if t.longer == "" {
		t.longer = string(t.appendPairs([]byte(r.query), t.Query, contract.FormatPercent, r.query != ""))
	}
	return t.longer, true
}

// appendTarget appends the path and the query, as in the request line (RFC 9112 section 3.2.1).
func (t *composition) appendTarget(b []byte) []byte {
	b = append(b, t.request.path...)
	if query, ok := t.query(); ok {
		b = append(append(b, '?'), query...)
	}
	return b
}

// below returns the path without a path in front of it, and without a slash at its end. It is at least a slash.
func (t *composition) below(base string) string {
	path := t.read().path
	if rest, ok := strings.CutPrefix(path, strings.TrimRight(base, "/")); ok && (rest == "" || rest[0] == '/') {
		path = rest
	}
	return cmp.Or(strings.TrimRight(path, "/"), "/")
}

// header returns the values of a header as it will be sent, without space around them, joined by a comma and a space (RFC 9110
// section 5.3).
func (t *composition) header(name string) (value string, found bool) {
	r := t.read()
	switch {
	case strings.EqualFold(name, "Host"):
		return r.host, true
	case strings.EqualFold(name, "Content-Length"):
		value = nonzero(t.length())
		return value, value != ""
	}
	fields := r.headers()
	if contract.Unseen(name) {
		fields = []field{{name: name, values: r.header.Values(name)}}
	}
	t.count(len(t.Headers) + len(fields))
	var values []string
	for _, p := range t.Headers {
		if strings.EqualFold(p.Name, name) {
			values = append(values, strings.Trim(p.Value, " \t"))
		}
	}
	if values != nil {
		return strings.Join(values, ", "), true
	}
	for i := range fields {
		if strings.EqualFold(fields[i].name, name) {
			for _, text := range fields[i].read(r.sealed) {
				values = append(values, strings.Trim(text, " \t"))
			}
		}
	}
	return strings.Join(values, ", "), values != nil
}

// list returns the headers as they will be sent that a list of names selects, sorted by name. The names are in lower case. The
// values have no space around them and single spaces in them; those of one name are joined by a comma.
func (t *composition) list(selection string) []abi.Pair {
	r, form := t.read(), len(t.Form) > 0
	if t.selected != nil && t.selection == selection && t.form == form && slices.Equal(t.changes, t.Headers) {
		return t.selected
	}
	fields := r.headers()
	t.countList(fields, selection)
	all := make([]abi.Pair, 0, len(fields)+len(t.Headers)+2)
	add := func(name, value string) {
		if name = strings.ToLower(name); selects(selection, name) {
			all = append(all, abi.Pair{Name: name, Value: CollapseSpace(value)})
		}
	}
	add("host", r.host)
	if length, ok := t.header("content-length"); ok {
		add("content-length", length)
	}
	for i := range fields {
		f := &fields[i]
		if !slices.ContainsFunc(t.Headers, func(p abi.Pair) bool { return strings.EqualFold(p.Name, f.name) }) {
			for _, value := range f.read(r.sealed) {
				add(f.name, value)
			}
		}
	}
	for _, p := range t.Headers {
		add(p.Name, p.Value)
	}
	slices.SortStableFunc(all, func(a, b abi.Pair) int { return strings.Compare(a.Name, b.Name) })
	t.selection, t.changes, t.form, t.selected = selection, t.Headers, form, mergePairs(all)
	return t.selected
}

// countList counts what it takes to select headers by a list of names, before anything is done for it.
func (t *composition) countList(fields []field, selection string) {
	t.count(len(selection) + len(fields)*len(t.Headers))
	for _, f := range fields {
		for _, value := range f.values {
			t.count(len(f.name) + len(value) + len(selection))
		}
	}
	for _, p := range t.Headers {
		t.count(len(p.Name) + len(p.Value) + len(selection))
	}
}

// mergePairs returns sorted pairs with one for each name.
func mergePairs(pairs []abi.Pair) []abi.Pair {
	out := pairs[:0]
	for len(pairs) > 0 {
		first, n := pairs[0], 1
		for n < len(pairs) && pairs[n].Name == first.Name {
			n++
		}
		if n > 1 {
			values := make([]string, n)
			for i, p := range pairs[:n] {
				values[i] = p.Value
			}
			first.Value = strings.Join(values, ",")
		}
		out, pairs = append(out, first), pairs[n:]
	}
	return out
}

// selects reports whether a list of names selects a header. An item that ends in * is the begin of names. What an item with ! leaves out is
// so whatever its place in the list.
func selects(list, name string) (is bool) {
	for rest, more := list, name != ""; more; {
		var item string
		item, rest, more = strings.Cut(rest, ";")
		item, out := strings.CutPrefix(item, "!")
		if item == "" || item[0]|0x20 != name[0]|0x20 && item[0] != '*' { // most of them
			continue
		}
		begin, isPrefix := strings.CutSuffix(item, "*")
		if strings.EqualFold(item, name) || isPrefix && len(begin) <= len(name) && strings.EqualFold(begin, name[:len(begin)]) {
			if out {
				return false
			}
			is = true
		}
	}
	return is
}

// CollapseSpace returns the value of a header without space around it, and with single spaces in it.
func CollapseSpace(value string) string {
	if value = strings.Trim(value, " \t"); !strings.Contains(value, "  ") && strings.IndexByte(value, '\t') < 0 {
		return value
	}
	return strings.Join(strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// parameterNames returns the names of the parameters of the query that a list selects, in their order.
func (t *composition) parameterNames(selection string) (text string, found bool) {
	var names []string
	query, _ := t.query()
	t.count(len(query) + len(selection))
	for rest := query; rest != ""; {
		var p string
		p, rest, _ = strings.Cut(rest, "&")
		key, _, _ := strings.Cut(p, "=")
		t.count(len(selection) + len(p))
		if key = formDecode(key); selects(selection, key) {
			names = append(names, queryParam(key))
		}
	}
	return strings.Join(names, ";"), names != nil
}

// parameter returns the value of a parameter of the query as RFC 9421 section 2.2.8 writes it. It ends the call if the query has
// several of the name.
func (t *composition) parameter(name string) (value string, found bool) {
	query, _ := t.query()
	t.count(2 * len(query))
	name = formDecode(name)
	for p := range strings.SplitSeq(query, "&") {
		key, text, _ := strings.Cut(p, "=")
		if p == "" || formDecode(key) != name {
			continue
		}
		if found {
			t.call.Endf("the request's query has %s more than once, so that it cannot be signed alone", printable.Text(name, 128))
		}
		value, found = queryParam(formDecode(text)), true
	}
	return value, found
}
