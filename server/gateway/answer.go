package gateway

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/files"
)

// passedHeaders lists the headers of an answer that callers get (threats.md 45). Other headers of an API may describe the
// account that the connector uses.
var passedHeaders = map[string]bool{
	"Accept-Ranges": true, "Age": true, "Allow": true, "Cache-Control": true, "Content-Disposition": true, "Content-Language": true,
	"Content-Length": true, "Content-Location": true, "Content-Range": true, "Content-Type": true, "Date": true, "Etag": true,
	"Expires": true, "Last-Modified": true, "Link": true, "Location": true, "Retry-After": true, "Vary": true,
}

// answer changes the API's answer into the one for the caller. It may use buf for the body. It returns an error if the
// answer must not pass.
func (c *call) answer(response *http.Response, buf *buffer) error {
	if response.StatusCode < 200 || response.StatusCode > 599 {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer has a status that is not valid"}
	}
	if response.Header == nil { // possible if Base is not net/http's
		response.Header = http.Header{}
	}
	for _, options := range response.Header["Connection"] { // it names headers for the next hop only (RFC 9110 section 7.6.1)
		for name := range strings.SplitSeq(options, ",") {
			response.Header.Del(strings.TrimSpace(name))
		}
	}
	c.event.Refusal = refusedBy(response, c.gateway.config.Clock())
	maps.DeleteFunc(response.Header, func(name string, _ []string) bool {
		return !passedHeaders[name] && !c.connector.responseHeaders.passes(name)
	})
	setPrivate(response.Header)
	response.Header["Server-Timing"] = []string{c.timing()}
	c.event.Status = response.StatusCode
	if shaped, err := c.shapeResponse(response); shaped {
		return err
	}
	if response.Uncompressed && c.ends {
		return readDecoded(response)
	}
	return readFirst(response, buf)
}

// Values of headers, shared by all requests and answers.
var (
	noSniff     = []string{"nosniff"}
	noPage      = []string{"default-src 'none'; sandbox"} // so that HTML of an API is no page of the gateway's origin
	octetStream = []string{"application/octet-stream"}    // so that net/http does not guess a type
	unencoded   = []string{"identity"}                    // of requests to APIs
)

// pass writes an answer to the caller. If the body breaks off, pass logs the error and panics with [http.ErrAbortHandler], so
// that the caller's connection breaks off too. If the caller is gone, it panics without a log line.
func (c *call) pass(w http.ResponseWriter, response *http.Response, buf *buffer) {
	header := w.Header()
	vary := header["Vary"]
	maps.Copy(header, response.Header)
	header["Vary"] = append(vary, response.Header["Vary"]...)
	if exposed := header[exposeHeaders]; exposed != nil {
		header[exposeHeaders] = []string{strings.Join(append(exposed, c.connector.responseHeaders.exposed(response.Header)...), ", ")}
	}
	if response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified {
		delete(header, "Content-Length") // some clients of HTTP/2 would take the missing body for one that broke off
	} else if _, typed := header["Content-Type"]; !typed {
		header["Content-Type"] = octetStream
	}
	c.passing = true
	w.WriteHeader(response.StatusCode)
	if body, ok := response.Body.(io.WriterTo); ok { // the body is in memory
		if _, writeErr := body.WriteTo(w); writeErr != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	flush := func() error { return nil }
	if response.ContentLength < 0 || isEventStream(header) {
		flush = http.NewResponseController(w).Flush
		_ = flush() // the body may begin much later than the header
	}
	for {
		n, err := response.Body.Read(buf[:])
		if n > 0 {
			if _, writeErr := w.Write(buf[:n]); writeErr != nil {
				panic(http.ErrAbortHandler)
			}
			_ = flush()
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			ctx := response.Request.Context()
			c.report(ctx, c.problem(ctx, err))
			panic(http.ErrAbortHandler)
		}
	}
}

// isEventStream reports whether an answer is a stream of Server-Sent Events. The caller must get each event at once.
func isEventStream(header http.Header) bool {
	const kind = "text/event-stream"
	got := header.Get("Content-Type")
	return len(got) >= len(kind) && strings.EqualFold(got[:len(kind)], kind)
}

type buffer [32 << 10]byte

// maxReadFirst is the maximum size of an answer that is read completely before its header is sent.
const maxReadFirst = 64 << 10

// readFirst reads the body of a short answer of known length, before the header is sent. So a short answer with the credential
// (threats.md 45) becomes a problem document, and does not break off. It uses buf if the answer fits.
func readFirst(response *http.Response, buf *buffer) error {
	if response.ContentLength <= 0 || response.ContentLength > maxReadFirst || response.Request.Method == http.MethodHead {
		return nil
	}
	body := bytes.NewBuffer(buf[:0])
	body.Grow(int(response.ContentLength) + bytes.MinRead)
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(body)
	return nil
}

// readDecoded is readFirst for a body whose coding was undone, so that its length is not known.
func readDecoded(response *http.Response) error {
	first, err := files.ReadAll(response.Body, maxReadFirst)
	if err != nil {
		return err
	}
	rest := response.Body
	if len(first) > maxReadFirst {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(first), rest), rest}
		return nil
	}
	if response.ContentLength = int64(len(first)); response.Request.Method != http.MethodHead {
		response.Header.Set("Content-Length", strconv.Itoa(len(first)))
	}
	response.Body = io.NopCloser(bytes.NewReader(first))
	return rest.Close()
}

