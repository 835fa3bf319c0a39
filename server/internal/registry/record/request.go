package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/internal/wellknown"
)

const maxBody = 4 << 10

// request sets the request of the case: the method, and texts of the same length in place of all values.
func (r *recorder) request() error {
	request := r.input.Request
	result := &casefile.Request{
		Method: request.Method, URL: "https://" + apiHost + r.path(request.URL.EscapedPath()), Headers: map[string]string{},
	}
	if request.URL.RawQuery != "" || request.URL.ForceQuery {
		result.URL += "?" + r.query(request.URL.RawQuery)
	}
	for name, values := range request.Header {
		if r.matters(name) && len(values) > 0 {
			result.Headers[name] = header(name, strings.Join(values, ", "))
		}
	}
	body, err := r.body()
	if err != nil {
		return err
	}
	if result.Body = body; body == "" && result.Method == http.MethodGet {
		result.Method = ""
	}
	r.step().Request = result
	r.replaced("the values in the path, the query, the headers and the body of the request")
	return nil
}

// path returns a path of the same shape. Literals of the configuration stay, since a placeholder is one.
func (r *recorder) path(path string) string {
	for _, literal := range r.literals {
		for _, form := range []string{literal, url.PathEscape(literal)} {
			if before, after, ok := strings.Cut(path, form); ok && len(literal) >= 3 {
				return r.path(before) + form + r.path(after)
			}
		}
	}
	return shape(path, true)
}

// query returns a query of the same shape. Names that consist of words stay.
func (r *recorder) query(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !plainName.MatchString(name) && !slices.Contains(r.literals, name) {
			name = shape(name, true)
		}
		if pairs[i] = name; ok {
			pairs[i] += "=" + shape(value, true)
		}
	}
	return strings.Join(pairs, "&")
}

// plainName is a name that consists of words, and no credential. Four words may be a passphrase.
var plainName = regexp.MustCompile(`^[a-z]{1,12}([_.-][a-z]{1,12}|[A-Z][a-z]{1,12}){0,2}$`)

// headerName is a name as headers have them, of up to three words, which X may precede.
var headerName = regexp.MustCompile(`^(X-)?[A-Z][a-z]{0,11}(-[A-Z][a-z]{0,11}){0,2}$`)

// matters reports whether a header may matter to a plugin: one that it may sign because it describes the body, one that the
// configuration names, and the cookies, to which a plugin may add one.
func (r *recorder) matters(name string) bool {
	switch name {
	case "Content-Type", "Content-Digest", "Digest", "Content-Md5", "Date", "Cookie":
		return true
	}
	return slices.ContainsFunc(configTexts(r.configs), func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(name))
	})
}

func header(name, value string) string {
	if name == "Content-Type" {
		if media, _, err := mime.ParseMediaType(value); err == nil && mediaType.MatchString(media) {
			return media
		}
	}
	if _, err := http.ParseTime(value); name == "Date" && err == nil {
		return value
	}
	return shape(value, false)
}

var mediaType = regexp.MustCompile(`^(application/(json|x-www-form-urlencoded|xml|octet-stream|problem\+json|x-ndjson)|text/(plain|csv|xml|html)|multipart/form-data)$`)

func (r *recorder) body() (string, error) {
	request := r.input.Request
	if request.GetBody == nil {
		if request.Body != nil && request.Body != http.NoBody {
			return "", errors.New("the body of the request can be read only once")
		}
		return "", nil
	}
	reader, err := request.GetBody()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	text, err := files.ReadAll(reader, maxBody)
	if err != nil {
		return "", fmt.Errorf("the body of the request cannot be read again: %w", err)
	}
	if len(text) > maxBody {
		text = text[:maxBody]
		r.check("the body is longer than %d bytes, and cut there", maxBody)
	}
	media, _, _ := mime.ParseMediaType(request.Header.Get("Content-Type"))
	return shape(strings.ToValidUTF8(string(text), "?"), media == "application/x-www-form-urlencoded"), nil
}

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
	r.step().Endpoints = endpoints
	for _, a := range r.input.Trace.Answers() {
		r.step().Answers = append(r.step().Answers, r.reply(a))
	}
}

// metadata sets the metadata of the issuers that the configuration names: an endpoint for each member, unless it could not be read.
func (r *recorder) metadata(endpoints map[string][]casefile.Reply) {
	failed := errors.As(r.input.Err, new(*host.DiscoveryError))
	documents := map[string]map[string]any{}
	for _, text := range configTexts(r.configs) {
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
		if failed {
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
	reply := casefile.Reply{Status: a.Status, Headers: map[string]string{}}
	for _, pair := range a.Headers {
		ofJSON := pair.Name == "Content-Type" && pair.Value == "application/json" && json.Valid([]byte(a.Body))
		if pair.Value != "" && !ofJSON {
			reply.Headers[pair.Name] = pair.Value
		}
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
	return casefile.Mapped(document, strings.Clone, func(value any) any {
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

func (r *recorder) run(f func(hosttest.TB, *hosttest.Harness)) []string {
	return testworld.Collect(func(tb *testworld.Collector) {
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
	step.Expect.Exchanges = expected
}

// stageOf returns the part of an error that says at which stage the request failed.
func stageOf(err error) string {
	if failure, ok := errors.AsType[*host.Error](err); ok {
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
	if failure, ok := errors.AsType[*host.Error](err); ok {
		return stageOf(err) + failure.Err.Error()
	}
	return err.Error()
}
