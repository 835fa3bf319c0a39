package gateway

import (
	"fmt"
	"net/http"
	"strings"
)

// exposeHeaders is the header with the names of those that pages of other origins may read.
const exposeHeaders = "Access-Control-Expose-Headers"

// crossOrigin returns an error if a page of another origin sent the request (threats.md 46), unless that origin is
// configured. For pages of configured origins, it sets the headers that let them read the answer. It reports whether the
// request is a preflight; the answer to that needs no other headers.
//
// A browser always shows where a request comes from: in Origin or, for a GET within a page, in Sec-Fetch-Site. A request
// with neither header does not come from a browser, or comes from one of before 2023 that does not send credentials along.
func (g *generation) crossOrigin(w http.ResponseWriter, r *http.Request) (preflight bool, err error) {
	header := w.Header()
	header["Vary"] = append(make([]string, 0, 3), "Origin") // with room for the Vary of an answer
	origins, sites := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	origin, site := strings.Join(origins, ""), strings.Join(sites, "")
	switch {
	case len(origins) > 1 || len(sites) > 1:
		return false, &httpProblem{status: http.StatusBadRequest, kind: "cross-origin", detail: "there is more than one Origin"}
	case site == "same-origin" || site == "none": // unlike the gateway, the browser knows the scheme for certain
		return false, nil
	case site == "" && (origin == "" || sameOrigin(origin, r)):
		return false, nil
	case !g.origins[origin]:
		return false, &httpProblem{
			status: http.StatusForbidden, kind: "cross-origin", detail: "pages of that origin may not call this gateway",
			cause: fmt.Errorf("the Origin is %.100q, Sec-Fetch-Site %.100q: the gateway's own origin and gateway.origins may call", origin, site),
		}
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Allow-Credentials", "true")
	header.Set(exposeHeaders, "Server-Timing, X-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false, nil
	}
	header.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method")) // the definition decides when the request comes
	if requestHeaders := r.Header.Get("Access-Control-Request-Headers"); requestHeaders != "" {
		header.Set("Access-Control-Allow-Headers", requestHeaders)
	}
	header.Set("Access-Control-Max-Age", "600")
	header.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	return true, nil
}

func sameOrigin(origin string, r *http.Request) bool {
	name, secure := strings.CutPrefix(origin, "https://")
	if !secure && r.TLS == nil { // https counts too: a proxy in front of the gateway may terminate TLS
		name, secure = strings.CutPrefix(origin, "http://")
	}
	return secure && strings.EqualFold(name, r.Host)
}
