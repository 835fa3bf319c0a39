package main

import (
	"encoding/hex"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	auditlog "github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/internal/terminal"
)

func auditVerifyCommand(a *app) *cobra.Command {
	var hash string
	c := a.jsonCommand(&cobra.Command{
		Use:   "verify [--hash HASH] [--json] FILE...",
		Short: "Verify that no line of an audit log was changed, taken out or put in",
		Long: "Verifies the hashes of an audit log (gateway.audit), and says which line is the first that does not fit. Give all files of a log " +
			"that was rotated, in any order; they may be compressed with gzip. It exits with 1 if a line does not fit, or if there is none. " +
			"While no gateway runs, FILE.head has the hash of the last line, and is compared too.\n\n" +
			"Who can write the file can also make all hashes anew, or cut off the end. The log of the gateway has the hash of the last line " +
			"every ten minutes and at the end. With --hash and one of these from where the log was sent, it also exits with 1 if no line has " +
			"that hash.",
		Args: func(c *cobra.Command, args []string) error {
			if sum, err := hex.DecodeString(hash); len(args) > 0 && hash != "" && (err != nil || len(sum) != 32) {
				return misuse(c, "--hash is not a hash of the log: it has 64 hexadecimal digits")
			}
			return someFiles(c, args)
		},
	}, func(_ *cobra.Command, args []string) (document, error) {
		report, err := auditlog.Verify(args, hash)
		if err != nil {
			return nil, err
		}
		return auditReport(report), reportUnless(report.OK)
	})
	c.Flags().StringVar(&hash, "hash", "", "the `HASH` of a line that the log must have, from the log of the gateway")
	return c
}

// auditReport is the document of audit verify.
type auditReport auditlog.Report

// print writes what fits to stdout, and what is wrong to stderr.
func (r auditReport) print(a *app) {
	if r.Lines > 0 {
		a.out.Line("lines %d to %d fit: %s, from %s to %s", r.First, r.Last, terminal.Count(int(r.Uses), "use"), r.From, r.To)
		a.out.Line("hash of line %d: %s", r.Last, r.Hash)
	} else {
		a.out.Line("no line fits")
	}
	if r.First > 1 {
		a.out.Line("the lines before line %d are in other files", r.First)
	}
	if r.Torn > 0 {
		a.out.Line("not written whole, because a process was killed: %s", terminal.Count(int(r.Torn), "line"))
	}
	if r.Lost > 0 {
		a.out.Line("not recorded, because the log could not be written: %s", terminal.Count(int(r.Lost), "use"))
	}
	if r.Broken == nil && !r.Ended && r.Lines > 0 {
		a.out.Line("the last line is no end: the process still runs or was killed, another file has the lines after it, or they " +
			"were cut off")
	}
	for _, name := range r.Empty {
		a.out.Line("%s is empty: a gateway writes the first line when it begins a file", host.Printable(name))
	}
	if r.Broken == nil && r.Lines == 0 {
		a.printErr("keywright: there is no line: no gateway has written these files, or somebody has emptied them")
	}
	if b := r.Broken; b != nil {
		a.printErr("%s:%d: this line %s", host.Printable(b.File), b.Line, b.Why)
	}
	if r.Found != nil && !*r.Found {
		a.printErr("keywright: no line that fits has the hash of --hash: the log was made anew, its end was cut off, or " +
			"another file has that line")
	}
}
