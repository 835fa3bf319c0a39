package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"unicode/utf8"

	"github.com/keywright/keywright/host"
)

// maxAround is the number of bytes that the JSON of a test may have beside the body.
const maxAround = 64 << 10

// maxShown is the maximum number of bytes of the request's body in a [TestResult].
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
	// User is the user for whom the request is made. In JSON, it is the member user, whose members have the names of templates.
	User host.User `json:"-"`
	// ErrorDescription asks for what token endpoints say about a refusal ([host.Trace].Descriptions).
	ErrorDescription bool `json:"error_description"`
	// AskAnew asks token endpoints although the gateway remembers that they have refused the same request ([host.Trace].AskAnew).
	AskAnew bool `json:"ask_anew"`
}

// plainTry is a Try without methods.
type plainTry Try

// tryDocument is a Try with its user, as JSON has it.
type tryDocument struct {
	plainTry
	User triedUser `json:"user"`
}

// MarshalJSON writes the user's token too, for [Gateway.Test].
func (t Try) MarshalJSON() ([]byte, error) {
	u := &t.User
	return json.Marshal(tryDocument{plainTry(t), triedUser{u.ID, u.Email, u.Username, u.FirstName, u.LastName, u.TenantID, u.Token}})
}

// UnmarshalJSON refuses members that a Try does not have.
func (t *Try) UnmarshalJSON(text []byte) error {
	var d tryDocument
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return err
	}
	*t = Try(d.plainTry)
	t.User = d.User.user()
	return nil
}

// triedUser is a [host.User] whose JSON members have the names of its fields in templates.
type triedUser struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	TenantID  string `json:"tenant_id"`
	Token     string `json:"token"`
}

func (u *triedUser) user() host.User {
	return host.User{
		ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, TenantID: u.TenantID, Token: u.Token,
	}
}

// Test returns the handler for operators who test a connector. It must be registered with a pattern that has the wildcard
// {permalink}, such as POST /connectors/{permalink}/test, and must not be reachable for callers. A request has a [Try] as
// JSON, or no body. The answer is the [TestResult] of [Gateway.RunTest] as JSON, or a problem document with its cause.
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
	result, err := g.RunTest(r.Context(), r.PathValue("permalink"), t)
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
	var t Try
	if err := json.NewDecoder(body).Decode(&t); err != nil && !errors.Is(err, io.EOF) {
		return Try{}, refuse(http.StatusBadRequest, "the body is not JSON with method, path, headers, body and user: %s", host.Printable(err.Error()))
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
