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
	s, width := p.Style, cmp.Or(p.Columns(), terminal.Narrow)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", s.Bold("Five auth types, each a WebAssembly plugin in a sandbox that sees no secret"))
	fmt.Fprintf(&b, "  %s  %s\n", s.Dim("token endpoint"), r.TokenURL)
	fmt.Fprintf(&b, "  %s  %s\n\n", s.Dim("API           "), r.APIURL)
	fmt.Fprintln(&b, s.Dim("  AUTH TYPE                         ANSWERS    EXCHANGES   SANDBOX 1ST, 2ND"))
	requests, exchanges := 0, 0
	for _, result := range r.Results {
		writeResult(&b, s, width, result)
		requests += len(result.Requests)
		exchanges += result.Exchanges
	}
	b.WriteByte('\n')
	if r.OK {
		fmt.Fprintf(&b, "%s %s, all answered 200; %s, then the cache\n",
			s.Green("✓"), terminal.Count(requests, "request"), terminal.Count(exchanges, "token exchange"))
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&b, "%s %s\n", s.Red("✗"), problem)
	}
	p.Printf("%s", b.String())
}

func writeResult(b *strings.Builder, s terminal.Style, width int, result Result) {
	const green, wide = 200, 34
	var answers, times []string
	cached := false
	for _, request := range result.Requests {
		status := fmt.Sprint(request.Status)
		if request.Status == green {
			answers = append(answers, s.Green(status))
		} else {
			answers = append(answers, s.Red(status))
		}
		times = append(times, fmt.Sprintf("%d µs", request.Sandbox.Microseconds()))
		cached = cached || request.Cached
	}
	exchanged := "–"
	if result.Exchanges > 0 || cached {
		exchanged = fmt.Sprint(result.Exchanges)
	}
	fmt.Fprintf(b, "  %s%s    %s%s\n", s.Bold(terminal.Pad(result.Connector, wide)), strings.Join(answers, " "), terminal.Pad(exchanged, 12), strings.Join(times, ", "))
	last := result.Requests[len(result.Requests)-1].Received
	for _, line := range received(last) {
		fmt.Fprintf(b, "    %s\n", s.Dim(line))
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
		lines := terminal.Wrap(document, width-indent-1)
		fmt.Fprintf(b, "    %s\n", s.Dim(part.name+" "+strings.Join(lines, "\n"+strings.Repeat(" ", indent))))
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
