package gateway

import (
	"fmt"
	"net/http"
	"strings"
)

// crossOrigin refuses what another site has a browser send (threats.md 46), and lets the pages of the configured
// origins read the answer. It reports whether the request is a preflight, whose answer has no more than the header that
// is set here.
//
// A browser always tells where a request comes from: in Origin, or for a GET within a page in Sec-Fetch-Site. What has
// neither comes from no browser, or from one of before 2023 that does not send credentials along.
func (g *generation) crossOrigin(w http.ResponseWriter, r *http.Request) (preflight bool, err error) {
	header := w.Header()
	header["Vary"] = append(make([]string, 0, 3), "Origin") // with room for those of an answer
	origin := r.Header.Get("Origin")
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case len(r.Header.Values("Origin")) > 1 || len(r.Header.Values("Sec-Fetch-Site")) > 1:
		return false, &httpProblem{status: http.StatusBadRequest, kind: "cross-origin", detail: "there is more than one Origin"}
	case site == "same-origin" || site == "none": // the browser says so, which knows the scheme
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
	header.Set("Access-Control-Expose-Headers", "Server-Timing, X-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false, nil
	}
	header.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method")) // the connector decides
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", "600")
	header.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	return true, nil
}

// sameOrigin reports whether a page of the gateway's own origin calls.
func sameOrigin(origin string, r *http.Request) bool {
	name, secure := strings.CutPrefix(origin, "https://")
	if !secure && r.TLS == nil { // a proxy in front may have TLS
		name, secure = strings.CutPrefix(origin, "http://")
	}
	return secure && strings.EqualFold(name, r.Host)
}
