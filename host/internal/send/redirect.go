package send

import (
	"errors"
	"net/http"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/internal/answers"
)

const maxRedirects = 10 // that a request to another origin may follow

// keptHeaders are the headers of a caller that go to another origin. Any other header may be a credential.
var keptHeaders = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range",
	"If-Unmodified-Since", "Range", "User-Agent",
}

// hasLeft reports whether a request follows a redirect that has led to another origin. It still does when further redirects come back,
// because another server has chosen what they ask for.
func (t *Transport) hasLeft(r *http.Request) bool {
	if !t.CrossOriginRedirects || r.Response == nil {
		return false
	}
	for ; ; r = r.Response.Request {
		switch {
		case r == nil || r.URL == nil || r.URL.Opaque != "" || t.Plan.Origins.CheckURL(r) != nil:
			return true // an answer without its request may be of any origin
		case r.Response == nil:
			return false
		}
	}
}

// leave sends a request that hasLeft reports, without a credential.
func (t *roundTripper) leave(r *http.Request) (*http.Response, error) {
	count := 0
	for hop := r; hop != nil && hop.Response != nil && count <= maxRedirects; hop = hop.Response.Request {
		count++
	}
	var err error
	switch {
	case r.Method != "" && r.Method != http.MethodGet && r.Method != http.MethodHead, r.Body != nil && r.Body != http.NoBody:
		err = errors.New("a redirect to another origin is followed by GET and HEAD without a body only")
	case r.URL == nil || r.URL.Opaque != "" || r.URL.Scheme != "https":
		err = errors.New("a redirect to another origin is followed to https only")
	case count > maxRedirects:
		err = errors.New("the request has followed too many redirects")
	}
	if err != nil {
		(&request.Body{}).Close(r)
		return nil, t.Fail(hostfn.StageOrigin, err)
	}
	if err := t.Gate.Enter(); err != nil {
		return nil, t.Fail(hostfn.StagePlugin, err)
	}
	defer t.Gate.Leave()
	header := http.Header{}
	for _, name := range keptHeaders {
		if values, ok := r.Header[name]; ok {
			header[name] = values
		}
	}
	if _, set := header["User-Agent"]; !set && t.UserAgent != "" {
		header["User-Agent"] = []string{t.UserAgent}
	}
	target := *r.URL
	target.User = nil
	base := t.base
	if _, identified := base.(identityBase); identified {
		base = t.API // without the certificate of the connector
	}
	response, err := answers.Final(base.RoundTrip((&http.Request{Method: r.Method, URL: &target, Header: header}).WithContext(r.Context())))
	if err != nil {
		return nil, baseFailure(base, err)
	}
	response.Request = r
	return response, nil
}
