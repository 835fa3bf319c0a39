package main

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	auditlog "github.com/keywright/keywright/server/internal/audit"
	"github.com/keywright/keywright/server/internal/terminal"
)

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Verify the audit log of a gateway",
		Args:  cobra.ArbitraryArgs,
		RunE:  noCommand,
	}
	c.AddCommand(a.auditVerify())
	return c
}

// auditReport is the document of audit verify --json.
type auditReport struct {
	OK    bool   `json:"ok"`
	Lines uint64 `json:"lines"`
	Uses  uint64 `json:"uses"`
	Torn  uint64 `json:"torn"`
	Lost  uint64 `json:"lost"`
	// First and Last are the numbers of the first and the last line that fit. They are 0 if there is none.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// From and To are empty without such a line.
	From string `json:"from"`
	To   string `json:"to"`
	Hash string `json:"hash"`
	// Ended reports whether the last line is one after which nothing was to come.
	Ended bool `json:"ended"`
	// Empty has the files without a line.
	Empty []string `json:"empty"`
	// Broken is nil if all lines fit.
	Broken *brokenLine `json:"broken"`
	// Found is nil unless --hash was given.
	Found *bool `json:"hash_found,omitempty"`
}

// brokenLine is the first line that does not fit.
type brokenLine struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

func (a *app) auditVerify() *cobra.Command {
	var asJSON bool
	var hash string
	c := &cobra.Command{
		Use:   "verify [--hash HASH] [--json] FILE...",
		Short: "Verify that no line of an audit log was changed, taken out or put in",
		Long: "Verifies the hashes of an audit log (gateway.audit), and says which line is the first that does not fit. Give all files of a log " +
			"that was rotated, in any order; they may be compressed with gzip. It exits with 1 if a line does not fit, or if there is none. " +
			"While no gateway runs, FILE.head has the hash of the last line, and is compared too.\n\n" +
			"Who can write the file can also make all hashes anew, or cut off the end. The log of the gateway has the hash of the last line " +
			"every ten minutes and at the end. With --hash and one of these from where the log was sent, it also exits with 1 if no line has " +
			"that hash.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse(c, "without FILE")
			}
			if sum, err := hex.DecodeString(hash); hash != "" && (err != nil || len(sum) != 32) {
				return misuse(c, "--hash is not a hash of the log: it has 64 hexadecimal digits")
			}
			return nil
		},
		RunE: a.orJSON(&asJSON, func(_ *cobra.Command, args []string) error {
			report, err := auditlog.Verify(args, hash)
			if err != nil {
				return err
			}
			v := auditReportOf(&report, hash != "")
			if asJSON {
				err = a.writeJSON(v)
			} else {
				err = a.writeAuditReport(v)
			}
			if err == nil && !v.OK {
				err = errReported
			}
			return err
		}),
	}
	c.Flags().StringVar(&hash, "hash", "", "the `HASH` of a line that the log must have, from the log of the gateway")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

func auditReportOf(r *auditlog.Report, wanted bool) *auditReport {
	v := &auditReport{
		OK: r.Broken == nil && r.Lines > 0 && (r.Found || !wanted), Lines: r.Lines, Uses: r.Uses, Torn: r.Torn, Lost: r.Lost, First: r.First, Last: r.HeadLine,
		Hash: r.Head, Ended: r.Ended, Empty: append([]string{}, r.Empty...),
	}
	if r.Lines > 0 {
		v.From, v.To = r.From.Format(time.RFC3339), r.To.Format(time.RFC3339)
	}
	if wanted {
		v.Found = &r.Found
	}
	if b := r.Broken; b != nil {
		v.Broken = &brokenLine{b.File, b.Line, b.Why}
	}
	return v
}

func (a *app) writeAuditReport(v *auditReport) error {
	lines := []string{"no line fits"}
	if v.Lines > 0 {
		lines = []string{
			fmt.Sprintf("lines %d to %d fit: %s, from %s to %s", v.First, v.Last, terminal.Count(int(v.Uses), "use"), v.From, v.To),
			fmt.Sprintf("hash of line %d: %s", v.Last, v.Hash),
		}
	}
	if v.First > 1 {
		lines = append(lines, fmt.Sprintf("the lines before line %d are in other files", v.First))
	}
	if v.Torn > 0 {
		lines = append(lines, "not written whole, because a process was killed: "+terminal.Count(int(v.Torn), "line"))
	}
	if v.Lost > 0 {
		lines = append(lines, "not recorded, because the log could not be written: "+terminal.Count(int(v.Lost), "use"))
	}
	if v.Broken == nil && !v.Ended && v.Lines > 0 {
		lines = append(lines, "the last line is no end: the process still runs or was killed, another file has the lines after it, or they were cut off")
	}
	for _, name := range v.Empty {
		lines = append(lines, host.Printable(name)+" is empty: a gateway writes the first line when it begins a file")
	}
	for _, line := range lines {
		if err := writeLine(a.out, line); err != nil {
			return err
		}
	}
	if v.Broken == nil && v.Lines == 0 {
		a.printErr("keywright: there is no line: no gateway has written these files, or somebody has emptied them")
	}
	if b := v.Broken; b != nil {
		a.printErr("%s:%d: this line %s", host.Printable(b.File), b.Line, b.Why)
	}
	if v.Found != nil && !*v.Found {
		a.printErr("keywright: no line that fits has the hash of --hash: the log was made anew, its end was cut off, or another file has that line")
	}
	return nil
}
