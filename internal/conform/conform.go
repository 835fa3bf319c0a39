// Package conform makes the checks of package host/hosttest/conform.
package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

// A Report is the result of [Run].
type Report struct {
	// Name is the name of the module.
	Name string `json:"name"`
	// Type, Version and Contract are those of the description. They are zero if the module could not be loaded.
	Type     string `json:"type"`
	Version  string `json:"version"`
	Contract int    `json:"contract"`
	// Conforms is set if all checks have passed.
	Conforms bool `json:"conforms"`
	// Checks are the checks that ran, in this order.
	Checks []Check `json:"checks"`
	// Fuel is the work of the plugin.
	Fuel Fuel `json:"fuel"`
	// Configs are the configurations made from the description. It is empty if some were given, since these may hold secrets.
	Configs []hosttest.Config `json:"configs"`
}

// A Check is one check of a [Report].
type Check struct {
	// Name is a word such as determinism.
	Name string `json:"name"`
	// Passed is set if there are no findings.
	Passed bool `json:"passed"`
	// Cases is the number of cases that were tried. It is 0 if the check does not apply to the plugin.
	Cases int `json:"cases"`
	// Tried says what was tried.
	Tried string `json:"tried"`
	// Findings has a sentence for each case that failed, up to 20, and one with the number of the others.
	Findings []string `json:"findings"`
}

// Fuel is the work of a plugin in the units of [host.Limits], by the run of authenticate that used most for each request.
type Fuel struct {
	// P50 is the median of all requests.
	P50 int64 `json:"p50"`
	// Worst is the highest of all requests.
	Worst int64 `json:"worst"`
	// Limit is the limit of the host.
	Limit int64 `json:"limit"`
}

const maxFindings = 20

// Run checks whether a module does what hosts and operators expect of any plugin, beyond what a host enforces by itself.
// It needs no test of the author: it makes configurations from the description of the plugin, and stands for the endpoints and
// the API. If configs are given, it uses those in their place. The secrets and variables that their templates name are made up.
// Package host/hosttest/conform has the list of checks.
//
// The error is that of ctx. Everything else is part of the report.
func Run(ctx context.Context, m hosttest.Module, configs ...hosttest.Config) (*Report, error) {
	c := newConformer(ctx, m, configs)
	for _, step := range steps {
		ok := c.check(step)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if !ok && step.ends {
			break
		}
	}
	c.report.Conforms = !slices.ContainsFunc(c.report.Checks, func(k Check) bool { return !k.Passed })
	c.report.Fuel = c.work()
	if len(c.callers) == 0 {
		c.report.Configs = slices.Concat([]hosttest.Config{}, c.configs)
	}
	return c.report, nil
}

type step struct {
	name, description string
	run               func(c *conformer, k *checking)
	// ends is set if no other check makes sense when this one fails.
	ends bool
}

var steps = []step{
	{"contract", "loaded and described in two hosts", (*conformer).contract, true},
	{"configurations", "configurations made from the description", (*conformer).configurations, true},
	{"determinism", "each configuration in two hosts, with the same time and random bytes", (*conformer).determinism, false},
	{"pristine", "each configuration after the others, and each request three times", (*conformer).pristine, false},
	{"sealed", "secrets that are short, long or full of special characters, in each sealed field", inTrial((*trial).sealed), false},
	{"values", "each field missing, blank, huge and odd, as a literal and from a template", inTrial((*trial).values), false},
	{"endpoints", "token endpoints that fail or answer nonsense", inTrial((*trial).endpoints), false},
	{"challenges", "an API that refuses, with strange challenges", inTrial((*trial).challenges), false},
	{"unicode", "paths, queries, headers and bodies of all sorts", inTrial((*trial).unicode), false},
	{"fuel", "", (*conformer).fuel, false},
	{"leaks", "logs, errors, states and memory after each case", (*conformer).leakage, false},
}

// inTrial returns the run of a check whose cases have a host in common.
func inTrial(run func(*trial)) func(*conformer, *checking) {
	return func(c *conformer, k *checking) { c.trial(k, k.Name, run) }
}

type checking struct {
	Check
	more int
}

func (k *checking) find(format string, args ...any) {
	finding := host.Printable(fmt.Sprintf(format, args...))
	switch {
	case slices.Contains(k.Findings, finding):
	case len(k.Findings) == maxFindings:
		k.more++
	default:
		k.Findings = append(k.Findings, finding)
	}
}

// check makes a check, adds it to the report, and reports whether it has passed.
func (c *conformer) check(s step) bool {
	k := &checking{Check: Check{Name: s.name, Tried: s.description, Findings: []string{}}}
	s.run(c, k)
	if k.more > 0 {
		k.Findings = append(k.Findings, fmt.Sprintf("and %d more", k.more))
	}
	k.Passed = len(k.Findings) == 0
	c.report.Checks = append(c.report.Checks, k.Check)
	return k.Passed
}

func (c *conformer) work() Fuel {
	f := Fuel{Limit: host.Limits{}.WithDefaults().Fuel}
	if len(c.fuels) > 0 {
		slices.Sort(c.fuels)
		f.P50, f.Worst = c.fuels[len(c.fuels)/2], c.fuels[len(c.fuels)-1]
	}
	return f
}

// String returns the report for people to read: a line for each check, with its findings below it.
func (r *Report) String() string {
	var b strings.Builder
	if r.Type != "" {
		fmt.Fprintf(&b, "%s: auth type %s %s, contract %d\n\n", host.Printable(r.Name), r.Type, host.Printable(r.Version), r.Contract)
	}
	for _, k := range r.Checks {
		state, cases := "ok", fmt.Sprintf("%d cases: ", k.Cases)
		if k.Cases == 1 {
			cases = "1 case: "
		}
		switch {
		case !k.Passed:
			state = "FAIL"
		case k.Cases == 0:
			state, cases = "-", "does not apply: "
		}
		fmt.Fprintf(&b, "%-5s%-15s %s%s\n", state, k.Name, cases, k.Tried)
		for _, finding := range k.Findings {
			fmt.Fprintf(&b, "       %s\n", finding)
		}
	}
	r.writeConfigs(&b)
	verdict := "conforms"
	if !r.Conforms {
		verdict = "does not conform"
	}
	fmt.Fprintf(&b, "fuel of a request: %d at p50, %d at worst, of %d\n%s %s\n", r.Fuel.P50, r.Fuel.Worst, r.Fuel.Limit, host.Printable(r.Name), verdict)
	return b.String()
}

// writeConfigs writes the configurations that findings mention.
func (r *Report) writeConfigs(b *strings.Builder) {
	for i, config := range r.Configs {
		name := fmt.Sprintf("configuration %d", i+1)
		mentions := func(finding string) bool {
			return strings.HasPrefix(finding, name+",") || strings.HasPrefix(finding, name+":") || strings.Contains(finding, ", "+name+",")
		}
		if !slices.ContainsFunc(r.Checks, func(k Check) bool { return slices.ContainsFunc(k.Findings, mentions) }) {
			continue
		}
		if document, err := json.Marshal(config); err == nil {
			fmt.Fprintf(b, "\n%s is %s\n", name, host.Printable(string(document)))
		}
	}
	b.WriteByte('\n')
}
