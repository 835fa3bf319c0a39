package hostfn

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/printable"
)

// Step is something that a plugin did before its mutation. Credentials are masked.
type Step struct {
	// Signed is the text that was signed or hashed. It is empty for an exchange and a discovery.
	Signed string `json:"signed,omitempty"`
	// By is the host function and the algorithm, such as "mac HS256".
	By string `json:"by,omitempty"`
	// Discovery is an endpoint from the metadata of an issuer, or nil.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Exchange is a request to a token endpoint, or nil.
	Exchange *Exchange `json:"exchange,omitempty"`
}

// Discovery is an endpoint that the metadata of an issuer names: the member Endpoint has the value URL.
type Discovery struct {
	Issuer   string `json:"issuer"`
	Endpoint string `json:"endpoint"`
	URL      string `json:"url"`
}

// Exchange is a request to a token endpoint. Credentials are masked.
type Exchange struct {
	Method  string     `json:"method"`
	URL     string     `json:"url"`
	Headers []abi.Pair `json:"headers,omitempty"`
	// Body is the form or the JSON. The form is not percent-encoded.
	Body string `json:"body,omitempty"`
	// Answer is the answer, or nil if the request was not sent.
	Answer *MaskedAnswer `json:"answer,omitempty"`
}

// String returns the step for people to read: a line that says what it is, and then the text or the request with two spaces
// before each line. Control characters are escaped.
func (s Step) String() string {
	switch d := s.Discovery; {
	case s.Exchange != nil:
		return s.Exchange.String()
	case d != nil:
		return indented("the metadata of "+d.Issuer, d.Endpoint+": "+d.URL)
	}
	return indented("the data of "+s.By, strings.Split(s.Signed, "\n")...)
}

// String returns the exchange for people to read: a line that says what it is, and then the request with two spaces before each
// line, and in the same way the answer, if there is one. Control characters are escaped.
func (e Exchange) String() string {
	lines := []string{e.Method + " " + e.URL}
	for _, pair := range e.Headers {
		lines = append(lines, pair.Name+": "+pair.Value)
	}
	if e.Body != "" {
		lines = append(lines, strings.Split(e.Body, "\n")...)
	}
	text := indented("the request to the token endpoint", lines...)
	if e.Answer != nil {
		text += e.Answer.String()
	}
	return text
}

// indented returns a heading, and lines with two spaces before each, printable.
func indented(heading string, lines ...string) string {
	var b strings.Builder
	b.WriteString(heading + "\n")
	for _, line := range lines {
		b.WriteString("  " + printable.Text(line, maxShownLine) + "\n")
	}
	return b.String()
}

// maxShownLine is the maximum number of bytes of a line for people.
const maxShownLine = 1024

// Steps returns what an explained call did, in order.
func (c *Call) Steps() []Step { return c.steps }

// explains reports whether the call records its steps.
func (c *Call) explains() bool { return c.mode == Explaining || c.plan.Explains || c.Trace != nil }

// explainSigned records a text that is signed, if the call is explained.
func (c *Call) explainSigned(by, data string) {
	if c.explains() {
		c.steps = append(c.steps, Step{Signed: c.masked(data), By: by})
	}
}

// explainDiscovery records what was discovered, once, if the call is explained.
func (c *Call) explainDiscovery(d template.Discovery, url string) {
	known := func(s Step) bool {
		return s.Discovery != nil && s.Discovery.Issuer == d.Issuer && s.Discovery.Endpoint == d.Member
	}
	if c.explains() && !slices.ContainsFunc(c.steps, known) {
		c.steps = append(c.steps, Step{Discovery: &Discovery{d.Issuer, d.Member, url}})
	}
}

// explainExchange records a request, if the call is explained.
func (c *Call) explainExchange(w *wire) {
	if !c.explains() {
		return
	}
	e := &Exchange{Method: w.method, URL: c.masked(w.url), Body: c.maskedParameters(w.form)}
	for _, segment := range w.path {
		e.URL = strings.TrimSuffix(e.URL, "/") + "/" + c.masked(segment)
	}
	if query := c.maskedParameters(w.query); query != "" {
		separator := "?"
		if strings.Contains(e.URL, "?") {
			separator = "&"
		}
		e.URL += separator + query
	}
	for _, pair := range w.headers {
		e.Headers = append(e.Headers, abi.Pair{Name: c.masked(pair.Name), Value: c.masked(pair.Value)})
	}
	if w.contentType == jsonType {
		document, err := strictjson.Marshal(w.json)
		if err == nil {
			e.Body = c.masked(string(document))
		}
	}
	c.steps = append(c.steps, Step{Exchange: e})
}
