package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/lock"
	"github.com/keywright/keywright/server/internal/terminal"
)

// compared is the document that plugin diff --json writes.
type compared struct {
	// Wider reports whether some change is refused until an operator accepts it.
	Wider   bool          `json:"wider"`
	Changes []lock.Change `json:"changes"`
}

func (a *app) pluginDiff() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare what two versions of a plugin may do",
		Long: "Compares what two versions of a plugin may do, and exits with 1 if the new one may do more, has another contract, or is " +
			"no higher version. It runs both in the sandbox and compares what they are, not what is written about them. OLD and " +
			"NEW are compiled plugins or built-in auth types.",
		Args: arguments("OLD", "NEW"),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, args []string) error {
			var versions [2]lock.Plugin
			for i, name := range args {
				wasm, err := moduleOf(name)
				if err != nil {
					return err
				}
				info, err := host.Inspect(c.Context(), host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
				if err != nil {
					return err
				}
				versions[i] = lock.Describe(info)
			}
			changes := lock.Compare(versions[0], versions[1])
			refused := lock.Refused(changes)
			var err error
			if asJSON {
				err = a.writeJSON(compared{len(refused) > 0, orEmpty(changes)})
			} else {
				err = a.writeChanges(changes)
			}
			if err == nil && len(refused) > 0 {
				err = errReported
			}
			return err
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

// writeChanges writes the changes of a plugin as a table.
func (a *app) writeChanges(changes []lock.Change) error {
	if len(changes) == 0 {
		return writeLine(a.out, "nothing is different")
	}
	var b strings.Builder
	if err := changeTable(&b, a, changes); err != nil {
		return err
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// changeTable writes the table of changes. Its texts come from plugins, so they are made printable.
func changeTable(b *strings.Builder, a *app, changes []lock.Change) error {
	rows := [][]string{{"WHAT", "BEFORE", "NOW", "REFUSED"}}
	for _, c := range changes {
		rows = append(rows, []string{host.Printable(c.What), shown(c.Before), shown(c.Now), c.Why})
	}
	return terminal.Table(b, terminal.StyleOf(a.out, a.env), terminal.Columns(a.out), rows)
}

// shown returns values for a table. A digest is cut, and a hyphen stands for nothing. Each value is made printable for itself, so that a
// long one does not hide the others.
func shown(values []string) string {
	if len(values) == 0 {
		return "-"
	}
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = host.Printable(value)
		if rest, ok := strings.CutPrefix(value, "sha256:"); ok && len(rest) == 64 {
			all[i] = "sha256:" + rest[:12] + "…"
		}
	}
	return strings.Join(all, ", ")
}
