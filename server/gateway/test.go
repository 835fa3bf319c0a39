package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/trial"
)

// maxAround is the number of bytes that the JSON of a test may have beside the body.
const maxAround = 64 << 10

// maxShown is the maximum number of bytes of the request's body in a [trial.Result].
const maxShown = 2 << 10

// Test returns the handler for operators who test a connector. It must be registered with a pattern that has the wildcard
// {permalink}, such as POST /connectors/{permalink}/test, and must not be reachable for callers. A request
// has the method, path, headers, body and user of a caller as JSON, or no body. The answer is the result as JSON, or a problem
// document with its cause.
func (g *Gateway) Test() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{gateway: g, id: requestID(r), began: g.config.Clock(), byOperator: true}
		c.setCommon(w.Header())
		c.event.Method = r.Method
		generation := g.enter()
		defer generation.inFlight.Done()
		if err := g.try(c, generation, w, r); err != nil {
			c.fail(r.Context(), w, err)
			c.observe()
		}
	})
}

func (g *Gateway) try(c *call, generation *generation, w http.ResponseWriter, r *http.Request) error {
	connector := generation.connectors[r.PathValue("permalink")]
	if connector == nil {
		return generation.unknown(r.PathValue("permalink"))
	}
	c.connector = connector.Connector
	limit := connector.definition.Limits.RequestBytes
	limit += min(limit+maxAround, math.MaxInt64-limit) // base64 has 4 bytes for 3
	t, err := readTry(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return err
	}
	result, err := g.runTest(r.Context(), r.PathValue("permalink"), t)
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

func readTry(body io.Reader) (trial.Try, error) {
	var t trial.Try
	if err := json.NewDecoder(body).Decode(&t); err != nil && !errors.Is(err, io.EOF) {
		return trial.Try{}, refuse(http.StatusBadRequest, "the body is not JSON with method, path, headers, body and user: %s", host.Printable(err.Error()))
	}
	return t, nil
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
