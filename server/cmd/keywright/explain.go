package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/terminal"
)

// explained is the document that explain --json writes.
type explained struct {
	// Connector is the permalink.
	Connector string     `json:"connector"`
	Type      string     `json:"type"`
	Method    string     `json:"method"`
	URL       string     `json:"url"`
	Headers   []abi.Pair `json:"headers"`
	// Dropped has the names of those query parameters that the gateway would not pass on for a caller.
	Dropped []string `json:"dropped_query_parameters,omitempty"`
	// JWT is the token that <jwt> in a header stands for, or nil.
	JWT *shownJWT `json:"jwt"`
	// TLS describes the connector's tls. It is nil without one.
	TLS *explainedTLS `json:"tls,omitempty"`
	// Steps are endpoints that were discovered, texts that were signed or hashed, and requests to token endpoints.
	Steps []explainedStep `json:"steps,omitempty"`
	// Fuel is the fuel that the plugin used.
	Fuel int64 `json:"fuel"`
}

// explainedTLS is the tls of a connector.
type explainedTLS struct {
	For     []string   `json:"for"`
	Subject string     `json:"subject,omitempty"`
	Ends    *time.Time `json:"not_after,omitempty"`
	// CA is true if the connector has authorities of its own.
	CA bool `json:"ca"`
}

// explainedStep is an endpoint that was discovered, a text that was signed or hashed, or a request to a token endpoint.
type explainedStep struct {
	Signed    string              `json:"signed,omitempty"`
	By        string              `json:"by,omitempty"`
	Discovery *explainedDiscovery `json:"discovery,omitempty"`
	Exchange  *explainedExchange  `json:"exchange,omitempty"`
}

// explainedDiscovery is an endpoint from the metadata of an issuer.
type explainedDiscovery struct {
	Issuer   string `json:"issuer"`
	Endpoint string `json:"endpoint"`
	URL      string `json:"url"`
}

type explainedExchange struct {
	Method  string     `json:"method"`
	URL     string     `json:"url"`
	Headers []abi.Pair `json:"headers,omitempty"`
	Body    string     `json:"body,omitempty"`
}

type shownJWT struct {
	Header json.RawMessage `json:"header"`
	Claims json.RawMessage `json:"claims"`
}

func (a *app) explain() *cobra.Command {
	var flags requestFlags
	var asJSON bool
	var old string
	c := &cobra.Command{
		Use:   "explain [-c FILE] [--user EMAIL] [--diff OLD] CONNECTOR PATH",
		Short: "Show what would be sent, secrets masked; nothing is sent",
		Long: "Shows what `keywright request` would send: url, headers, query and auth of a connector. A secret shows as its template, a token as <token>, a JWT as its header " +
			"and claims. No token endpoint is asked, and nothing is sent.\n\nWhat the gateway makes of callers' requests besides (paths, bodies, answers) shows in its test: POST /connectors/PERMALINK/test of `keywright serve`.",
		Args: func(c *cobra.Command, args []string) error {
			if old != "" && len(args) == 0 {
				return nil
			}
			return arguments("CONNECTOR", "PATH")(c, args)
		},
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, args []string) error {
			if old != "" && asJSON {
				return misuse(c, "--diff has no JSON")
			}
			if old != "" {
				return a.explainDiff(c, &flags, old, args)
			}
			return a.prepared(c, &flags, true, args, func(_ *connectors.Set, connector *gateway.Connector, request *http.Request) error {
				explanation, err := connector.Upstream().Explain(request)
				if err != nil {
					return err
				}
				shown := show(explanation)
				_, query, _ := strings.Cut(args[1], "?")
				shown.Dropped = connector.Dropped(query)
				if asJSON {
					return a.writeJSON(shown)
				}
				return a.writeExplained(shown)
			})
		}),
	}
	flags.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.Flags().StringVar(&old, "diff", "", "show only what is different from the requests with the file `OLD`; without CONNECTOR and PATH, those of all connectors to their URLs")
	return c
}

// show returns the document for an explanation. It moves the JWT in a header to the field JWT.
func show(e *host.Explanation) explained {
	shown := explained{Connector: e.Connector, Type: e.Type, Method: e.Method, URL: e.URL, Headers: []abi.Pair{}, Fuel: e.Fuel}
	if t := e.TLS; t != nil {
		shown.TLS = &explainedTLS{For: t.For, CA: t.CA}
		if t.Certificate != nil {
			ends := t.Certificate.NotAfter.UTC()
			shown.TLS.Subject, shown.TLS.Ends = t.Certificate.Subject, &ends
		}
	}
	for _, step := range e.Steps {
		shown.Steps = append(shown.Steps, explainedStep{step.Signed, step.By, (*explainedDiscovery)(step.Discovery), (*explainedExchange)(step.Exchange)})
	}
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
func cutJWT(text string) (decoded *shownJWT, after string, ok bool) {
	decoded = &shownJWT{}
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

func (a *app) writeExplained(e explained) error {
	s := terminal.StyleOf(a.out, a.env)
	var b bytes.Buffer
	if err := writeExplanation(&b, s, e); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s\n", s.Dim(fmt.Sprintf("the plugin used %d units of fuel", e.Fuel)))
	_, err := a.out.Write(b.Bytes())
	return err
}

// writeExplanation writes all of an explanation but the fuel.
func writeExplanation(b *bytes.Buffer, s terminal.Style, e explained) error {
	fmt.Fprintf(b, "%s\n\n", s.Dim(fmt.Sprintf("connector %s, auth type %s; nothing was sent", e.Connector, e.Type)))
	fmt.Fprintf(b, "%s %s\n", s.Bold(host.Printable(e.Method)), e.URL)
	for _, pair := range e.Headers {
		fmt.Fprintf(b, "%s: %s\n", s.Bold(pair.Name), pair.Value)
	}
	if len(e.Dropped) > 0 {
		fmt.Fprintf(b, "\n%s\n  %s\n", s.Dim("query parameters that the gateway drops if a caller sends them: they are not overridable"), strings.Join(e.Dropped, ", "))
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
func writeTLS(b *bytes.Buffer, s terminal.Style, t *explainedTLS) {
	fmt.Fprintf(b, "\n%s\n", s.Dim("tls, for "+strings.Join(t.For, " and ")))
	if t.Ends != nil {
		fmt.Fprintf(b, "  client certificate %s, ends at %s\n", host.Printable(t.Subject), t.Ends.Format(time.RFC3339))
	}
	if t.CA {
		b.WriteString("  servers are verified with ca\n")
	}
}

// writeStep writes a step of the plugin: a heading, and the text indented.
func writeStep(b *bytes.Buffer, s terminal.Style, step explainedStep) {
	text := host.Step{
		Signed: step.Signed, By: step.By, Discovery: (*host.ExplainedDiscovery)(step.Discovery), Exchange: (*host.ExplainedExchange)(step.Exchange),
	}.String()
	heading, rest, _ := strings.Cut(text, "\n")
	fmt.Fprintf(b, "\n%s\n%s", s.Dim(heading), rest)
}
