// Package tour runs Keywright end to end: it sends requests of five auth types through plugins in their sandbox to the servers
// of package demo, which check the requests.
package tour

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/demo"
	"github.com/keywright/keywright/server/internal/terminal"
)

// requests is the number of requests of each connector: one with an empty cache, and one that may use a cached token.
const requests = 2

// User is the email address of the user of all requests.
const User = "ada@example.com"

var (
	//go:embed connectors.yaml
	configuration string
	//go:embed gateway.yaml
	gatewayFile string
)

// A Stage has running servers, and a file of connectors for them.
type Stage struct {
	// File is the text of the file, for connectors.Read.
	File    []byte
	Secrets host.Secrets
	Servers *demo.Servers
}

// A GatewayCall is a request that a gateway with the file of [NewStage] answers with status 200.
type GatewayCall struct {
	Permalink string
	// User is the email address for UserHeader. It is empty if the connector does not need a user.
	User string
}

// UserHeader is the header with the user's email address, for a gateway with the file of [NewStage].
const UserHeader = "X-User-Email"

// GatewayCalls has one call for each connector of the file of [NewStage].
var GatewayCalls = []GatewayCall{{"none", ""}, {"api-key", ""}, {"oauth-client-credentials", ""}, {"jwt", User}, {"oauth-jwt-bearer", User}}

// NewStage starts the servers, with a file for a gateway that shows the five auth types. The caller must close the servers.
func NewStage(ctx context.Context) (*Stage, error) { return newStage(ctx, gatewayFile) }

// newStage starts the servers. The first line of file is a comment. In the rest, API and TOKEN stand for the servers.
func newStage(ctx context.Context, file string) (*Stage, error) {
	keys, err := demo.NewKeys()
	if err != nil {
		return nil, err
	}
	servers, err := demo.Start(ctx, keys, time.Now)
	if err != nil {
		return nil, err
	}
	_, file, _ = strings.Cut(file, "\n")
	return &Stage{
		File:    []byte(strings.NewReplacer("API", servers.APIURL, "TOKEN", servers.TokenURL).Replace(file)),
		Secrets: host.MapSecrets{"api-key": keys.APIKey, "client-secret": keys.ClientSecret, "rsa-key": keys.RSA, "ec-key": keys.EC},
		Servers: servers,
	}, nil
}

// stops has, for each connector of the file in order, the path to request and the expected number of token exchanges.
var stops = []struct {
	path      string
	exchanges int
}{
	{demo.PathNone, 0},
	{demo.PathAPIKeyHeader, 0},
	{demo.PathAPIKeyQuery, 0},
	{demo.PathBearer, 1},
	{demo.PathJWT, 0},
	{demo.PathBearer, 1},
}

// Report is the result of a tour.
type Report struct {
	OK       bool     `json:"ok"`
	TokenURL string   `json:"token_url"`
	APIURL   string   `json:"api_url"`
	Results  []Result `json:"results"`
	// Problems lists the deviations from the expected result.
	Problems []string `json:"problems"`
}

// Result is the result of one connector's requests.
type Result struct {
	Connector string `json:"connector"`
	Type      string `json:"type"`
	// Exchanges is the number of token exchanges of all requests.
	Exchanges int       `json:"exchanges"`
	Requests  []Request `json:"requests"`
}

// Request is one request of a connector.
type Request struct {
	// Status is the status of the response, or 0 if there was none.
	Status int `json:"status"`
	// Exchanges is the number of token exchanges for this request.
	Exchanges int `json:"exchanges"`
	// Cached is true if a cached token was used.
	Cached bool `json:"cached"`
	// Sandbox is the time in the sandbox, without the wait for the token endpoint.
	Sandbox time.Duration `json:"sandbox_nanoseconds"`
	// Received is the request that the API received, with masked credentials, or nil if it received none.
	Received *demo.Received `json:"received"`
}

// Run starts the servers, sends the requests, and stops the servers. Wrong results of requests are in the report.
func Run(ctx context.Context) (report *Report, err error) {
	stage, err := newStage(ctx, configuration)
	if err != nil {
		return nil, err
	}
	servers := stage.Servers
	defer func() { err = errors.Join(err, servers.Close()) }()
	t := &tour{servers: servers}
	set, err := connectors.Read(ctx, "demo/connectors.yaml", stage.File, connectors.Options{Host: host.Config{
		Secrets: stage.Secrets, Observe: t.observe,
		Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, // the servers listen on loopback, with plain HTTP
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close(context.WithoutCancel(ctx))) }()
	report = &Report{TokenURL: servers.TokenURL, APIURL: servers.APIURL, Problems: []string{}}
	for i, c := range set.Connectors {
		result, err := t.visit(ctx, c, stops[i].path)
		if err != nil {
			return nil, err
		}
		report.Results = append(report.Results, result)
	}
	report.judge(servers.Endpoint.Exchanges())
	return report, nil
}

type tour struct {
	servers *demo.Servers

	mu   sync.Mutex
	last host.Attempt
}

func (t *tour) observe(_ context.Context, attempt host.Attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = attempt
}

func (t *tour) visit(ctx context.Context, c *gateway.Connector, path string) (Result, error) {
	result := Result{Connector: c.Definition().Name, Type: c.Definition().Auth.Type()}
	client := &http.Client{Transport: c.Upstream().Transport(nil)}
	ctx = host.WithUser(ctx, host.User{Email: User})
	for range requests {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL().JoinPath(path).String(), nil)
		if err != nil {
			return result, err
		}
		n := len(t.servers.API.Received())
		one, err := t.send(client, request)
		if err != nil {
			return result, err
		}
		if received := t.servers.API.Received(); len(received) == n+1 {
			one.Received = &received[n]
		}
		result.Requests = append(result.Requests, one)
		result.Exchanges += one.Exchanges
	}
	return result, nil
}

