package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/wellknown"
)

// answers sets the answers of the token endpoints and of the API. The URLs of the endpoints are not known yet.
func (r *recorder) answers() {
	var endpoint []casefile.Reply
	for _, e := range r.input.Trace.Exchanges() {
		endpoint = append(endpoint, r.reply(*e.Answer))
	}
	endpoints := map[string][]casefile.Reply{}
	if len(endpoint) > 0 {
		endpoints["*"] = endpoint
		r.replaced("the texts in the answers of token endpoints")
	}
	r.metadata(endpoints)
	if len(endpoints) > 0 {
		r.step().Endpoints = endpoints
	}
	for _, a := range r.input.Trace.Answers() {
		r.step().Answers = append(r.step().Answers, r.reply(a))
	}
}

// metadata sets the metadata of the issuers that the configuration names: an endpoint for each member, unless it could not be read.
func (r *recorder) metadata(endpoints map[string][]casefile.Reply) {
	var failed *host.DiscoveryError
	errors.As(r.input.Err, &failed)
	documents := map[string]map[string]any{}
	for _, text := range configTexts(r.out.Case.Config) {
		for _, found := range discovery.FindAllStringSubmatch(text, -1) {
			issuer, member := found[1], found[2]
			if documents[issuer] == nil {
				documents[issuer] = map[string]any{"issuer": issuer}
			}
			documents[issuer][member] = strings.TrimSuffix(issuer, "/") + "/" + member
		}
	}
	for issuer, document := range documents {
		ofOAuth, ofOpenID := wellknown.Locations(issuer)
		endpoints[ofOAuth] = []casefile.Reply{{JSON: document}}
		if failed != nil {
			endpoints[ofOAuth] = []casefile.Reply{{Unreachable: true}}
			endpoints[ofOpenID] = []casefile.Reply{{Unreachable: true}}
		}
		r.replaced("the metadata of issuers")
	}
}

// reply returns the masked answer of a trace as one of a case.
func (r *recorder) reply(a view.Answer) casefile.Reply {
	if a.Status == 0 {
		return casefile.Reply{Unreachable: true}
	}
	reply := casefile.Reply{Status: a.Status}
	for _, pair := range a.Headers {
		if pair.Value == "" || pair.Name == "Content-Type" && pair.Value == "application/json" && json.Valid([]byte(a.Body)) {
			continue
		}
		if reply.Headers == nil {
			reply.Headers = map[string]string{}
		}
		reply.Headers[pair.Name] = pair.Value
	}
	var document any
	switch {
	case a.Body != "":
		if json.Unmarshal([]byte(a.Body), &document) == nil && document != nil {
			reply.JSON = convertIntegers(document)
		} else {
			reply.Body = a.Body
		}
	case a.Length > 0:
		reply.Body = strings.Repeat("x", min(a.Length, maxBody))
	}
	return reply
}

// convertIntegers returns a document of JSON with numbers that are integers as such, so that a file has 3600 and not 3600.0.
func convertIntegers(document any) any {
	return mapped(document, strings.Clone, func(value any) any {
		if number, ok := value.(float64); ok && float64(int64(number)) == number {
			return int64(number)
		}
		return value
	})
}

// replay runs the case, and sets what the run shows: the URLs of the endpoints, and what to expect. All texts of it are those of the
// run, in which there is nothing of the operator.
func (r *recorder) replay() {
	attempts := len(r.input.Trace.Answers())
	expect := &r.step().Expect
	expect.Attempts, expect.Status = &attempts, r.input.Status
	if r.input.Err != nil {
		expect.Error = stageOf(r.input.Err)
	}
	if r.input.Module == nil {
		r.out.Differs = append(r.out.Differs, "the case was not run, since the plugin's module was not found")
		return
	}
	var err error
	var exchanges []hosttest.Exchange
	r.out.Differs = append(r.out.Differs, r.run(func(_ hosttest.TB, h *hosttest.Harness) {
		defer func() { exchanges = h.Exchanges() }()
		_, err = r.out.Case.Try(h)
	})...)
	r.endpoints(exchanges)
	if r.input.Err != nil && err != nil {
		expect.Error = common(r.input.Err, err)
	}
	for _, failure := range r.run(r.out.Case.Run) {
		if !slices.Contains(r.out.Differs, failure) {
			r.out.Differs = append(r.out.Differs, failure)
		}
	}
}

// run calls f with a new harness, and returns the failures.
func (r *recorder) run(f func(hosttest.TB, *hosttest.Harness)) []string {
	return hosttest.Collect(func(tb hosttest.TB) {
		f(tb, hosttest.New(tb, r.out.Case.Name, hosttest.Module{Name: r.info.Name, Wasm: r.input.Module}))
	}).Failures()
}

// endpoints sets the answers of token endpoints by the URLs at which the run asked for them, and that it has to ask there.
func (r *recorder) endpoints(exchanges []hosttest.Exchange) {
	step := r.step()
	rest := step.Endpoints["*"]
	expected := []casefile.Exchange{}
	for _, e := range exchanges {
		expected = append(expected, casefile.Exchange{Method: e.Method, URL: e.URL})
		if _, ok := step.Endpoints[e.URL]; ok && wellknown.Issuer(e.URL) != "" {
			continue
		}
		if len(rest) > 0 {
			step.Endpoints[e.URL] = append(step.Endpoints[e.URL], rest[0])
			rest = rest[1:]
		}
	}
	if delete(step.Endpoints, "*"); len(rest) > 0 {
		step.Endpoints["*"] = rest
		r.out.Differs = append(r.out.Differs, fmt.Sprintf("%d of the requests to token endpoints were not made", len(rest)))
	}
	if step.Expect.Exchanges = expected; len(step.Endpoints) == 0 {
		step.Endpoints = nil
	}
}

// stageOf returns the part of an error that says at which stage the request failed.
func stageOf(err error) string {
	var failure *host.Error
	if errors.As(err, &failure) {
		return string(failure.Stage) + ": "
	}
	return ""
}

// common returns the text of the run's error if that of the request is the same, and otherwise its beginning up to where they differ:
// addresses and texts of the network are not those of the request.
func common(requestErr, replayed error) string {
	first, second := textOf(requestErr), textOf(replayed)
	if first == second {
		return second
	}
	end := 0
	for end < len(first) && end < len(second) && first[end] == second[end] {
		end++
	}
	text := second[:end]
	if space := strings.LastIndexByte(text, ' '); space >= 0 && end < len(second) {
		text = text[:space]
	}
	if stage := stageOf(requestErr); len(text) < len(stage) {
		text = stage
	}
	if strings.TrimSpace(text) == "" && stageOf(replayed) == "" { // the API cannot be reached
		return second
	}
	return text
}

// textOf returns the text of an error without the name of the connector.
func textOf(err error) string {
	var failure *host.Error
	if errors.As(err, &failure) {
		return stageOf(err) + failure.Err.Error()
	}
	return err.Error()
}
