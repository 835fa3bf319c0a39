package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/terminal"
)

type checkReport struct {
	File    string `json:"file"`
	OK      bool   `json:"ok"`
	Secrets bool   `json:"secrets_read"`
	// Connectors is empty if there are problems.
	Connectors []connectorReport `json:"connectors"`
	// State is the member state of the file, or nil.
	State    *stateReport         `json:"state,omitempty"`
	Problems []connectors.Problem `json:"problems"`
	// Warnings lists probable mistakes. If Strict is set, one of them is a failure.
	Warnings []connectors.Problem `json:"warnings"`
	Strict   bool                 `json:"strict,omitempty"`
	// Places has what the configuration needs outside of this process, if that was asked for.
	Places []place `json:"places,omitempty"`
}

type connectorReport struct {
	Permalink string `json:"permalink"`
	Name      string `json:"name"`
	URL       string `json:"url"`
	Type      string `json:"type"`
	// Secrets holds the names of the secrets in the connector's templates. Unread are those of tenants and users among them that
	// were not read although secrets were read.
	Secrets []string `json:"secrets"`
	Unread  []string `json:"unread,omitempty"`
	// Certificate is the client certificate, if the secrets were read.
	Certificate *certificateReport `json:"client_certificate,omitempty"`
	// Notice says what the connector lacks to be of use to callers of the gateway, or is "".
	Notice string `json:"notice,omitempty"`
}

// stateReport is the store of state of a file, which check does not open.
type stateReport struct {
	Type    string   `json:"type"`
	Secrets []string `json:"secrets"`
}

// certificateReport is a client certificate that is valid now.
type certificateReport struct {
	Subject  string    `json:"subject"`
	NotAfter time.Time `json:"not_after"`
	// EndsSoon is true if it ends within 30 days.
	EndsSoon bool `json:"ends_soon"`
	// path is that of the member that has it.
	path string
}

func checkCommand(a *app) *cobra.Command {
	var flags configFlags
	var strict, reach bool
	c := a.jsonCommand("check", nil, func(c *cobra.Command, _ []string) (document, error) {
		flags.readSecrets = flags.readSecrets || flags.secretsDir != "" || flags.user.TenantID != "" || flags.user.ID != ""
		result := &checkReport{
			File: flags.file, Secrets: flags.readSecrets, Strict: strict,
			Connectors: []connectorReport{}, Problems: []connectors.Problem{}, Warnings: []connectors.Problem{},
		}
		set, err := a.load(c, &flags, func(o *connectors.Options) { o.Inspect = true })
		var wrong *connectors.Error
		switch {
		case errors.As(err, &wrong):
			result.Problems, result.Warnings = wrong.Problems, append(result.Warnings, wrong.Warnings...)
			return result, errReported
		case err != nil:
			return nil, err
		}
		result.OK, result.Warnings = true, append(result.Warnings, set.Warnings...)
		if set.State != nil {
			result.State = &stateReport{set.State.Type(), append([]string{}, set.StateSecrets...)}
		}
		for _, one := range set.Connectors {
			result.Connectors = append(result.Connectors, flags.checkReport(set, one))
		}
		if reach {
			if result.Places, err = a.reach(c, &flags, set); err != nil {
				return nil, err
			}
		}
		result.OK = (!strict || len(result.Warnings) == 0) && !slices.ContainsFunc(result.Places, func(p place) bool { return !p.OK })
		return result, reportUnless(result.OK)
	})
	flags.add(c, "connectors.yaml")
	c.Flags().BoolVar(&flags.readSecrets, "secrets", false, "read the secrets, and try the keys among them")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 1 for a warning, too")
	c.Flags().BoolVar(&reach, "reach", false, "ask the hosts, the issuers and the store of state, without a credential, and look at clock and disks")
	c.Flags().StringVar(&flags.user.TenantID, "tenant", "", "`ID` of a tenant whose secrets are read, too")
	c.Flags().StringVar(&flags.user.ID, "user-id", "", "`ID` of a user whose secrets are read, too")
	return c
}

func (f *configFlags) checkReport(set *connectors.Set, one *gateway.Connector) connectorReport {
	d := one.Definition()
	c := connectorReport{
		Permalink: d.Permalink, Name: d.Name, URL: one.BaseURL().String(), Type: d.Auth.Type(), Secrets: append([]string{}, one.Upstream().Secrets()...),
		Notice: set.ConsentNotice(one),
	}
	if end := set.ClientCertificates[d.Permalink]; end != nil {
		c.Certificate = &certificateReport{end.Subject, end.NotAfter.UTC(), end.EndsSoon(time.Now()), end.Path}
	}
	if f.readSecrets {
		options := connectors.Options{User: f.user}
		c.Unread = slices.DeleteFunc(slices.Clone(c.Secrets), func(name string) bool { return !options.Unread(name) })
	}
	return c
}

