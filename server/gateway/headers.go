package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// namedHeaders holds the headers of answers that a definition names, beside passedHeaders.
type namedHeaders struct {
	// names are in the form of [http.CanonicalHeaderKey].
	names map[string]bool
	// prefixes are in that form, too.
	prefixes []string
}

const (
	// maxNamedHeaders limits the names of a definition.
	maxNamedHeaders = 50
	// minHeaderPrefix is the least size of the text before a * in bytes: X- alone is no name of a group.
	minHeaderPrefix = 4
)

// passes reports whether a definition lets a header pass. It is false for each header that no definition may name, because a
// pattern may match one.
func (n *namedHeaders) passes(name string) bool {
	if n == nil {
		return false
	}
	ok := n.names[name] || slices.ContainsFunc(n.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	return ok && headerMeans(name) == ""
}

// exposed returns the names of the headers in h that the definition lets pass, sorted: pages of other origins may read them.
func (n *namedHeaders) exposed(h http.Header) (names []string) {
	if n == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if n.passes(name) {
			names = append(names, name)
		}
	}
	return names
}

// compileResponseHeaders compiles the headers that a definition names. It returns nil if there are none.
func (k *compiler) compileResponseHeaders(headers []string) *namedHeaders {
	if len(headers) == 0 {
		return nil
	}
	if len(headers) > maxNamedHeaders {
		k.Wrong("response.headers", "has more than %d names", maxNamedHeaders)
	}
	n := &namedHeaders{names: map[string]bool{}}
	for i, text := range headers {
		path := fmt.Sprintf("response.headers[%d]", i)
		prefix, pattern := strings.CutSuffix(text, "*")
		switch wrong := contract.CheckHeaderName(prefix); {
		case pattern && (len(prefix) < minHeaderPrefix || !strings.HasSuffix(prefix, "-")):
			k.Wrong(path, "names too much: write what the names have in common, up to a hyphen, such as X-RateLimit-*")
		case strings.Contains(prefix, "*"):
			k.Wrong(path, "may have one *, at its end")
		case wrong != "":
			k.Wrong(path, "%s", wrong)
		case headerMeans(http.CanonicalHeaderKey(prefix)) != "":
			k.Wrong(path, "never passes, because %s: leave it out", headerMeans(http.CanonicalHeaderKey(prefix)))
		case pattern:
			n.prefixes = append(n.prefixes, http.CanonicalHeaderKey(prefix))
		default:
			n.names[http.CanonicalHeaderKey(text)] = true
		}
	}
	return n
}

// neverPass has the headers that no definition lets pass, by what they mean (threats.md 188). A name that ends in a hyphen stands
// for all that begin with it.
var neverPass = map[string][]string{
	"it is for one connection only": {
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Alt-Svc", "Http2-Settings", "Proxy-",
	},
	"it is about credentials": {
		"Authorization", "Authentication-", "Www-Authenticate", "Set-Cookie", "Set-Cookie2", "Cookie", "Cookie2", "Dpop-Nonce", "Set-Login", "Clear-Site-Data",
	},
	"it is for pages of the API's own origin": {
		"Access-Control-", "Timing-Allow-Origin", "Cross-Origin-", "Origin-Agent-Cluster", "Content-Security-Policy", "Content-Security-Policy-", "X-Content-Security-Policy",
		"X-Webkit-Csp", "X-Content-Type-Options", "X-Frame-Options", "X-Xss-Protection", "X-Download-Options", "X-Permitted-Cross-Domain-Policies", "X-Dns-Prefetch-Control",
		"Strict-Transport-Security", "Public-Key-Pins", "Public-Key-Pins-", "Expect-Ct", "Permissions-Policy", "Permissions-Policy-", "Feature-Policy", "Document-Policy",
		"Document-Policy-", "Referrer-Policy", "Report-To", "Reporting-Endpoints", "Nel", "Refresh", "Sourcemap", "X-Sourcemap", "Service-Worker-", "Speculation-Rules",
		"Supports-Loading-Mode", "No-Vary-Search", "Origin-Trial", "Integrity-Policy", "Integrity-Policy-", "Require-Document-Policy", "X-Content-Security-Policy-",
		"Secure-Session-", "Accept-Ch", "Critical-Ch", "Sec-", "Observe-Browsing-Topics", "Attribution-Reporting-", "Activate-Storage-Access", "Use-As-Dictionary",
	},
	"a proxy before the gateway would act on it": {
		"X-Accel-", "X-Sendfile", "X-Lighttpd-", "X-Litespeed-", "X-Reproxy-", "X-Forwarded-", "Forwarded", "X-Real-Ip", "Surrogate-", "Cdn-", "Cloudflare-", "Vercel-", "Netlify-", "X-Envoy-",
		"X-Middleware-",
		"Edge-Control",
	},
	"it describes the bytes of the body": {"Content-Encoding", "Content-Length", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest"},
	"it is the gateway's own":            {"Server-Timing", "X-Request-Id"},
}

// headerMeans returns why no definition lets a header pass, or "". name is in the form of [http.CanonicalHeaderKey]. A prefix that
// ends in a hyphen is treated like a name.
func headerMeans(name string) string {
	for why, names := range neverPass {
		for _, never := range names {
			if name == never || strings.HasSuffix(never, "-") && strings.HasPrefix(name, never) {
				return why
			}
		}
	}
	return ""
}
