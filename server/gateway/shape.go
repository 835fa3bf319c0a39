package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway/internal/transform"
)

// shapes holds the compiled expressions of a definition for bodies. A field is nil if the definition does not have that expression.
type shapes struct {
	request  *transform.Body
	filter   *transform.Filter
	response *transform.Body
}

// keep keeps the problems of an expression.
func (k *compiler) keep(path string, problems []*expr.Error) {
	for _, p := range problems {
		k.At(problem.Place{Column: p.Column}, path, "%s", p.Message)
	}
}

func (k *compiler) shapes(d Definition) (s shapes) {
	var problems []*expr.Error
	if d.Request != "" {
		s.request, problems = k.patterns.CompileRequest(d.Request)
		k.keep("request", problems)
	}
	if d.Response.Filter != "" {
		s.filter, problems = k.patterns.CompileFilter(d.Response.Filter, d.Response.Records)
		k.keep("response.filter", problems)
	}
	if d.Response.Body != "" {
		s.response, problems = k.patterns.CompileResponse(d.Response.Body)
		k.keep("response.body", problems)
	}
	if d.Response.Records != "" && d.Response.Filter == "" {
		k.Wrong("response.records", "is without a filter: leave it out")
	}
	if kind := d.Response.ContentType; kind != "" {
		if _, _, err := mime.ParseMediaType(kind); err != nil || !strings.Contains(kind, "/") {
			k.Wrong("response.content_type", "is no media type, such as text/html; charset=utf-8")
		}
	}
	return s
}

// input returns the values for the expressions of a call. Its request is the caller's, because the query of the request to
// the API may contain secrets.
func (c *call) input(r *http.Request) *transform.Input {
	in := &transform.Input{
		Variable: func(name string) (string, bool) { return c.connector.host.Variable(r.Context(), name) },
		Now:      c.gateway.config.Clock,
		UUID:     func() (string, error) { return expr.NewUUID(rand.Reader) },
		Request:  transform.Request{Method: r.Method, Path: c.callerURL.Path, Query: c.callerURL.Query(), Header: c.out.visibleHeader, Body: c.body},
	}
	if user, ok := host.UserFrom(r.Context()); ok {
		in.User = &user
	}
	return in
}

// shapeRequest replaces the caller's body by the result of the definition's template, if there is one.
func (c *call) shapeRequest(ctx context.Context, r *http.Request) error {
	if c.connector.shapes.request == nil {
		return nil
	}
	body, release, err := c.gateway.read(r.Body, c.connector.definition.Permalink)
	defer release()
	if err != nil {
		return err
	}
	c.body = body
	ctx, done, err := c.shaping(ctx)
	if err != nil {
		return err
	}
	defer done()
	shaped, _, err := c.connector.shapes.request.Run(ctx, c.input(r))
	if err != nil {
		return &httpProblem{status: http.StatusBadRequest, kind: "request-not-shaped", detail: "the body is not what this connector takes", cause: fmt.Errorf("request: %w", err)}
	}
	if !slices.ContainsFunc(c.connector.headers, func(p parameter) bool { return p.Name == "Content-Type" }) {
		c.out.set("Content-Type", []string{"application/json"}, []string{"application/json"}, false) // the caller's Content-Type is that of the body before
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(shaped)), int64(len(shaped))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(shaped)), nil }
	return nil
}

// shapeResponse filters and shapes an answer, and reports whether the definition has an expression for that. If it has a
// filter, a body that was not filtered never passes: the answer of a failure, which has no records, loses its body.
func (c *call) shapeResponse(response *http.Response) (shaped bool, err error) {
	s := c.connector.shapes
	if s.filter == nil && s.response == nil {
		return false, nil
	}
	original := response.Body
	defer original.Close()
	limit := min(c.connector.definition.Limits.ResponseBytes, math.MaxInt64-1) // one byte more shows that the body is too long
	body, release, err := c.gateway.read(io.LimitReader(original, limit+1), c.connector.definition.Permalink)
	defer release()
	if err != nil {
		return true, err
	}
	failed := func(what string, err error) (bool, error) {
		return true, &httpProblem{status: http.StatusBadGateway, kind: "answer-not-shaped", detail: "the API's answer is not what this connector expects", cause: fmt.Errorf("%s: %w", what, err)}
	}
	if response.StatusCode == http.StatusPartialContent {
		return failed("response", errors.New("it is a part of an answer"))
	}
	if int64(len(body)) > c.connector.definition.Limits.ResponseBytes {
		return failed("response", fmt.Errorf("its body has more than %d bytes, which limits.response_bytes allows", c.connector.definition.Limits.ResponseBytes))
	}
	r := response.Request
	ctx, done, err := c.shaping(r.Context())
	if err != nil {
		return true, err
	}
	defer done()
	in := c.input(r)
	body = answers.TrimBOM(body)
	in.Response = transform.Response{StatusCode: response.StatusCode, Header: response.Header, Body: body}
	empty := r.Method == http.MethodHead || response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified
	failure := response.StatusCode > 299
	if s.filter != nil {
		response.Header.Del("Link") // it may link to unfiltered records
		if empty || failure {
			body = nil
		} else if body, err = s.filter.Run(ctx, in); err != nil {
			return failed("response.filter", err)
		}
		c.noRecords, in.Response.Body = in.NoRecords, body
	}
	contentType := response.Header.Get("Content-Type")
	if s.response != nil && !empty && (s.filter == nil || !failure) {
		var isJSON bool
		if body, isJSON, err = s.response.Run(ctx, in); err != nil {
			return failed("response.body", err)
		}
		if isJSON {
			contentType = "application/json"
		}
	}
	replace(response, body, cmp.Or(c.connector.definition.Response.ContentType, contentType))
	return true, nil
}

func replace(response *http.Response, body []byte, contentType string) {
	for _, name := range []string{"Accept-Ranges", "Content-Range", "Content-Length", "Etag", "Last-Modified"} { // these describe the body before
		response.Header.Del(name)
	}
	if len(body) > 0 && contentType != "" {
		response.Header.Set("Content-Type", contentType)
	}
	if response.Request.Method != http.MethodHead {
		response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	response.Body, response.ContentLength, response.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
}

// shaping waits for a place for shaping a body, for at most the connector's timeout. The caller must have read the whole body
// before, so that a slow sender does not occupy a place. The context limited ends after the connector's timeout. The caller
// must call done when the body is shaped.
func (c *call) shaping(ctx context.Context) (limited context.Context, done func(), err error) {
	leave, err := c.gateway.places.Enter(ctx, c.connector.definition.Timeout, c.connector.definition.Permalink)
	if errors.Is(err, fairqueue.ErrNone) {
		err = &httpProblem{
			status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "this connector has more bodies to shape than it can", retry: 1,
			cause: errors.New("no body of this connector was done within timeout: others wait for the same places"),
		}
	}
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.connector.definition.Timeout)
	return limited, func() { cancel(); leave() }, nil
}
