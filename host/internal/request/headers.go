// Package request makes the request that is sent of the one of a caller: its headers, query, path and body, and the check that it goes to
// one of the connector's origins.
package request

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/printable"
)

// Headers is a copy of a request's headers, to which others can be added.
type Headers struct {
	all http.Header
	// lengths has a bit for the length of each name in all. It saves most searches for a name in another case, which double set's time.
	lengths    uint64
	connection []string
}

// HeadersOf returns a copy of the headers of a request. It returns an error if a header that net/http reads has a name in another case.
func HeadersOf(r *http.Request) (Headers, error) {
	h := Headers{all: maps.Clone(r.Header)}
	if h.all == nil {
		h.all = http.Header{}
	}
	for name, values := range r.Header {
		h.lengths |= 1 << min(len(name), 63)
		switch special := specialHeaders[min(len(name), len(specialHeaders)-1)]; {
		case special == "":
		case name == "Connection":
			h.connection = values
		case name != special && strings.EqualFold(name, special):
			return Headers{}, fmt.Errorf("the request has a header %s under a name in another case", special)
		}
		if cap(values) > len(values) {
			h.all[name] = slices.Clip(values) // so that Add copies the values
		}
	}
	return h, nil
}

// specialHeaders are the headers that net/http reads only under their canonical names, by their lengths, which all differ.
var specialHeaders = [...]string{
	len("Host"): "Host", len("Trailer"): "Trailer", len("Connection"): "Connection", len("Content-Length"): "Content-Length",
	len("Transfer-Encoding"): "Transfer-Encoding",
}

// set replaces a header, whose name is in canonical form. It removes any header with the same name in another case.
func (h Headers) set(name string, values []string) {
	if h.lengths&(1<<min(len(name), 63)) != 0 {
		maps.DeleteFunc(h.all, func(n string, _ []string) bool { return http.CanonicalHeaderKey(n) == name })
	}
	h.all[name] = values
}

// Outgoing is a request on its way to the API: the caller's body, and room for the copy that is sent. That saves two allocations,
// which take the largest part of authenticating a request.
type Outgoing struct {
	Body
	first requestCopy
}

// requestCopy is a copy of a request. It has a URL of its own because some base transports change it to send the request elsewhere.
type requestCopy struct {
	request http.Request
	target  url.URL
	value   [1]string
}

// NewOutgoing returns an Outgoing that keeps a body of up to limit bytes.
func NewOutgoing(limit int64) *Outgoing { return &Outgoing{Body: Body{limit: limit}} }

// Apply returns a copy of a request with the headers h and the mutation m. It shares with r all that the mutation does not change.
func (o *Outgoing) Apply(r *http.Request, h Headers, m *hostfn.Mutation) *http.Request {
	c := &o.first
	if c.request.URL != nil { // an earlier copy uses it
		c = new(requestCopy)
	}
	c.request, c.target = *r, *r.URL
	authenticated, target := &c.request, &c.target
	authenticated.Header, authenticated.URL = h.all, target
	for i, header := range m.Headers {
		values := c.value[:]
		if i > 0 {
			values = make([]string, 1)
		}
		values[0] = header.Value
		h.set(header.Name, values)
	}
	if len(m.Cookies) > 0 {
		h.set("Cookie", []string{withCookies(h.all["Cookie"], m.Cookies)})
	}
	if len(m.Path) > 0 {
		if path, raw, err := ReplacePath(target, m.Path); err == nil { // Check has refused any other
			target.Path, target.RawPath = path, raw
		}
	}
	if m.URL != nil {
		raw := strings.TrimSuffix(m.URL.EscapedPath(), "/") + target.EscapedPath()
		target.Scheme, target.Host, authenticated.Host = m.URL.Scheme, m.URL.Host, ""
		target.RawPath = raw
		target.Path, _ = url.PathUnescape(raw)
	}
	if m.Form != "" && authenticated.Header.Get("Content-Type") == "" {
		h.set("Content-Type", []string{formType})
	}
	if m.Query != "" {
		if target.RawQuery != "" { // the query of the request stays as it is, byte for byte
			target.RawQuery += "&"
		}
		target.RawQuery += m.Query
	}
	return authenticated
}

