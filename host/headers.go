package host

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
	if m.Query != "" {
		if target.RawQuery != "" { // the query of the request stays as it is, byte for byte
			target.RawQuery += "&"
		}
		target.RawQuery += m.Query
	}
	return authenticated
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
