package main

import (
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
}

func (a *app) check() *cobra.Command {
	var flags configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [-c FILE] [--secrets] [--dev]",
		Short: "Check a configuration: every problem, a line each, with line and column",
		Long: "Checks a configuration and its plugins, and lists every problem, a line each, with line and column. On a terminal it also " +
			"shows the line itself. Secrets are read " +
			"only with --secrets or --secrets-dir: one that is missing or empty, a key that does not fit its algorithm, and a client " +
			"certificate that cannot be used, are problems then, and the output shows when a client certificate ends. Those of " +
			"tenants and users are read with --tenant and --user-id only, for that tenant and user. Keys that " +
			"stay in a store are asked for then, and sign nothing. Nothing is sent to an API, and no store of state is opened; `keywright state status` opens it. Certificates of the gateway and the " +
			"keys of sessions are for `serve` to read.",
		Args: arguments(),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, _ []string) error {
			flags.readSecrets = flags.readSecrets || flags.secretsDir != "" || flags.user.TenantID != "" || flags.user.ID != ""
			result := checked{File: flags.file, Secrets: flags.readSecrets, Connectors: []checkedConnector{}, Problems: []connectors.Problem{}}
			set, err := a.load(c.Context(), c, &flags)
			var wrong *connectors.Error
			switch {
			case errors.As(err, &wrong):
				result.Problems = wrong.Problems
			case err != nil:
				return err
			default:
				defer closeSet(c.Context(), set)
				result.OK = true
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
				err = a.writeChecked(result, wrong)
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
	return &checkedCertificate{c.Subject, c.NotAfter.UTC(), c.EndsSoon(time.Now())}
}

// String returns when the certificate ends, and what to do if that is soon.
func (c *checkedCertificate) String() string {
	text := fmt.Sprintf("%s ends at %s", c.Subject, c.NotAfter.Format(time.RFC3339))
	if c.EndsSoon {
		text += ", within 30 days: renew it"
	}
	return text
}

// writeChecked writes the result of check to stdout, including the problems.
func (a *app) writeChecked(result checked, wrong *connectors.Error) error {
	if wrong == nil {
		lines := []string{fmt.Sprintf("%s: %s, no problems%s", result.File, terminal.Count(len(result.Connectors), "connector"), result.secrets())}
		for _, c := range result.Connectors {
			if c.Certificate != nil {
				lines = append(lines, "connectors."+c.Permalink+".tls.certificate: "+c.Certificate.String())
			}
			if c.Notice != "" {
				lines = append(lines, "connectors."+c.Permalink+": "+c.Notice)
			}
		}
		for _, line := range lines {
			if err := writeLine(a.out, line); err != nil {
				return err
			}
		}
		return nil
	}
	excerpts := a.excerptsFor(result.File)
	for _, p := range wrong.Problems {
		line := p.String()
		if p.File == "" {
			line = wrong.File + ":" + line
		}
		if err := writeLine(a.out, line); err != nil {
			return err
		}
		if _, err := io.WriteString(a.out, excerpts.of(p)); err != nil {
			return err
		}
	}
	return writeLine(a.out, terminal.Count(len(wrong.Problems), "problem"))
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
