package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/explained"
	"github.com/keywright/keywright/server/internal/terminal"
)

// explainDiff writes what is different in the requests of connectors from those with the file old. Without args, these are the
// requests of all connectors to their URLs.
func (a *app) explainDiff(c *cobra.Command, f *requestFlags, old string, args []string) error {
	if f.data == "@-" {
		return misuse(c, "--diff reads the body for each request: give -d a file")
	}
	before := *f
	before.file = old
	now := time.Now()
	was, err := a.requests(c, &before, now, args)
	if err != nil {
		return err
	}
	is, err := a.requests(c, f, now, args)
	if err != nil {
		return err
	}
	var permalinks []string
	for _, all := range []map[string][]string{was, is} {
		for permalink := range all {
			permalinks = append(permalinks, permalink)
		}
	}
	slices.Sort(permalinks)
	permalinks = slices.Compact(permalinks)
	if len(args) > 0 && len(permalinks) == 0 {
		return fmt.Errorf("neither %s nor %s has the connector %s", old, f.file, host.Printable(args[0]))
	}
	s := terminal.StyleOf(a.out, a.env)
	var b strings.Builder
	changed := 0
	for _, permalink := range permalinks {
		text := difference(s, was[permalink], is[permalink])
		if text == "" {
			continue
		}
		changed++
		word := "changes"
		if was[permalink] == nil {
			word = "is new"
		} else if is[permalink] == nil {
			word = "is gone"
		}
		fmt.Fprintf(&b, "%s %s\n%s\n", s.Bold("connector "+permalink), word, text)
	}
	fmt.Fprintf(&b, "%d of %s changed\n", changed, terminal.Count(len(permalinks), "connector"))
	return writeLine(a.out, strings.TrimSuffix(b.String(), "\n"))
}

// requests explains the requests of the connectors of a file, by permalink. An explanation is a list of lines. Those of one file do
// not depend on others in it, and the time is the same for all.
func (a *app) requests(c *cobra.Command, f *requestFlags, now time.Time, args []string) (map[string][]string, error) {
	options, err := a.options(c, &f.configFlags)
	if err != nil {
		return nil, err
	}
	random := &seeded{}
	options.Host.Clock, options.Host.Random = func() time.Time { return now }, random
	random.seed("") // for the host itself
	set, err := connectors.Load(c.Context(), f.file, options)
	if err != nil {
		return nil, err
	}
	defer closeSet(context.WithoutCancel(c.Context()), set)
	all := map[string][]string{}
	for _, connector := range set.Connectors {
		permalink, path := connector.Definition().Permalink, ""
		if len(args) > 0 {
			if wanted, err := set.Find(args[0]); err != nil || wanted != connector {
				continue
			}
			path = args[1]
		}
		random.seed(permalink)
		_, request, err := a.outgoing(c, f, set, true, []string{permalink, path})
		var text bytes.Buffer
		if err == nil {
			var explanation *host.Explanation
			if explanation, err = connector.Upstream().Explain(request); err == nil {
				shown := explained.Of(explanation)
				shown.Fuel = 0
				err = shown.Write(&text, terminal.Style{})
			}
		}
		if err != nil {
			fmt.Fprintf(&text, "cannot be explained: %v\n", err)
		}
		all[permalink] = slices.DeleteFunc(strings.Split(text.String(), "\n"), func(line string) bool { return line == "" })
	}
	return all, nil
}

// difference returns the lines that only one of two texts has, in order: those of before with a minus, those of after with a plus.
func difference(s terminal.Style, before, after []string) string {
	text := func(lines []string) []byte { return []byte(strings.Join(append(lines, ""), "\n")) }
	unified := string(diff.Diff("before", text(before), "after", text(after)))
	var b strings.Builder
	_, hunks, _ := strings.Cut(unified, "\n+++ after\n")
	for line := range strings.Lines(hunks) {
		switch text := strings.TrimSuffix(line[1:], "\n"); line[0] {
		case '-':
			b.WriteString(s.Red("  - "+text) + "\n")
		case '+':
			b.WriteString(s.Green("  + "+text) + "\n")
		}
	}
	return b.String()
}

// seeded is a source of random bytes that are the same after each seed, so that they are no difference.
type seeded struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

func (r *seeded) seed(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.random = rand.NewChaCha8(sha256.Sum256([]byte(text)))
}

// Read implements io.Reader.
func (r *seeded) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.Read(p)
}
