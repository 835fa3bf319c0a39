package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/terminal"
)

// checked is the document that check --json writes.
type checked struct {
	File    string `json:"file"`
	OK      bool   `json:"ok"`
	Secrets bool   `json:"secrets_read"`
	// Connectors is empty if there are problems.
	Connectors []checkedConnector `json:"connectors"`
	// State is the member state of the file, or nil.
	State    *checkedState        `json:"state,omitempty"`
	Problems []connectors.Problem `json:"problems"`
	// Warnings lists probable mistakes.
	Warnings []connectors.Problem `json:"warnings"`
}

type checkedConnector struct {
	Permalink string `json:"permalink"`
	Name      string `json:"name"`
	URL       string `json:"url"`
	Type      string `json:"type"`
	// Secrets holds the names of the secrets in the connector's templates. Unread are those of tenants and users among them that
	// were not read although secrets were read.
	Secrets []string `json:"secrets"`
	Unread  []string `json:"unread,omitempty"`
	// Certificate is the client certificate, if the secrets were read.
	Certificate *checkedCertificate `json:"client_certificate,omitempty"`
	// Notice says what the connector lacks to be of use to callers of the gateway, or is "".
	Notice string `json:"notice,omitempty"`
}

// checkedState is the store of state of a file, which check does not open.
type checkedState struct {
	Type    string   `json:"type"`
	Secrets []string `json:"secrets"`
}

// checkedCertificate is a client certificate that is valid now.
type checkedCertificate struct {
	Subject  string    `json:"subject"`
	NotAfter time.Time `json:"not_after"`
	// EndsSoon is true if it ends within 30 days.
	EndsSoon bool `json:"ends_soon"`
	// path is that of the member that has it.
	path string
}

func (a *app) check() *cobra.Command {
	var flags configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [-c FILE] [--secrets] [--dev]",
		Short: "Check a configuration: every problem, a line each, with line and column",
		Long: "Checks a configuration and its plugins, and lists every problem, and what is probably a mistake as a warning, a line each, " +
			"with line and column. On a terminal it also shows the line itself. With a problem it exits with 1, with a warning it does not. " +
			"docs/gateway.md lists what it finds.\n\n" +
			"Secrets are read only with --secrets or --secrets-dir: one that is missing or empty, a key that does not fit its algorithm, " +
			"and a client certificate that cannot be used, are problems then, and the output shows when a client certificate ends. Those of " +
			"tenants and users are read with --tenant and --user-id only, for that tenant and user. Keys that " +
			"stay in a store are asked for then, and sign nothing. A certificate of the gateway or a file of keys that is not on this machine " +
			"is a problem then, too. Nothing is sent to an API, and no store of state is opened; `keywright state status` opens it.",
		Args: arguments(),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, _ []string) error {
			flags.readSecrets = flags.readSecrets || flags.secretsDir != "" || flags.user.TenantID != "" || flags.user.ID != ""
			result := checked{File: flags.file, Secrets: flags.readSecrets, Connectors: []checkedConnector{}, Problems: []connectors.Problem{}, Warnings: []connectors.Problem{}}
			set, err := a.inspect(c.Context(), c, &flags)
			var wrong *connectors.Error
			switch {
			case errors.As(err, &wrong):
				result.Problems, result.Warnings = wrong.Problems, append(result.Warnings, wrong.Warnings...)
			case err != nil:
				return err
			default:
				defer closeSet(c.Context(), set)
				result.OK, result.Warnings = true, append(result.Warnings, set.Warnings...)
				if set.State != nil {
					result.State = &checkedState{set.State.Type(), append([]string{}, set.StateSecrets...)}
				}
				for _, one := range set.Connectors {
					result.Connectors = append(result.Connectors, flags.checked(set, one))
				}
			}
			if asJSON {
				err = a.writeJSON(result)
			} else {
				err = a.writeChecked(result)
			}
			if err == nil && !result.OK {
				err = errReported
			}
			return err
		}),
	}
	flags.add(c, "connectors.yaml")
	c.Flags().BoolVar(&flags.readSecrets, "secrets", false, "read the secrets, and try the keys among them")
	c.Flags().StringVar(&flags.user.TenantID, "tenant", "", "`ID` of a tenant whose secrets are read, too")
	c.Flags().StringVar(&flags.user.ID, "user-id", "", "`ID` of a user whose secrets are read, too")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