func (t *tour) send(client *http.Client, request *http.Request) (Request, error) {
	response, err := client.Do(request)
	if err != nil {
		return Request{}, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return Request{}, fmt.Errorf("the API's answer broke off: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return Request{Status: response.StatusCode, Exchanges: t.last.Exchanges, Cached: t.last.Cached, Sandbox: t.last.SandboxTime}, nil
}

// judge adds the problems to the report. It expects status 200 for every request, and for each connector that uses tokens one
// exchange and a cached token for the second request.
func (r *Report) judge(issued int) {
	wrong := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	expected := 0
	if len(r.Results) != len(stops) {
		wrong("%d connectors were tried, not %d", len(r.Results), len(stops))
	}
	for i, result := range r.Results {
		want := stops[i].exchanges
		expected += want
		for n, request := range result.Requests {
			switch {
			case request.Status != http.StatusOK:
				wrong("%s: request %d was answered %d, not 200", result.Connector, n+1, request.Status)
			case request.Received == nil:
				wrong("%s: request %d did not reach the API exactly once", result.Connector, n+1)
			case request.Cached != (want > 0 && n > 0):
				wrong("%s: request %d: a token from the cache: %t", result.Connector, n+1, request.Cached)
			}
		}
		if result.Exchanges != want {
			wrong("%s: %d token exchanges, not %d", result.Connector, result.Exchanges, want)
		}
	}
	if issued != expected {
		wrong("the token endpoint issued %d tokens, not %d", issued, expected)
	}
	r.OK = len(r.Problems) == 0
}

// Print prints the report as text: for each auth type a line with figures, and the credential that the API received.
func (r *Report) Print(p *terminal.Printer) {
	p.Printf("%s\n\n", p.Bold("Five auth types, each a WebAssembly plugin in a sandbox that sees no secret"))
	p.Printf("  %s  %s\n", p.Dim("token endpoint"), r.TokenURL)
	p.Printf("  %s  %s\n\n", p.Dim("API           "), r.APIURL)
	p.Printf("%s\n", p.Dim("  AUTH TYPE                         ANSWERS    EXCHANGES   SANDBOX 1ST, 2ND"))
	requests, exchanges := 0, 0
	for _, result := range r.Results {
		printResult(p, result)
		requests += len(result.Requests)
		exchanges += result.Exchanges
	}
	p.Printf("\n")
	if r.OK {
		p.Printf("%s %s, all answered 200; %s, then the cache\n",
			p.Green("✓"), terminal.Count(requests, "request"), terminal.Count(exchanges, "token exchange"))
	}
	for _, problem := range r.Problems {
		p.Printf("%s %s\n", p.Red("✗"), problem)
	}
}

func printResult(p *terminal.Printer, result Result) {
	const green, wide = 200, 34
	var answers, times []string
	cached := false
	for _, request := range result.Requests {
		if status := fmt.Sprint(request.Status); request.Status == green {
			answers = append(answers, p.Green(status))
		} else {
			answers = append(answers, p.Red(status))
		}
		times = append(times, fmt.Sprintf("%d µs", request.Sandbox.Microseconds()))
		cached = cached || request.Cached
	}
	exchanged := "–"
	if result.Exchanges > 0 || cached {
		exchanged = fmt.Sprint(result.Exchanges)
	}
	p.Printf("  %s%s    %s%s\n", p.Bold(terminal.Pad(result.Connector, wide)), strings.Join(answers, " "), terminal.Pad(exchanged, 12), strings.Join(times, ", "))
	last := result.Requests[len(result.Requests)-1].Received
	for _, line := range received(last) {
		p.Printf("    %s\n", p.Dim(line))
	}
	if last == nil || last.JWT == nil {
		return
	}
	for _, part := range []struct {
		name     string
		document json.RawMessage
	}{{"header", last.JWT.Header}, {"claims", last.JWT.Claims}} {
		const indent = 4 + 7
		document := strings.ReplaceAll(string(part.document), `,"`, `, "`) // so that lines can wrap
		p.Printf("    %s\n", p.Dim(part.name+" "+terminal.Hang(document, cmp.Or(p.Columns(), terminal.Narrow), indent)))
	}
}

// received returns lines with the credential that the API found in a request.
func received(r *demo.Received) []string {
	if r == nil {
		return []string{"nothing"}
	}
	var lines []string
	for _, header := range r.Headers {
		if header.Name == "Authorization" || header.Name == demo.APIKeyHeader {
			lines = append(lines, header.Name+": "+header.Value)
		}
	}
	for _, parameter := range r.Query {
		lines = append(lines, "?"+parameter.Name+"="+parameter.Value)
	}
	if len(lines) == 0 {
		return []string{"no credential"}
	}
	return lines
}
