package sigv4

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

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
func newMessage(method, url string, headers []sdk.Pair) *message {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	m := &message{method: method, path: "/" + path, query: parameters(query)}
	for _, p := range headers {
		if name := lower(p.Name); !changes(name) {
			m.headers = append(m.headers, sdk.Pair{Name: name, Value: trim(p.Value)})
		}
	}
	m.set("host", host)
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

// header returns the value of a header, or "".
func (m *message) header(name string) string {
	for _, p := range m.headers {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// drop removes a header.
func (m *message) drop(name string) {
	kept := m.headers[:0]
	for _, p := range m.headers {
		if p.Name != name {
			kept = append(kept, p)
		}
	}
	m.headers = kept
}

// set replaces a header.
func (m *message) set(name, value string) {
	m.drop(name)
	m.headers = append(m.headers, sdk.Pair{Name: name, Value: value})
}

// canonical returns the names of the signed headers and the canonical request.
func (m *message) canonical() (names, request string) {
	sort(m.headers, false)
	sort(m.query, true)
	lines, query, last := "", "", ""
	for _, p := range m.headers {
		switch {
		case p.Name == last:
			lines += "," + p.Value
			continue
		case last != "":
			names, lines = names+";", lines+"\n"
		}
		last = p.Name
		names, lines = names+p.Name, lines+p.Name+":"+p.Value
	}
	for i, p := range m.query {
		if i > 0 {
			query += "&"
		}
		query += p.Name + "=" + p.Value
	}
	return names, m.method + "\n" + m.path + "\n" + query + "\n" + lines + "\n\n" + names + "\n" + m.payload
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

// parameters returns the parameters of a query in the encoding of signatures.
//
//go:noinline
func parameters(query string) (list []sdk.Pair) {
	for _, p := range sdk.ParseQuery(query) {
		list = append(list, sdk.Pair{Name: encode(p.Name), Value: encode(p.Value)})
	}
	return list
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
	if normalize {
		kept := segments[:0]
		for _, s := range segments {
			switch {
			case s == "..":
				kept = kept[:max(0, len(kept)-1)]
			case s != "" && s != ".":
				kept = append(kept, s)
			}
		}
		if path[len(path)-1] == '/' {
			kept = append(kept, "")
		}
		segments = kept
	}
	canonical := ""
	for _, s := range segments {
		if !double {
			s = decode(s)
		}
		canonical += "/" + encode(s)
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
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\t' {
			c = ' '
		}
		if c != ' ' || len(b) > 0 && b[len(b)-1] != ' ' {
			b = append(b, c)
		}
	}
	return strings.TrimSuffix(string(b), " ")
}

const upperHex = "0123456789ABCDEF"

// encode escapes all but the unreserved characters (RFC 3986 section 2.3).
//
//go:noinline
func encode(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if isLetter(c) || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~' {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

// decode undoes percent-encoding. A % without two digits stays as it is.
//
//go:noinline
func decode(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := digit(s[i+1]), digit(s[i+2])
			if high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case isLetter(c) && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isDigest reports whether text is a SHA-256 in hex, in lower case.
func isDigest(text string) bool {
	for i := 0; i < len(text); i++ {
		if digit(text[i]) < 0 || text[i] < 'a' && text[i] > '9' {
			return false
		}
	}
	return len(text) == 64
}

// lower returns a name of a header in lower case. The tables of strings.ToLower would add kilobytes.
//
//go:noinline
func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// timestamp returns a time after 1970 in the form 20060102T150405Z. Package time would be most of the module.
//
//go:noinline
func timestamp(unix int64) string {
	days, seconds := unix/86400, unix%86400
	year := int64(1970)
	for days >= yearDays(year) {
		days -= yearDays(year)
		year++
	}
	month := int64(1)
	for days >= monthDays(year, month) {
		days -= monthDays(year, month)
		month++
	}
	return decimal(year, 4) + decimal(month, 2) + decimal(days+1, 2) + "T" +
		decimal(seconds/3600, 2) + decimal(seconds/60%60, 2) + decimal(seconds%60, 2) + "Z"
}

func yearDays(year int64) int64 {
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 366
	}
	return 365
}

func monthDays(year, month int64) int64 {
	switch month {
	case 2:
		return yearDays(year) - 337
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// decimal returns a number that is not negative with at least width digits.
//
//go:noinline
func decimal(n int64, width int) string {
	text := ""
	for n > 0 || len(text) < width {
		text = string(rune('0'+n%10)) + text
		n /= 10
	}
	return text
}
