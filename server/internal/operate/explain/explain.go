// Package explain shows requests as `keywright explain` does, which are masked and not sent.
package explain

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
	"github.com/keywright/keywright/server/internal/trial"
)

// Document describes a request that would be sent, with secrets masked: the JSON of `keywright explain --json`.
type Document struct {
	*host.Explanation
	// Dropped has the names of those query parameters that the gateway would not pass on for a caller.
	Dropped []string `json:"dropped_query_parameters,omitempty"`
	// JWT has the token that <jwt> in a header stands for, or is nil.
	JWT *JWT `json:"jwt"`
}

// JWT has the parts of a token.
type JWT struct {
	Header json.RawMessage `json:"header"`
	Claims json.RawMessage `json:"claims"`
}

// Of returns the document for a request of a connector, masked, that was made for a caller's path and query. It moves the JWT in a
// header to the field JWT.
func Of(connector *gateway.Connector, request *http.Request, target string) (*Document, error) {
	explanation, err := connector.Upstream().Explain(request)
	if err != nil {
		return nil, err
	}
	_, query, _ := strings.Cut(target, "?")
	document := &Document{Explanation: explanation, Dropped: trial.Dropped(connector, query)}
	headers := explanation.Headers
	document.Headers = []abi.Pair{}
	for _, pair := range headers {
		before, rest, ok := strings.Cut(pair.Value, "<jwt {")
		if decoded, after, found := cutJWT("{" + rest); ok && found && document.JWT == nil {
			document.JWT, pair.Value = decoded, before+"<jwt>"+after
		}
		document.Headers = append(document.Headers, pair)
	}
	return document, nil
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

// Render returns the document as text for people, with the fuel in its last line if fuel is set.
func (e *Document) Render(s terminal.Style, fuel bool) string {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "%s\n\n", s.Dim(fmt.Sprintf("connector %s, auth type %s; nothing was sent", e.Connector, e.AuthType)))
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
			_ = json.Indent(b, part.document, "", "  ") // it has been decoded
			b.WriteByte('\n')
		}
	}
	if t := e.TLS; t != nil {
		fmt.Fprintf(b, "\n%s\n", s.Dim("tls, for "+strings.Join(t.For, " and ")))
		if t.ClientCertificate != nil {
			fmt.Fprintf(b, "  client certificate %s, ends at %s\n", host.Printable(t.Subject), t.NotAfter.UTC().Format(time.RFC3339))
		}
		if t.CA {
			b.WriteString("  servers are verified with ca\n")
		}
	}
	for _, step := range e.Steps {
		heading, rest, _ := strings.Cut(step.String(), "\n")
		fmt.Fprintf(b, "\n%s\n%s", s.Dim(heading), rest)
	}
	if fuel {
		fmt.Fprintf(b, "\n%s\n", s.Dim(fmt.Sprintf("the plugin used %d units of fuel", e.Fuel)))
	}
	return b.String()
}

// Text returns what `keywright explain` writes about the request of a connector for a method, a path and a query, and the user of the
// context. The token of the user is made up.
func Text(ctx context.Context, connector *gateway.Connector, method, target string) (string, error) {
	if user, ok := host.UserFrom(ctx); ok {
		user.Token = "token"
		ctx = host.WithUser(ctx, user)
	}
	path, query, _ := strings.Cut(target, "?")
	out, err := trial.NewOutgoing(ctx, connector, trial.Incoming{Method: method, Path: path, Query: query, Header: http.Header{}, Trusted: true, Masked: true})
	if err != nil {
		return "", err
	}
	request, err := out.Request(ctx, http.NoBody)
	if err != nil {
		return "", err
	}
	document, err := Of(connector, request, target)
	if err != nil {
		return "", err
	}
	return document.Render(terminal.Style{}, true), nil
}