// checked returns what check says of a connector.
func (f *configFlags) checked(set *connectors.Set, one *gateway.Connector) checkedConnector {
	d := one.Definition()
	c := checkedConnector{
		Permalink: d.Permalink, Name: d.Name, URL: one.Base().String(), Type: d.Auth.Type, Secrets: append([]string{}, one.Upstream().Secrets()...),
		Certificate: checkedCertificateOf(set.ClientCertificates[d.Permalink]), Notice: set.ConsentNotice(one),
	}
	if f.readSecrets {
		c.Unread = f.unread(c.Secrets)
	}
	return c
}

// checkedCertificateOf returns what check shows of a client certificate, or nil for nil.
func checkedCertificateOf(c *host.ClientCertificate) *checkedCertificate {
	if c == nil {
		return nil
	}
	return &checkedCertificate{c.Subject, c.NotAfter.UTC(), c.EndsSoon(time.Now()), c.Path}
}

// String returns when the certificate ends.
func (c *checkedCertificate) String() string {
	return fmt.Sprintf("%s ends at %s", c.Subject, c.NotAfter.Format(time.RFC3339))
}

// inspect loads the configuration with the warnings of check.
func (a *app) inspect(ctx context.Context, c *cobra.Command, f *configFlags) (*connectors.Set, error) {
	options, err := a.options(c, f)
	if err != nil {
		return nil, err
	}
	options.Inspect = true
	return connectors.Load(ctx, f.file, options)
}

// writeChecked writes the result of check to stdout: the problems, the warnings, when client certificates end, and a line with their
// numbers.
func (a *app) writeChecked(result checked) error {
	excerpts := a.excerptsFor(result.File, result.Problems, result.Warnings)
	style := excerpts.style
	for _, p := range result.Problems {
		if err := a.writeFound(result.File, p, "", excerpts.of(p, style.Red("^"))); err != nil {
			return err
		}
	}
	for _, p := range result.Warnings {
		if err := a.writeFound(result.File, p, style.Yellow("warning: "), excerpts.of(p, style.Yellow("^"))); err != nil {
			return err
		}
	}
	for _, c := range result.Connectors {
		if c.Certificate == nil || c.Certificate.EndsSoon { // then there is a warning
			continue
		}
		if err := writeLine(a.out, "connectors."+c.Permalink+"."+c.Certificate.path+": "+c.Certificate.String()); err != nil {
			return err
		}
	}
	warnings := ""
	if n := len(result.Warnings); n > 0 {
		warnings = ", " + terminal.Count(n, "warning")
	}
	if !result.OK {
		return writeLine(a.out, terminal.Count(len(result.Problems), "problem")+warnings)
	}
	return writeLine(a.out, fmt.Sprintf("%s: %s, no problems%s%s", result.File, terminal.Count(len(result.Connectors), "connector"), warnings, result.secrets()))
}

// writeFound writes a problem or a warning, which has a sign, and the line of the file below it.
func (a *app) writeFound(file string, p connectors.Problem, sign, excerpt string) error {
	place, text := p.Parts(file)
	if err := writeLine(a.out, terminal.StyleOf(a.out, a.env).Bold(place)+" "+sign+text); err != nil {
		return err
	}
	_, err := io.WriteString(a.out, excerpt)
	return err
}

// unread returns the names of secrets of tenants and users that the flags do not name.
func (f *configFlags) unread(names []string) []string {
	options := connectors.Options{User: f.user}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !options.Unread(name) })
}

// secrets returns a list of the secrets of the state and the connectors, and whether they were read.
func (r *checked) secrets() string {
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
	var said []string
	if len(names) > 0 {
		said = append(said, "secrets read: "+shortList(names))
	}
	if len(unread) > 0 {
		said = append(said, "not read: "+shortList(unread)+", which --tenant and --user-id read for one tenant and user")
	}
	if said == nil {
		return ""
	}
	return " (" + strings.Join(said, "; ") + ")"
}

// shortList returns a list of names without repetitions. After 20 names, it has the number of the others.
func shortList(names []string) string {
	const most = 20
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ") + more
}
