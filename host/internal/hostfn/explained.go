package hostfn

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
)

// Step is something that an explained call did on the way to its mutation, for a person to read. Credentials are masked.
type Step struct {
	// Signed is the text that a host function signed, and By is the function with its algorithm, such as "mac HS256". They
	// are empty for an exchange and a discovery.
	Signed, By string
	// Discovery is an endpoint from the metadata of an issuer, or nil.
	Discovery *ExplainedDiscovery
	// Exchange is the request to a token endpoint, or nil.
	Exchange *ExplainedExchange
}

// ExplainedExchange is a request to a token endpoint of an explained call. Credentials are masked.
type ExplainedExchange struct {
	Method, URL string
	Headers     []abi.Pair
	// Body is the form or the JSON, not percent-encoded.
	Body string
}

// ExplainedDiscovery is an endpoint that the metadata of an issuer names.
type ExplainedDiscovery struct{ Issuer, Endpoint, URL string }

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
		c.steps = append(c.steps, Step{Discovery: &ExplainedDiscovery{d.Issuer, d.Member, url}})
	}
}

// explainExchange records a request, if the call is explained.
func (c *Call) explainExchange(w *wire) {
	if !c.explains() {
		return
	}
	e := &ExplainedExchange{Method: w.method, URL: c.masked(w.url), Body: c.maskedParameters(w.form)}
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

// explainedAnswers returns made-up answers, for a call that is explained.
func explainedAnswers(list []Answer, wanted []string, now time.Time) map[string]string {
	found := map[string]string{}
	for i := range list {
		a := &list[i]
		if len(wanted) > 0 && !slices.Contains(wanted, a.Name) {
			continue
		}
		switch a.Kind {
		case abi.AnswerInteger:
			found[a.Name] = "3600"
		case abi.AnswerTime:
			found[a.Name] = strconv.FormatInt(now.Unix()+3600, 10)
		case abi.AnswerEnum:
			found[a.Name] = a.Enum[0]
		default:
			found[a.Name] = a.Name
		}
	}
	return found
}
