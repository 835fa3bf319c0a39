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

// headers are a copy of a request's.
type headers struct {
	all     http.Header
	lengths uint64 // of their names, a bit each: to look at each name once more takes as long as all the rest
	// connection are the values of the Connection header.
	connection []string
}

// set replaces a header, also one that was put there under a name in another case. The name is in the canonical form.
func (h headers) set(name string, values []string) {
	if h.lengths&(1<<min(len(name), 63)) != 0 {
		maps.DeleteFunc(h.all, func(other string, _ []string) bool { return http.CanonicalHeaderKey(other) == name })
	}
	h.all[name] = values
}

// changed makes a copy of a request that has the mutation.
func changed(r *http.Request, h headers, m *hostfn.Mutation) *http.Request {
	copied := &struct { // allocated at once, since that is what authenticating takes longest for
		request http.Request
		target  url.URL // of its own, because some bases send a request elsewhere by changing it
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
		if target.RawQuery != "" { // what the URL has stays byte for byte
			target.RawQuery += "&"
		}
		target.RawQuery += m.Query
	}
	return authenticated
}

// unshared returns a request that shares nothing with the one that changed has copied, for callers who change it.
func unshared(r *http.Request) *http.Request {
	if r.Trailer != nil || r.TransferEncoding != nil || r.Form != nil || r.PostForm != nil || r.MultipartForm != nil || r.Pattern != "" {
		return r.Clone(r.Context())
	}
	count := 0
	for _, values := range r.Header {
		count += len(values)
	}
	all := make([]string, 0, count) // as net/http's Clone has it, in the map that is there already
	for name, values := range r.Header {
		if values != nil {
			from := len(all)
			all = append(all, values...)
			r.Header[name] = slices.Clip(all[from:])
		}
	}
	return r
}

// checkConnectionHeader returns an error when the values of a request's Connection header name a header of the mutation, RFC 9110
// section 7.6.1. When that name is sealed, every name is an error: otherwise a caller could try names and see which one it is.
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
