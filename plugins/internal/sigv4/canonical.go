package sigv4

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/sdk"
)

// unreserved are the characters beside letters and digits that signatures do not encode (RFC 3986 section 2.3).
const unreserved = "-._~"

// message is a request that is to be signed.
type message struct {
	method, path string
	// query has the parameters, percent-encoded.
	query []sdk.Pair
	// headers are those that are signed. Their names are in lower case.
	headers []sdk.Pair
	// payload stands for the body.
	payload string
}

// newMessage returns a message with those of the headers that can be signed, and Host. Its path is that of the URL.
func newMessage(r *sdk.Request) *message {
	_, _, target := r.Split()
	path, query, _ := strings.Cut(target, "?")
	m := &message{method: r.Method, path: path}
	for _, p := range sdk.ParseQuery(query) {
		m.query = append(m.query, sdk.Pair{Name: sdk.PercentEncode(p.Name, unreserved), Value: sdk.PercentEncode(p.Value, unreserved)})
	}
	for _, p := range r.Headers {
		if name := sdk.Lower(p.Name); !changes(name) {
			m.headers = append(m.headers, sdk.Pair{Name: name, Value: trim(p.Value)})
		}
	}
	m.set("host", r.Host())
	return m
}

// changes reports whether a proxy or an HTTP client may set a header, change it or leave it out.
func changes(name string) bool {
	switch name {
	case "accept-encoding", "connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
		"baggage", "forwarded", "traceparent", "tracestate", "via", "x-amzn-trace-id":
		return true
	}
	return strings.HasPrefix(name, "x-forwarded-") || strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "sec-")
}

// drop removes a header.
func (m *message) drop(name string) {
	m.headers = slices.DeleteFunc(m.headers, func(p sdk.Pair) bool { return p.Name == name })
}

// set replaces a header.
func (m *message) set(name, value string) {
	m.drop(name)
	m.headers = append(m.headers, sdk.Pair{Name: name, Value: value})
}

// canonical returns the names of the signed headers and the canonical request.
func (m *message) canonical() (signed, request string) {
	sort(m.headers, false)
	sort(m.query, true)
	query, lines := "", ""
	for _, p := range m.query {
		query += "&" + p.Name + "=" + p.Value
	}
	for i, p := range m.headers {
		if i > 0 && p.Name == m.headers[i-1].Name {
			lines += "," + p.Value
			continue
		}
		signed, lines = signed+";"+p.Name, lines+"\n"+p.Name+":"+p.Value
	}
	signed = signed[len(";"):] // there is Host
	return signed, m.method + "\n" + m.path + "\n" + strings.TrimPrefix(query, "&") + lines + "\n\n" + signed + "\n" + m.payload
}

// sort sorts pairs by name, and those of the same name by value if byValue is set. Otherwise these stay in their order.
//
//go:noinline
func sort(pairs []sdk.Pair, byValue bool) {
	for i := range pairs {
		for j := i; j > 0; j-- {
			a, b := pairs[j-1], pairs[j]
			if a.Name < b.Name || a.Name == b.Name && (!byValue || a.Value <= b.Value) {
				break
			}
			pairs[j-1], pairs[j] = b, a
		}
	}
}

// reserved reports whether a parameter of the query is one of a presigned request.
func reserved(name string) bool {
	switch name {
	case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature", tokenName:
		return true
	}
	return false
}

// canonicalPath returns a path as it is signed. If normalize is set, it has no dot segments and no empty segments. If double
// is set, the path is encoded once more, and otherwise anew.
//
//go:noinline
func canonicalPath(path string, normalize, double bool) string {
	segments := strings.Split(path[1:], "/")
	kept := segments[:0]
	for i, s := range segments {
		switch {
		case normalize && s == "..":
			kept = kept[:max(0, len(kept)-1)]
		case normalize && (s == "." || s == "" && i < len(segments)-1):
		case double:
			kept = append(kept, sdk.PercentEncode(s, unreserved))
		default: // a + in a path is no space
			kept = append(kept, sdk.PercentEncode(sdk.FormDecode(strings.ReplaceAll(s, "+", "%2B")), unreserved))
		}
	}
	canonical := ""
	for _, s := range kept {
		canonical += "/" + s
	}
	if canonical == "" {
		return "/"
	}
	return canonical
}

// trim returns the value of a header without space around it, and with single spaces in it.
//
//go:noinline
func trim(value string) string {
	b := make([]byte, len(value))
	n := 0
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\t' {
			c = ' '
		}
		if c != ' ' || n > 0 && b[n-1] != ' ' {
			b[n] = c
			n++
		}
	}
	return strings.TrimSuffix(string(b[:n]), " ")
}

// isDigest reports whether text is a SHA-256 in hex, in lower case.
func isDigest(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 64
}