// setPrivate changes the headers of an answer so that shared caches do not store it (threats.md 47).
func setPrivate(h http.Header) {
	h["Vary"] = append(h["Vary"], "Authorization, Cookie")
	directives := []string{"private"}
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			directive = strings.ToLower(strings.TrimSpace(directive))
			name, _, _ := strings.Cut(directive, "=")
			if directive != "" && !slices.Contains([]string{"public", "private", "s-maxage", "stale-while-revalidate"}, name) {
				directives = append(directives, directive)
			}
		}
	}
	h.Set("Cache-Control", strings.Join(directives, ", "))
}

// namedHeaders holds the headers of answers that a definition names, beside passedHeaders.
type namedHeaders struct {
	// Both are in the form of [http.CanonicalHeaderKey].
	names    map[string]bool
	prefixes []string
}

// passes reports whether a definition lets a header pass. It is false for each header that no definition may name, because a
// pattern may match one.
func (n *namedHeaders) passes(name string) bool {
	ok := n.names[name] || slices.ContainsFunc(n.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	return ok && headerMeans(name) == ""
}

// exposed returns the names of the headers in h that the definition lets pass, sorted: pages of other origins may read them.
func (n *namedHeaders) exposed(h http.Header) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(name string) bool { return !n.passes(name) })
}

func (k *compiler) compileResponseHeaders(headers []string) namedHeaders {
	const maxNamedHeaders = 50 // of a definition
	const minHeaderPrefix = 4  // bytes before a *: X- alone is no name of a group
	if len(headers) > maxNamedHeaders {
		k.Wrong("response.headers", "has more than %d names", maxNamedHeaders)
	}
	n := namedHeaders{names: map[string]bool{}}
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
		"X-Middleware-", "Edge-Control",
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

// exposeHeaders is the header with the names of those that pages of other origins may read.
const exposeHeaders = "Access-Control-Expose-Headers"

// crossOrigin returns an error if a page of another origin sent the request (threats.md 46), unless that origin is
// configured. For pages of configured origins, it sets the headers that let them read the answer. It reports whether the
// request is a preflight, which it has then answered.
//
// A browser always shows where a request comes from: in Origin or, for a GET within a page, in Sec-Fetch-Site. A request
// with neither header does not come from a browser, or comes from one of before 2023 that does not send credentials along.
func (c *call) crossOrigin(g *generation, w http.ResponseWriter, r *http.Request) (preflight bool, err error) {
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
	case !slices.Contains(g.Origins, origin):
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
	c.write(w, http.StatusNoContent, nil)
	return true, nil
}

func sameOrigin(origin string, r *http.Request) bool {
	name, secure := strings.CutPrefix(origin, "https://")
	if !secure && r.TLS == nil { // https counts too: a proxy in front of the gateway may terminate TLS
		name, secure = strings.CutPrefix(origin, "http://")
	}
	return secure && strings.EqualFold(name, r.Host)
}