// print writes the problems, the warnings, when client certificates end, and a line with their numbers.
func (r *checkReport) print(a *app) {
	excerpts := a.excerptsFor(r.File, r.Problems, r.Warnings)
	found := func(p connectors.Problem, sign string, colour func(string) string) {
		place, text := p.Parts(r.File)
		a.out.Line("%s %s%s", a.out.Bold(place), colour(sign), text)
		a.out.Printf("%s", excerpts.render(p, colour("^")))
	}
	for _, p := range r.Problems {
		found(p, "", a.out.Red)
	}
	for _, p := range r.Warnings {
		found(p, "warning: ", a.out.Yellow)
	}
	for _, c := range r.Connectors {
		if end := c.Certificate; end != nil && !end.EndsSoon { // otherwise there is a warning
			a.out.Line("connectors.%s.%s: %s ends at %s", c.Permalink, end.path, end.Subject, end.NotAfter.Format(time.RFC3339))
		}
	}
	for i := range r.Places {
		r.Places[i].print(a)
	}
	warnings := ""
	if n := len(r.Warnings); n > 0 {
		warnings = ", " + terminal.Count(n, "warning")
	}
	if r.Strict && warnings != "" {
		warnings += ", which --strict refuses"
	}
	if wrong := len(slices.DeleteFunc(slices.Clone(r.Places), func(p place) bool { return p.OK })); wrong > 0 {
		warnings += fmt.Sprintf(", and %d of %s with a problem", wrong, terminal.Count(len(r.Places), "place"))
	}
	if len(r.Problems) == 0 {
		a.out.Line("%s: %s, no problems%s%s", r.File, terminal.Count(len(r.Connectors), "connector"), warnings, r.secrets())
	} else {
		a.out.Line("%s%s", terminal.Count(len(r.Problems), "problem"), warnings)
	}
}

// secrets returns a list of the secrets of the state and the connectors, and whether they were read.
func (r *checkReport) secrets() string {
	var names, unread []string
	if r.State != nil {
		names = append(names, r.State.Secrets...)
	}
	for _, c := range r.Connectors {
		names, unread = append(names, c.Secrets...), append(unread, c.Unread...)
	}
	if !r.Secrets {
		if len(names) == 0 {
			return ""
		}
		return " (secrets not read: " + shortList(names) + "; --secrets reads them)"
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unread, name) })
	var notes []string
	if len(names) > 0 {
		notes = append(notes, "secrets read: "+shortList(names))
	}
	if len(unread) > 0 {
		notes = append(notes, "not read: "+shortList(unread)+", which --tenant and --user-id read for one tenant and user")
	}
	if notes == nil {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// shortList returns a list of names without repetitions. After 20 names, it has the number of the others.
func shortList(names []string) string {
	const limit = 20
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if len(names) > limit {
		names, more = names[:limit], fmt.Sprintf(" and %d more", len(names)-limit)
	}
	return strings.Join(names, ", ") + more
}

// An excerpts shows the lines of a file that have problems, to the person at a terminal who wrote it. Elsewhere it shows nothing: a
// line may hold a credential, and logs are kept.
type excerpts struct {
	style terminal.Style
	width int
	// lines has the lines of each file.
	lines map[string][]string
	// found has all problems and warnings.
	found []connectors.Problem
}

// excerptsFor returns the excerpts of a file and those that it names. There are none if the command does not write to a terminal, if the
// file cannot be read again, or if there are more warnings than are listed.
func (a *app) excerptsFor(file string, problems, warnings []connectors.Problem) excerpts {
	e := excerpts{a.out.Style, a.out.Columns(), map[string][]string{}, slices.Concat(problems, warnings)}
	if e.width == 0 || slices.ContainsFunc(warnings, func(p connectors.Problem) bool { return p.Line == 0 }) {
		return e
	}
	for _, p := range e.found {
		if _, ok := e.lines[p.File]; ok {
			continue
		}
		text := a.stdin
		if name := cmp.Or(p.File, file); name != stdinName {
			text, _ = os.ReadFile(name) // without it, there is no line
		}
		e.lines[p.File] = strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	}
	return e
}

// hides reports whether a line has a part of a credential that a warning has found (threats.md 250) or that the line shows by itself
// (threats.md 280), or whether the file is no YAML, so that nobody knows which of its texts are credentials.
func (e excerpts) hides(file string, line int) bool {
	return !connectors.Harmless(e.lines[file][line-1]) || slices.ContainsFunc(e.found, func(p connectors.Problem) bool {
		ofText := p.Path == "" && p.Line > 0 // and not of a member
		return p.File == file && (ofText || p.Line <= line && line-p.Line < p.Hidden)
	})
}

// render returns the line of a problem with its number, and a caret below the character, or "". A line with a credential has no values. If
// the line is wider than the terminal, render returns the part of it around the character.
func (e excerpts) render(p connectors.Problem, caret string) string {
	lines := e.lines[p.File]
	if p.Line < 1 || p.Line > len(lines) || p.Column < 1 {
		return ""
	}
	text, column := strings.TrimRight(lines[p.Line-1], "\r"), p.Column-1
	if e.hides(p.File, p.Line) {
		text, column = problem.WithoutValues(text, column)
	}
	line := []rune(strings.Map(visible, text))
	prefix := fmt.Sprintf("%5d | ", p.Line)
	room := max(20, e.width-len(prefix))
	offset := min(column, len(line))
	if from := min(offset-room/2, len(line)-room); from > 0 {
		line, offset = line[from:], offset-from
	}
	line = line[:min(room, len(line))]
	under := fmt.Sprintf("%*s | ", len(prefix)-3, "")
	return e.style.Dim(prefix) + string(line) + "\n" + e.style.Dim(under) + strings.Repeat(" ", offset) + caret + "\n"
}

// visible returns a character of one column, for characters that would move the cursor or that fonts do not show.
func visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case !unicode.IsPrint(r):
		return '\ufffd'
	}
	return r
}
