package hostfn

import (
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/mask"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
)

// Steps returns what an explained call did, in order.
func (c *report) Steps() []mask.Step { return c.steps }

// explains reports whether the call records its steps.
func (c *report) explains() bool { return c.mode == Explaining || c.plan.Explains || c.Trace != nil }

// explainSigned records a text that is signed, if the call is explained.
func (c *report) explainSigned(by, data string) {
	if c.explains() {
		c.steps = append(c.steps, mask.Step{Signed: c.masked(data), By: by})
	}
}

// explainDiscovery records what was discovered, once, if the call is explained.
func (c *report) explainDiscovery(d template.Discovery, url string) {
	known := func(s mask.Step) bool {
		return s.Discovery != nil && s.Discovery.Issuer == d.Issuer && s.Discovery.Endpoint == d.Member
	}
	if c.explains() && !slices.ContainsFunc(c.steps, known) {
		c.steps = append(c.steps, mask.Step{Discovery: &mask.Discovery{Issuer: d.Issuer, Endpoint: d.Member, URL: url}})
	}
}

// explainExchange records a request, if the call is explained.
func (c *exchanging) explainExchange(w *wire) {
	if !c.explains() {
		return
	}
	e := &mask.Exchange{Method: w.method, URL: c.masked(w.url), Body: c.maskedParameters(w.form)}
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
	c.steps = append(c.steps, mask.Step{Exchange: e})
}

// traced calls Trace with an exchange.
func (c *report) traced(a *answer.Reply, took time.Duration, err error) {
	if c.Trace == nil {
		return
	}
	c.Trace(func(m *mask.Masker, descriptions bool) (e mask.Exchange) {
		for _, step := range slices.Backward(c.steps) {
			if step.Exchange != nil {
				e = *step.Exchange
				break
			}
		}
		masked := m.Answer(c.plan.Answers, a.Status, a.Header, a.Body)
		masked.Took(took, err)
		if descriptions {
			masked.Description = mask.Description(a, func(text string) bool {
				return c.Scrub(text) != text || leakscan.New(c.secretForms()).HoldsFolded(text)
			})
		}
		e.Answer = &masked
		return e
	})
}
