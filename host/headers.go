package host

import (
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
)

// headers is a copy of a request's headers.
type headers struct {
	all http.Header
	// lengths has a bit for the length of each name in all. It saves most searches for a name in another case, which
	// would take as long as the rest of set.
	lengths uint64
	// connection holds the values of the Connection header.
	connection []string
}

// set replaces a header, whose name is in canonical form. It removes any header with the same name in another case.
func (h headers) set(name string, values []string) {
	if h.lengths&(1<<min(len(name), 63)) != 0 {
		maps.DeleteFunc(h.all, func(other string, _ []string) bool { return http.CanonicalHeaderKey(other) == name })
	}
	h.all[name] = values
}

// changed returns a copy of a request with the headers h and the mutation m.
func changed(r *http.Request, h headers, m *hostfn.Mutation) *http.Request {
	// One allocation instead of three: allocating takes the largest part of authenticating a request. The copy has a
	// URL of its own because some base transports change it to send the request elsewhere.
	copied := &struct {
		request http.Request
		target  url.URL
		value   [1]string
	}{request: *r, target: *r.URL}
	authenticated, target := &copied.request, &copied.target
	authenticated.Header, authenticated.URL = h.all, target
	for i, header := range m.Headers {
		values := copied.value[:]
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
		replacePath(target, m.Path)
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

// withCookies returns the value of a Cookie header that has the cookies of values, except those that have the name of another
// in cookies, and then cookies.
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

// checkPath returns an error if a path lacks a placeholder of the mutation. A URL is not sent with its placeholder, because
// the API would see a request without a credential.
func checkPath(u *url.URL, m *hostfn.Mutation) error {
	for _, pair := range m.Path {
		if !strings.Contains(u.Path, pair.Name) {
			return fmt.Errorf("the request's path holds no %s, which the credential replaces", Printable(pair.Name))
		}
	}
	return nil
}

// replacePath replaces the placeholders in the path of a URL, whatever characters of them are percent-encoded.
func replacePath(u *url.URL, pairs []abi.Pair) {
	raw := u.EscapedPath()
	for _, pair := range pairs {
		for _, placeholder := range []string{pair.Name, url.PathEscape(pair.Name), (&url.URL{Path: pair.Name}).EscapedPath()} {
			raw = strings.ReplaceAll(raw, placeholder, pair.Value)
		}
	}
	path, err := url.PathUnescape(raw)
	if err != nil {
		return // both texts are valid by themselves, and so together
	}
	u.Path, u.RawPath = path, raw
}

// unshared returns r, a request that changed returned, or a clone of it, so that it shares nothing with the request that it
// was copied from. Callers may change it.
func unshared(r *http.Request) *http.Request {
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

// checkChange returns an error if a mutation cannot be applied to a request with the headers h.
func checkChange(r *http.Request, h headers, m *hostfn.Mutation) error {
	if err := checkConnectionHeader(h.connection, m); err != nil {
		return err
	}
	if m.Form != "" {
		if err := checkForm(r); err != nil {
			return err
		}
	}
	return checkPath(r.URL, m)
}

// checkForm returns an error if the members of a form cannot be added to the body of a request.
func checkForm(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch empty := r.Body == nil || r.Body == http.NoBody; {
	case empty && (r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead):
		return errors.New("the credential goes into the body, and the request's method has none")
	case empty && r.Header.Get("Content-Type") == "", err == nil && kind == formType:
		return nil
	}
	return errors.New("the credential goes into a form, and the request's body is none: its Content-Type must be " + formType)
}

// formType is the media type of HTML forms.
const formType = "application/x-www-form-urlencoded"

// checkConnectionHeader returns an error if the Connection header of a request names a header of the mutation, because
// a proxy would then drop the credential, RFC 9110 section 7.6.1. If the name of that header is sealed, any name but
// close and keep-alive is an error: otherwise a caller could guess the name by trying.
func checkConnectionHeader(values []string, m *hostfn.Mutation) error {
	for _, value := range values {
		for option := range strings.SplitSeq(value, ",") {
			option = strings.TrimSpace(option)
			harmless := option == "" || strings.EqualFold(option, "close") || strings.EqualFold(option, "keep-alive")
			for _, header := range m.Headers {
				if strings.EqualFold(option, header.Name) || m.SealedName && !harmless {
					return errors.New("the request's Connection header would have a proxy drop the credential")
				}
			}
		}
	}
	return nil
}
