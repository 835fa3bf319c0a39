package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// debugRequest is the JSON document in the header X-Debug-Request. It describes a tested request and its answer, with
// expressions in place of the secrets that they name.
type debugRequest struct {
	URL             string            `json:"url"`
	Method          string            `json:"method"`
	Headers         map[string]string `json:"headers"`
	QueryParameters map[string]string `json:"query_parameters"`
	// DroppedQueryParameters has the names of the test's parameters that were not sent.
	DroppedQueryParameters []string  `json:"dropped_query_parameters,omitempty"`
	Authentication         debugAuth `json:"authentication"`
	RequestBody            string    `json:"request_body"`
	ResponseBody           string    `json:"response_body"`
	ResponseContentType    string    `json:"response_content_type"`
	// TLS describes the connector's tls. It is nil without one.
	TLS *TestTLS `json:"tls,omitempty"`
}

// TestTLS describes the tls of a connector.
type TestTLS struct {
	// For lists what it is for.
	For []string `json:"for"`
	// Subject and Ends are those of the client certificate, if there is one.
	Subject string     `json:"subject,omitempty"`
	Ends    *time.Time `json:"ends,omitempty"`
	// CA reports whether the connections trust the connector's own authorities.
	CA bool `json:"ca"`
}

type debugAuth struct {
	Type    string            `json:"type"`
	Headers map[string]string `json:"headers"`
	Query   string            `json:"query"`
}

// maxAround is the number of bytes that the JSON of a test may have beside the body.
const maxAround = 64 << 10

// maxShown is the maximum number of bytes of a body in X-Debug-Request. Headers of more than some kilobytes may get lost on
// the way.
const maxShown = 2 << 10

// Try is the JSON body of a request to [Gateway.Test]. It describes a caller's request to the connector.
type Try struct {
	// Method is the method. If it is empty, the first one of the definition is used.
	Method string `json:"method"`
	// Path is the path below the connector, optionally with a query, such as /forecast/oslo?units=metric.
	Path string `json:"path"`
	// Headers are the headers, by name.
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// BodyBytes is a body that is no text. In JSON, it is base64.
	BodyBytes []byte `json:"body_base64"`
	// User is the user for whom the request is made.
	User TriedUser `json:"user"`
	// Trace asks [Gateway.Test] for a [TestResult].
	Trace bool `json:"trace"`
	// ErrorDescription asks for what token endpoints say about a refusal ([TestAnswer].Description). It needs Trace.
	ErrorDescription bool `json:"error_description"`
	// AskAnew asks token endpoints although the gateway remembers that they have refused the same request ([host.Trace].AskAnew).
	AskAnew bool `json:"ask_anew"`
}

// TriedUser is a [host.User] whose JSON members have the names of its fields in templates.
type TriedUser struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	TenantID  string `json:"tenant_id"`
	Token     string `json:"token"`
}

func (u *TriedUser) user() host.User {
	return host.User{
		ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, TenantID: u.TenantID, Token: u.Token,
	}
}

// Test returns the handler for operators who test a connector. It must be registered with a pattern that has the wildcard
// {permalink}, such as POST /connectors/{permalink}/test, and must not be reachable for callers. A request has a [Try] as
// JSON, or no body. With Trace, the answer is a [TestResult] as JSON. Without, it is the one that a caller would get. Its header
// X-Debug-Request is a JSON document of the request that was sent and of the answer, with expressions in place of secrets. A problem document has the cause. Limits of
// rates and of concurrent requests do not apply.
func (g *Gateway) Test() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{gateway: g, id: requestID(r), began: g.config.Clock(), byOperator: true}
		c.setCommon(w.Header())
		c.event.Method = r.Method
		generation := g.enter()
		defer generation.inFlight.Done()
		defer c.observe()
		if err := g.try(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
		}
	})
}

func (g *Gateway) try(c *call, generation *generation, w http.ResponseWriter, r *http.Request) error {
	connector := generation.connectors[r.PathValue("permalink")]
	if connector == nil {
		return generation.unknown(r.PathValue("permalink"))
	}
	c.connector = connector.Connector
	most := connector.definition.Limits.RequestBytes
	most += min(most+maxAround, math.MaxInt64-most) // base64 has 4 bytes for 3
	tried, err := readTry(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return err
	}
	if tried.Trace {
		return g.writeResult(w, r, tried)
	}
	if err := g.recordable(); err != nil {
		return err
	}
	c.event.Tenant, c.event.User = tried.User.TenantID, tried.User.ID
	path, query, _ := strings.Cut(tried.Path, "?")
	header := http.Header{}
	for name, value := range tried.Headers {
		header.Set(name, value)
	}
	ctx := c.context(host.WithUser(r.Context(), tried.User.user()))
	defer c.cancel(nil)
	if c.out, err = connector.Outgoing(ctx, Incoming{Method: tried.Method, Path: path, Query: query, Header: header, Masked: true}); err != nil {
		return c.unrendered(err)
	}
	c.event.Use, c.event.Method, c.event.Pattern = UseTest, c.out.Method, c.out.pattern
	ctx = host.WithCredentials(ctx, c.out.credentials...)
	inner, err := http.NewRequestWithContext(ctx, c.out.Method, "http://gateway.invalid/", strings.NewReader(tried.Body))
	if err != nil {
		return refuse(http.StatusBadRequest, "that is not a method")
	}
	inner.URL.Path, inner.URL.RawQuery, inner.Header = "/"+strings.TrimPrefix(path, "/"), query, header
	c.callerURL = &url.URL{Path: "/connectors/" + connector.definition.Permalink + inner.URL.Path, RawQuery: query}
	if err := c.shapeRequest(ctx, inner); err != nil {
		return err
	}
	shown, err := c.debug(ctx, inner)
	if err != nil {
		return err
	}
	out := &debugWriter{ResponseWriter: w, shown: shown}
	if err := c.send(out, inner); err != nil {
		c.fail(ctx, out, err)
	}
	return out.send()
}

