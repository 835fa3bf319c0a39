package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/lockedreader"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/operate/explain"
	"github.com/keywright/keywright/server/internal/terminal"
)

// explanation is the document of explain.
type explanation struct {
	*explain.Document
	fuel bool
}

func (e explanation) print(a *app) { a.out.Printf("%s", e.Render(a.out.Style, e.fuel)) }

func explainCommand(a *app) *cobra.Command {
	var flags requestFlags
	var verbose, withCode bool
	var old string
	c := a.jsonCommand("explain", func(c *cobra.Command, args []string) error {
		switch {
		case old == "":
			return connectorAndPath(c, args)
		case len(args) == 0:
			return nil
		}
		return arguments("CONNECTOR", "PATH")(c, args)
	}, func(c *cobra.Command, args []string) (document, error) {
		if old != "" {
			return a.explainDiff(c, &flags, old, args, withCode)
		}
		if withCode {
			return nil, misuse(c, "--exit-code goes with --diff")
		}
		_, connector, request, err := a.prepare(c, &flags, true, args)
		if err != nil {
			return nil, err
		}
		doc, err := explain.Of(connector, request, args[1])
		return explanation{doc, verbose}, err
	})
	flags.add(c)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show how much fuel the plugin used, which --json has too")
	c.Flags().StringVar(&old, "diff", "", "show what is different from the file `OLD`: members, what they allow now, and requests; without CONNECTOR and PATH, of all connectors and settings")
	c.Flags().BoolVar(&withCode, "exit-code", false, "with --diff, exit with 3 if something is different, and with 4 if something more is allowed")
	return c
}

// changes is the document of explain --diff.
type changes struct {
	// Wider reports whether something is allowed that was not before.
	Wider bool `json:"wider"`
	*difference.Document
	// Requests has the lines that one explanation alone has, by permalink: with a minus those of the old one, with a plus those of the new.
	Requests map[string][]string `json:"requests"`
	// permalinks has all connectors of both files.
	permalinks []string
}

// explainDiff returns what is different between the file old and that of f: members, what they allow, and requests. With args, it does
// so for one connector. With withCode, the error has the exit code for changes.
func (a *app) explainDiff(c *cobra.Command, f *requestFlags, old string, args []string, withCode bool) (document, error) {
	if f.data == "@-" {
		return nil, misuse(c, "--diff reads the body for each request: give -d a file")
	}
	now := time.Now()
	earlier := *f
	earlier.file = old
	oldSet, was, err := a.requests(c, &earlier, now, args)
	if err != nil {
		return nil, err
	}
	newSet, is, err := a.requests(c, f, now, args)
	if err != nil {
		return nil, err
	}
	if len(args) > 0 && len(was)+len(is) == 0 {
		return nil, fmt.Errorf("neither %s nor %s has the connector %s", old, f.file, host.Printable(args[0]))
	}
	d := difference.Of(oldSet, newSet)
	if len(args) > 0 {
		d.Only(func(permalink string) bool { return was[permalink] != nil || is[permalink] != nil })
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	doc := &changes{d.Wider(), d, map[string][]string{}, slices.Sorted(maps.Keys(all))}
	for _, permalink := range doc.permalinks {
		if lines := changedLines(was[permalink], is[permalink]); len(lines) > 0 {
			for i := range lines {
				lines[i] = oldSet.Conceal(newSet.Conceal(lines[i]))
			}
			doc.Requests[permalink] = lines
		}
	}
	switch {
	case withCode && doc.Wider:
		return doc, exitWider
	case withCode && (!d.Empty() || len(doc.Requests) > 0):
		return doc, exitDifferent
	}
	return doc, nil
}

func (doc *changes) print(a *app) {
	s := a.out.Style
	var b strings.Builder
	changed := 0
	for _, permalink := range doc.permalinks {
		var members []difference.Member
		if i := slices.IndexFunc(doc.Changed, func(c difference.Connector) bool { return c.Permalink == permalink }); i >= 0 {
			members = doc.Changed[i].Members
		}
		word, note := "changes", ""
		if slices.Contains(doc.Added, permalink) {
			word, note = "is new", "  "+s.Yellow("wider:")+" callers may use it\n"
		} else if slices.Contains(doc.Removed, permalink) {
			word = "is gone"
		}
		if word == "changes" && len(members)+len(doc.Requests[permalink]) == 0 {
			continue
		}
		changed++
		fmt.Fprintf(&b, "%s %s\n%s", s.Bold("connector "+permalink), word, note)
		writeMembers(&b, s, members)
		for _, line := range doc.Requests[permalink] {
			style := s.Green
			if line[0] == '-' {
				style = s.Red
			}
			fmt.Fprintln(&b, style("  "+line))
		}
		b.WriteByte('\n')
	}
	if len(doc.Others) > 0 {
		fmt.Fprintln(&b, s.Bold("outside of connectors"))
		writeMembers(&b, s, doc.Others)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d of %s changed", changed, terminal.Count(len(doc.permalinks), "connector"))
	if doc.Wider {
		b.WriteString("; more is allowed than before, see wider")
	}
	a.out.Line("%s", b.String())
}

func writeMembers(b *strings.Builder, s terminal.Style, members []difference.Member) {
	for _, m := range members {
		fmt.Fprintf(b, "  ~ %s", m.Path)
		if m.Before != "" || m.After != "" {
			fmt.Fprintf(b, "  %s → %s", cmp.Or(m.Before, "none"), cmp.Or(m.After, "none"))
		}
		if m.Wider != "" {
			fmt.Fprintf(b, "\n    %s %s", s.Yellow("wider:"), m.Wider)
		}
		b.WriteByte('\n')
	}
}

// requests explains the requests of the connectors of a file, by permalink. An explanation is a list of lines. Those of one file do
// not depend on others in it, and the time is the same for all.
func (a *app) requests(c *cobra.Command, f *requestFlags, now time.Time, args []string) (*connectors.Set, map[string][]string, error) {
	random := &lockedreader.Reader{}
	random.Seed("") // for the host itself
	set, err := a.load(c, &f.configFlags, func(o *connectors.Options) {
		o.Conceal = true
		o.Host.Clock, o.Host.Random = func() time.Time { return now }, random
	})
	if err != nil {
		return nil, nil, err
	}
	all := map[string][]string{}
	for _, connector := range set.Connectors {
		permalink, path := connector.Definition().Permalink, ""
		if len(args) > 0 {
			if match, err := set.Find(args[0]); err != nil || match != connector {
				continue
			}
			path = args[1]
		}
		random.Seed(permalink)
		var doc *explain.Document
		_, request, err := a.outgoing(c, f, set, true, []string{permalink, path})
		if err == nil {
			doc, err = explain.Of(connector, request, "")
		}
		text := fmt.Sprintf("cannot be explained: %v\n", err)
		if err == nil {
			text = doc.Render(terminal.Style{}, false)
		}
		all[permalink] = slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
	}
	return set, all, nil
}

// changedLines returns the lines that only one of two texts has, in order: those of oldLines with a minus, those of newLines with a plus.
func changedLines(oldLines, newLines []string) (lines []string) {
	text := func(lines []string) []byte { return []byte(strings.Join(append(lines, ""), "\n")) }
	_, hunks, _ := strings.Cut(string(diff.Diff("before", text(oldLines), "after", text(newLines))), "\n+++ after\n")
	for line := range strings.Lines(hunks) {
		if line[0] == '-' || line[0] == '+' {
			lines = append(lines, line[:1]+" "+strings.TrimSuffix(line[1:], "\n"))
		}
	}
	return lines
}
