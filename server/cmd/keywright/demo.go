package main

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/demo"
	"github.com/keywright/keywright/server/internal/demo/tour"
)

func (a *app) demo() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run every auth type end to end, against servers that it starts itself",
		Long: "Starts a token endpoint and an API on loopback that really check what they get, sends two requests of every auth " +
			"type through plugins in their sandbox, and shows what arrived. The exit code is 0 when all of it is as it has to be.",
		Args: arguments(),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, _ []string) error {
			report, err := tour.Run(c.Context(), tour.Config{Now: time.Now, Rand: rand.Reader})
			if err != nil {
				return err
			}
			if asJSON {
				err = a.writeJSON(report)
			} else {
				err = a.writeReport(report)
			}
			if err == nil && !report.OK {
				err = errTold
			}
			return err
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

// writeReport writes the table: for each auth type a line with figures, and what the API received.
func (a *app) writeReport(r *tour.Report) error {
	s, width := a.style(), cmp.Or(columns(a.out), narrow)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", s.bold("Five auth types, each a WebAssembly plugin in a sandbox that sees no secret"))
	fmt.Fprintf(&b, "  %s  %s\n", s.dim("token endpoint"), r.TokenURL)
	fmt.Fprintf(&b, "  %s  %s\n\n", s.dim("API           "), r.APIURL)
	fmt.Fprintln(&b, s.dim("  AUTH TYPE                         ANSWERS    EXCHANGES   SANDBOX 1ST, 2ND"))
	requests, exchanges := 0, 0
	for _, result := range r.Results {
		writeResult(&b, s, width, result)
		requests += len(result.Requests)
		exchanges += result.Exchanges
	}
	b.WriteByte('\n')
	if r.OK {
		fmt.Fprintf(&b, "%s %s, all answered 200; %s, then the cache\n",
			s.green("✓"), count(requests, "request"), count(exchanges, "token exchange"))
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&b, "%s %s\n", s.red("✗"), problem)
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

func writeResult(b *strings.Builder, s style, width int, result tour.Result) {
	const green, wide = 200, 34
	var answers, times []string
	cached := false
	for _, request := range result.Requests {
		status := fmt.Sprint(request.Status)
		if request.Status == green {
			answers = append(answers, s.green(status))
		} else {
			answers = append(answers, s.red(status))
		}
		times = append(times, fmt.Sprintf("%d µs", request.Sandbox.Microseconds()))
		cached = cached || request.Cached
	}
	exchanged := "–"
	if result.Exchanges > 0 || cached {
		exchanged = fmt.Sprint(result.Exchanges)
	}
	fmt.Fprintf(b, "  %s%s    %s%s\n", s.bold(pad(result.Connector, wide)), strings.Join(answers, " "), pad(exchanged, 12), strings.Join(times, ", "))
	last := result.Requests[len(result.Requests)-1].Received
	for _, line := range received(last) {
		fmt.Fprintf(b, "    %s\n", s.dim(line))
	}
	if last == nil || last.JWT == nil {
		return
	}
	for _, part := range []struct {
		name     string
		document json.RawMessage
	}{{"header", last.JWT.Header}, {"claims", last.JWT.Claims}} {
		const indent = 4 + 7
		document := strings.ReplaceAll(string(part.document), `,"`, `, "`) // places to wrap at
		lines := wrap(document, width-indent-1)
		fmt.Fprintf(b, "    %s\n", s.dim(part.name+" "+strings.Join(lines, "\n"+strings.Repeat(" ", indent))))
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