// withCookies returns the value of a Cookie header with cookies, behind those of values that have other names.
func withCookies(values []string, cookies []abi.Pair) string {
	var all []string
	for _, value := range values {
		for cookie := range strings.SplitSeq(value, ";") {
			cookie = strings.TrimSpace(cookie)
			name, _, _ := strings.Cut(cookie, "=")
			if cookie != "" && !slices.ContainsFunc(cookies, func(c abi.Pair) bool { return c.Name == strings.TrimSpace(name) }) {
				all = append(all, cookie)
			}
		}
	}
	for _, cookie := range cookies {
		all = append(all, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(all, "; ")
}

// ReplacePath returns the path of a URL, decoded and as it is sent, with the texts of pairs in place of their placeholders. Any character
// of a placeholder may be percent-encoded. Of several placeholders at one place, the longest counts. What is put in is not searched for
// placeholders. It is an error if a placeholder is not found: the URL is not sent then, because the API would see a request without a
// credential. It is also an error if the new path has no slash in front, or a segment . or .. that the path did not have.
func ReplacePath(u *url.URL, pairs []abi.Pair) (path, raw string, err error) {
	var decoded, escaped strings.Builder
	missing := slices.Clone(pairs)
	for rest := u.EscapedPath(); rest != ""; {
		best, length := abi.Pair{}, 0
		for _, pair := range pairs {
			if n := prefixLength(rest, pair.Name); n > length {
				best, length = pair, n
			}
		}
		if length == 0 {
			length = 1
			if rest[0] == '%' {
				length = 3
			}
			best.Value = rest[:length]
		} else {
			missing = slices.DeleteFunc(missing, func(p abi.Pair) bool { return p.Name == best.Name })
		}
		text, err := url.PathUnescape(best.Value)
		if err != nil { // it is a mask
			text = best.Value
		}
		decoded.WriteString(text)
		escaped.WriteString(best.Value)
		rest = rest[length:]
	}
	path, raw = decoded.String(), escaped.String()
	switch {
	case len(missing) > 0:
		return "", "", fmt.Errorf("the request's path holds no %s, which the credential replaces", printable.Text(missing[0].Name, 1024))
	case !strings.HasPrefix(path, "/") || dots(path) > dots(u.Path):
		return "", "", errors.New("with the mutation's texts, the request's path would lead elsewhere")
	}
	return path, raw, nil
}

// prefixLength returns the length of the beginning of escaped, a percent-encoded path, that decodes to prefix, or 0.
func prefixLength(escaped, prefix string) (length int) {
	for i := range len(prefix) {
		rest := escaped[length:]
		n := min(len(rest), 1)
		if n > 0 && rest[0] == '%' {
			n = 3
		}
		if c, err := url.PathUnescape(rest[:n]); err != nil || c != prefix[i:i+1] {
			return 0
		}
		length += n
	}
	return length
}

// dots counts the segments . and .. of a path.
func dots(path string) (n int) {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			n++
		}
	}
	return n
}

// Unshare returns r, which Apply has returned, or a clone, that shares nothing with the original. Callers may change it.
func Unshare(r *http.Request) *http.Request {
	if r.Trailer != nil || r.TransferEncoding != nil || r.Form != nil || r.PostForm != nil || r.MultipartForm != nil || r.Pattern != "" {
		return r.Clone(r.Context())
	}
	count := 0
	for _, values := range r.Header {
		count += len(values)
	}
	all := make([]string, 0, count) // one allocation for all values, as in http.Header.Clone
	for name, values := range r.Header {
		if values != nil {
			from := len(all)
			all = append(all, values...)
			r.Header[name] = slices.Clip(all[from:])
		}
	}
	return r
}

// Check returns an error if a mutation cannot be applied to a request with the headers h.
func Check(r *http.Request, h Headers, m *hostfn.Mutation) error {
	if err := checkConnectionHeader(h.connection, m); err != nil {
		return err
	}
	if m.Form != "" {
		if err := checkForm(r); err != nil {
			return err
		}
	}
	if len(m.Path) > 0 {
		_, _, err := ReplacePath(r.URL, m.Path)
		return err
	}
	return nil
}

// checkForm returns an error if the members of a form cannot be added to the body of a request.
func checkForm(r *http.Request) error {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch empty := r.Body == nil || r.Body == http.NoBody; {
	case hostfn.Encoded(r.Header):
		return errors.New("the credential goes into a form, and the request's body has a Content-Encoding, so that nothing can be added to it: send it as it is")
	case empty && (r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead):
		return errors.New("the credential goes into the body, and the request's method has none")
	case kind == formType && !strings.EqualFold(cmp.Or(parameters["charset"], "utf-8"), "utf-8"): // the credential is in ASCII
		return errors.New("the credential goes into a form, and the request's Content-Type has a charset other than utf-8, in which an API may read it: leave the charset out")
	case empty && r.Header.Get("Content-Type") == "", err == nil && kind == formType:
		return nil
	}
	return errors.New("the credential goes into a form, and the request's body is none: its Content-Type must be " + formType)
}

const formType = "application/x-www-form-urlencoded"

// checkConnectionHeader returns an error if the Connection header of a request names a header of the mutation, because
// a proxy would then drop the credential, RFC 9110 section 7.6.1. If the name of that header is sealed, any name but
// close and keep-alive is an error: otherwise a caller could guess the name by trying.
func checkConnectionHeader(values []string, m *hostfn.Mutation) error {
	for _, value := range values {
		for option := range strings.SplitSeq(value, ",") {
			option = strings.TrimSpace(option)
			harmless := option == "" || strings.EqualFold(option, "close") || strings.EqualFold(option, "keep-alive")
			dropped := m.SealedName && !harmless || len(m.Cookies) > 0 && strings.EqualFold(option, "Cookie") ||
				slices.ContainsFunc(m.Headers, func(h abi.Pair) bool { return strings.EqualFold(option, h.Name) })
			if dropped {
				return errors.New("the request's Connection header would have a proxy drop the credential")
			}
		}
	}
	return nil
}