// writeResult runs a test, and writes its result.
func (g *Gateway) writeResult(w http.ResponseWriter, r *http.Request, tried Try) error {
	result, err := g.RunTest(r.Context(), r.PathValue("permalink"), tried)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(result) // the operator is gone
	return nil
}

func readTry(body io.Reader) (Try, error) {
	var tried Try
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&tried); err != nil && !errors.Is(err, io.EOF) {
		return Try{}, refuse(http.StatusBadRequest, "the body is not JSON with method, path, headers, body and user: %s", host.Printable(err.Error()))
	}
	if tried.ErrorDescription && !tried.Trace {
		return Try{}, refuse(http.StatusBadRequest, "error_description needs trace")
	}
	return tried, nil
}

// debug returns the document for a request that is about to be sent.
func (c *call) debug(ctx context.Context, r *http.Request) (*debugRequest, error) {
	masked := c.out.Masked()
	request := (&http.Request{Method: masked.Method, URL: masked.URL, Header: masked.Header}).WithContext(ctx)
	explained, err := c.connector.upstream.Explain(request)
	if err != nil {
		return nil, err
	}
	d := &debugRequest{
		URL: explained.URL, Method: explained.Method, Headers: pairs(explained.Headers), QueryParameters: map[string]string{},
		DroppedQueryParameters: c.out.dropped,
		Authentication:         debugAuth{explained.Type, pairs(explained.Added.Headers), explained.Added.Query},
	}
	d.TLS = testTLSOf(explained.TLS)
	_, query, _ := strings.Cut(explained.URL, "?")
	for part := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(part, "="); name != "" {
			d.QueryParameters[name] = value
		}
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	shown, err := io.ReadAll(io.LimitReader(body, maxShown+1))
	d.RequestBody = show(shown)
	return d, err
}

// testTLSOf returns what an operator sees of a connector's tls, or nil for nil.
func testTLSOf(t *host.ExplainedTLS) *TestTLS {
	if t == nil {
		return nil
	}
	d := &TestTLS{For: t.For, CA: t.CA}
	if t.Certificate != nil {
		ends := t.Certificate.NotAfter.UTC()
		d.Subject, d.Ends = t.Certificate.Subject, &ends
	}
	return d
}

func pairs(all []abi.Pair) map[string]string {
	m := map[string]string{}
	for _, p := range all {
		m[p.Name] = p.Value
	}
	return m
}

// show returns the beginning of a body, up to maxShown bytes. An ellipsis at the end means that the body is longer.
func show(body []byte) string {
	rest := ""
	if len(body) > maxShown {
		body, rest = body[:maxShown], "…"
		for range 3 { // a character that is cut leaves at most 3 bytes
			if r, size := utf8.DecodeLastRune(body); r == utf8.RuneError && size == 1 {
				body = body[:len(body)-1]
			}
		}
	}
	if !utf8.Valid(body) {
		return "<not text>"
	}
	return string(body) + rest
}

// debugWriter adds X-Debug-Request to an answer. It holds the header back until it has the beginning of the body.
type debugWriter struct {
	http.ResponseWriter
	shown  *debugRequest
	status int
	// held is the body so far. It is written after the header.
	held []byte
	// sent reports whether the header and held have been written.
	sent bool
}

func (d *debugWriter) WriteHeader(status int) { d.status = status }

func (d *debugWriter) Write(p []byte) (int, error) {
	if d.sent {
		return d.ResponseWriter.Write(p)
	}
	d.held = append(d.held, p...)
	if len(d.held) > maxShown {
		return len(p), d.send()
	}
	return len(p), nil
}

// send writes the header and the beginning of the body, unless it has done so already.
func (d *debugWriter) send() error {
	if d.sent {
		return nil
	}
	d.sent = true
	d.shown.ResponseBody, d.shown.ResponseContentType = show(d.held), d.Header().Get("Content-Type")
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false) // for people, who read texts such as <token>
	_ = encoder.Encode(d.shown)  // encoding texts cannot fail
	d.Header().Set("X-Debug-Request", asciiJSON(bytes.TrimRight(document.Bytes(), "\n")))
	d.ResponseWriter.WriteHeader(max(d.status, http.StatusOK))
	_, err := d.ResponseWriter.Write(d.held)
	return err
}

// asciiJSON escapes the characters of a JSON document that are not printable ASCII, so that it may stand in a header.
func asciiJSON(document []byte) string {
	var b strings.Builder
	for _, r := range string(document) {
		switch first, second := utf16.EncodeRune(r); {
		case r < 0x7f: // 0x7f is a control character
			b.WriteRune(r)
		case first != utf8.RuneError:
			_, _ = fmt.Fprintf(&b, `\u%04x\u%04x`, first, second)
		default:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
