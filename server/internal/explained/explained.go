// Package explained shows requests as `keywright explain` does, which are masked and not sent.
package explained

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/terminal"
)

// Document describes a request that would be sent, with secrets masked: the JSON of `keywright explain --json`.
type Document struct {
	// Connector is the permalink.
	Connector string     `json:"connector"`
	Type      string     `json:"type"`
	Method    string     `json:"method"`
	URL       string     `json:"url"`
	Headers   []abi.Pair `json:"headers"`
	// Dropped has the names of those query parameters that the gateway would not pass on for a caller.
	Dropped []string `json:"dropped_query_parameters,omitempty"`
	// JWT has the token that <jwt> in a header stands for, or is nil.
	JWT *JWT `json:"jwt"`
	// TLS describes the connector's tls. It is nil without one.
	TLS *host.ExplainedTLS `json:"tls,omitempty"`
	// Steps are endpoints that were discovered, texts that were signed or hashed, and requests to token endpoints.
	Steps []host.Step `json:"steps,omitempty"`
	// Fuel is the fuel that the plugin used.
	Fuel int64 `json:"fuel"`
}

// JWT has the parts of a token.
type JWT struct {
	Header json.RawMessage `json:"header"`
	Claims json.RawMessage `json:"claims"`
}

// Of returns the document for an explanation. It moves the JWT in a header to the field JWT.
func Of(e *host.Explanation) Document {
	shown := Document{Connector: e.Connector, Type: e.Type, Method: e.Method, URL: e.URL, Headers: []abi.Pair{}, TLS: e.TLS, Steps: e.Steps, Fuel: e.Fuel}
	for _, pair := range e.Headers {
		before, rest, ok := strings.Cut(pair.Value, "<jwt {")
		if decoded, after, found := cutJWT("{" + rest); ok && found && shown.JWT == nil {
			shown.JWT, pair.Value = decoded, before+"<jwt>"+after
		}
		shown.Headers = append(shown.Headers, pair)
	}
	return shown
}

// cutJWT parses header and claims in the form in which the host shows them: {…}.{…}>
func cutJWT(text string) (decoded *JWT, after string, ok bool) {
	decoded = &JWT{}
	reader := json.NewDecoder(strings.NewReader(text))
	if reader.Decode(&decoded.Header) != nil {
		return nil, "", false
	}
	rest, dot := strings.CutPrefix(text[reader.InputOffset():], ".")
	reader = json.NewDecoder(strings.NewReader(rest))
	if !dot || reader.Decode(&decoded.Claims) != nil {
		return nil, "", false
	}
	after, ok = strings.CutPrefix(rest[reader.InputOffset():], ">")
	return decoded, after, ok
}

// Write writes the document as text for people, without the fuel.
func (e *Document) Write(b *bytes.Buffer, s terminal.Style) error {
	fmt.Fprintf(b, "%s\n\n", s.Dim(fmt.Sprintf("connector %s, auth type %s; nothing was sent", e.Connector, e.Type)))
	fmt.Fprintf(b, "%s %s\n", s.Bold(host.Printable(e.Method)), e.URL)
	for _, pair := range e.Headers {
		fmt.Fprintf(b, "%s: %s\n", s.Bold(pair.Name), pair.Value)
	}
	if len(e.Dropped) > 0 {
		fmt.Fprintf(b, "\n%s\n  %s\n", s.Dim("query parameters that the gateway does not pass on for a caller: they are not overridable"), strings.Join(e.Dropped, ", "))
	}
	if e.JWT != nil {
		for _, part := range []struct {
			name     string
			document json.RawMessage
		}{{"header", e.JWT.Header}, {"claims", e.JWT.Claims}} {
			fmt.Fprintf(b, "\n%s ", s.Dim("jwt "+part.name))
			if err := json.Indent(b, part.document, "", "  "); err != nil {
				return err
			}
			b.WriteByte('\n')
		}
	}
	if e.TLS != nil {
		writeTLS(b, s, e.TLS)
	}
	for _, step := range e.Steps {
		writeStep(b, s, step)
	}
	return nil
}

// writeTLS writes what the connections present and trust.
func writeTLS(b *bytes.Buffer, s terminal.Style, t *host.ExplainedTLS) {
	fmt.Fprintf(b, "\n%s\n", s.Dim("tls, for "+strings.Join(t.For, " and ")))
	if t.ClientCertificate != nil {
		fmt.Fprintf(b, "  client certificate %s, ends at %s\n", host.Printable(t.Subject), t.NotAfter.UTC().Format(time.RFC3339))
	}
	if t.CA {
		b.WriteString("  servers are verified with ca\n")
	}
}

// writeStep writes a step of the plugin: a heading, and the text indented.
func writeStep(b *bytes.Buffer, s terminal.Style, step host.Step) {
	heading, rest, _ := strings.Cut(step.String(), "\n")
	fmt.Fprintf(b, "\n%s\n%s", s.Dim(heading), rest)
}

// Text returns what `keywright explain` writes about the request of a connector for a method, a path and a query, and the user of the
// context. The token of the user is made up.
func Text(ctx context.Context, connector *gateway.Connector, method, target string) (string, error) {
	if user, ok := host.UserFrom(ctx); ok {
		user.Token = "token"
		ctx = host.WithUser(ctx, user)
	}
	path, query, _ := strings.Cut(target, "?")
	out, err := connector.Outgoing(ctx, gateway.Incoming{Method: method, Path: path, Query: query, Header: http.Header{}, Trusted: true, Masked: true})
	if err != nil {
		return "", err
	}
	out = out.Masked()
	request, err := http.NewRequestWithContext(ctx, out.Method, "https://unknown.invalid", http.NoBody)
	if err != nil {
		return "", err
	}
	request.URL, request.Host, request.Header = out.URL, "", out.Header
	explanation, err := connector.Upstream().Explain(request)
	if err != nil {
		return "", err
	}
	shown := Of(explanation)
	shown.Dropped = connector.Dropped(query)
	var b bytes.Buffer
	if err := shown.Write(&b, terminal.Style{}); err != nil {
		return "", err
	}
	shown.WriteFuel(&b, terminal.Style{})
	return b.String(), nil
}

// WriteFuel writes the fuel, as the last line of the text.
func (e *Document) WriteFuel(b *bytes.Buffer, s terminal.Style) {
	fmt.Fprintf(b, "\n%s\n", s.Dim(fmt.Sprintf("the plugin used %d units of fuel", e.Fuel)))
}
