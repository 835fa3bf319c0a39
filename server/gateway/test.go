package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// debugRequest is the document of the header X-Debug-Request: the request that was tried. What came from a secret is shown
// as the expression that it came from.
type debugRequest struct {
	URL                 string            `json:"url"`
	Method              string            `json:"method"`
	Headers             map[string]string `json:"headers"`
	QueryParameters     map[string]string `json:"query_parameters"`
	Authentication      debugAuth         `json:"authentication"`
	RequestBody         string            `json:"request_body"`
	ResponseBody        string            `json:"response_body"`
	ResponseContentType string            `json:"response_content_type"`
}

type debugAuth struct {
	Type    string            `json:"type"`
	Headers map[string]string `json:"headers"`
	Query   string            `json:"query"`
}

// maxShown is how many bytes of a body X-Debug-Request shows: headers of more than some kilobytes get lost on the way.
const maxShown = 2 << 10

// Try is a request that an operator tries.
type Try struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"` // with a query
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	User    TriedUser         `json:"user"`
}

// TriedUser is a [host.User], with the names that templates have for its fields.
type TriedUser struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	TenantID  string `json:"tenant_id"`
}

// Test tries a connector, for an operator: POST /connectors/{permalink}/test, with a [Try] as JSON or nothing. The answer is
// that of the connector, shaped, and its header X-Debug-Request shows what was sent and what came.
func (g *Gateway) Test() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{gateway: g, id: requestID(r), began: g.config.Clock(), tried: true}
		c.always(w.Header())
		generation := g.enter()
		defer generation.inFlight.Done()
		if err := g.try(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
		}
	})
}

func (g *Gateway) try(c *call, generation *generation, w http.ResponseWriter, r *http.Request) error {
	connector := generation.connectors[r.PathValue("permalink")]
	if connector == nil {
		return &httpProblem{status: http.StatusNotFound, kind: "unknown-connector", detail: "there is no such connector"}
	}
	c.connector = connector.Connector
	tried, err := readTry(http.MaxBytesReader(w, r.Body, connector.Limits.RequestBytes))
	if err != nil {
		return err
	}
	path, query, _ := strings.Cut(tried.Path, "?")
	header := http.Header{}
	for name, value := range tried.Headers {
		header.Set(name, value)
	}
	ctx := c.context(host.WithUser(r.Context(), host.User(tried.User)))
	defer c.cancel(nil)
	if c.out, err = connector.Outgoing(ctx, Incoming{Method: tried.Method, Path: path, Query: query, Header: header, Masked: true}); err != nil {
		return unrendered(err)
	}
	ctx = host.WithCredentials(ctx, c.out.credentials...)
	inner, err := http.NewRequestWithContext(ctx, c.out.Method, "http://gateway.invalid/", strings.NewReader(tried.Body))
	if err != nil {
		return refuse(http.StatusBadRequest, "that is not a method")
	}
	inner.URL.Path, inner.URL.RawQuery, inner.Header = "/"+strings.TrimPrefix(path, "/"), query, header
	c.asked = &url.URL{Path: "/connectors/" + connector.Permalink + inner.URL.Path, RawQuery: query}
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

func readTry(body io.Reader) (Try, error) {
	var tried Try
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&tried); err != nil && !errors.Is(err, io.EOF) {
		return Try{}, refuse(http.StatusBadRequest, "the body is not JSON with method, path, headers, body and user: %s", host.Printable(err.Error()))
	}
	return tried, nil
}

// debug shows the request that is about to be sent.
func (c *call) debug(ctx context.Context, r *http.Request) (*debugRequest, error) {
	masked := c.out.Masked()
	request := (&http.Request{Method: masked.Method, URL: masked.URL, Header: masked.Header}).WithContext(ctx)
	explained, err := c.connector.Upstream.Explain(request)
	if err != nil {
		return nil, err
	}
	d := &debugRequest{
		URL: explained.URL, Method: explained.Method, Headers: pairs(explained.Headers), QueryParameters: map[string]string{},
		Authentication: debugAuth{explained.Type, pairs(explained.Added.Headers), explained.Added.Query},
	}
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

func pairs(all []abi.Pair) map[string]string {
	m := map[string]string{}
	for _, p := range all {
		m[p.Name] = p.Value
	}
	return m
}

// show returns as much of a body as is shown, and says when that is not all.
func show(body []byte) string {
	rest := ""
	if len(body) > maxShown {
		body, rest = body[:maxShown], "…"
		for range 3 { // bytes at most are left of a character that is cut
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

// debugWriter puts X-Debug-Request before an answer, once it has seen the beginning of its body.
type debugWriter struct {
	http.ResponseWriter
	shown  *debugRequest
	status int
	held   []byte // of the body, until the header is written
	sent   bool
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

// send writes header and beginning.
func (d *debugWriter) send() error {
	if d.sent {
		return nil
	}
	d.sent = true
	d.shown.ResponseBody, d.shown.ResponseContentType = show(d.held), d.Header().Get("Content-Type")
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false) // people read it: <token>
	_ = encoder.Encode(d.shown)  // texts only
	d.Header().Set("X-Debug-Request", asciiJSON(bytes.TrimRight(document.Bytes(), "\n")))
	d.ResponseWriter.WriteHeader(max(d.status, http.StatusOK))
	_, err := d.ResponseWriter.Write(d.held)
	return err
}

// asciiJSON escapes what is not ASCII, which has no place in a header.
func asciiJSON(document []byte) string {
	var b strings.Builder
	for _, r := range string(document) {
		switch first, second := utf16.EncodeRune(r); {
		case r < 0x7f: // which is a control character
			b.WriteRune(r)
		case first != utf8.RuneError:
			_, _ = fmt.Fprintf(&b, `\u%04x\u%04x`, first, second)
		default:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
