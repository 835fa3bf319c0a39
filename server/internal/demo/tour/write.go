package tour

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/keywright/keywright/server/internal/demo"
	"github.com/keywright/keywright/server/internal/terminal"
)

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
		status := fmt.Sprint(request.Status)
		if request.Status == green {
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
