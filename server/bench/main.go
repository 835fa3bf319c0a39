// Command bench compares Keywright with other software that does the same work, and with bounds, and reports whether each goal
// is reached.
//
//	go run -C server/bench . [-articles N] [-json | -markdown] [-count N] [-run REGEXP] [-time DURATION]
//
// The file of each row describes what it measures. The file measure.go describes the method.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == childVerb {
		return runChild(ctx, args[1:], stdout)
	}
	if len(args) > 0 && args[0] == serverVerb {
		return runServer(ctx, args[1:], stdout)
	}
	// With the default, a process as small as this one would collect garbage after every few calls of a peer that allocates
	// much. A server has a larger heap, and collects less often.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	count := flags.Int("count", 10, "rounds, of which the median counts")
	slice := flags.Duration("time", 300*time.Millisecond, "time of one measurement")
	only := flags.String("run", "", "only rows whose work, or what it is held against, matches this regular expression")
	articles := flags.Int("articles", 1_000_000, "how many articles the databases of content have")
	asJSON := flags.Bool("json", false, `write [{"work","against","ratio","goal"}], smaller being better and goal the most it may be, or null`)
	asMarkdown := flags.Bool("markdown", false, "write the table of docs/benchmarks.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *count < 1 || *slice <= 0 || flags.NArg() > 0 {
		return errors.New("-count and -time have to be positive, and there are no further arguments")
	}
	if *articles < 100 || *articles%100 != 0 {
		return errors.New("-articles has to be a multiple of 100")
	}
	databases := newContents(*articles, stderr)
	defer func() { err = errors.Join(err, databases.close()) }()
	command := &command{}
	defer func() { err = errors.Join(err, command.remove()) }()
	all := tables{rows(databases, command), figureRows(databases)}
	measured, err := all.measure(ctx, pattern, session{count: *count, slice: *slice, now: time.Now}, stderr)
	if err != nil {
		return err
	}
	switch {
	case *asJSON:
		return writeJSON(stdout, measured.rows)
	case *asMarkdown:
		return writeMarkdown(stdout, measured, *count)
	}
	return writeText(stdout, measured, *count)
}

// tables holds all measurements: rows, which have goals, and figures without goals.
type tables struct {
	rows    []row
	figures []figureRow
}

type measurements struct {
	rows    []measuredRow
	figures []figures
}

func (t tables) measure(ctx context.Context, pattern *regexp.Regexp, s session, progress io.Writer) (measurements, error) {
	var m measurements
	n, of := 0, len(t.rows)+len(t.figures)
	for _, r := range t.rows {
		n++
		if !pattern.MatchString(r.work) && !pattern.MatchString(r.against) {
			continue
		}
		_, _ = fmt.Fprintf(progress, "%d of %d: %s, against %s\n", n, of, r.work, r.against)
		result, err := r.alone(ctx, s)
		if err != nil {
			return measurements{}, fmt.Errorf("%s, against %s: %w", r.work, r.against, err)
		}
		m.rows = append(m.rows, measuredRow{r, result})
	}
	for _, r := range t.figures {
		n++
		if !pattern.MatchString(r.work) {
			continue
		}
		_, _ = fmt.Fprintf(progress, "%d of %d: %s\n", n, of, r.work)
		found, err := r.measure(ctx, s)
		if err != nil {
			return measurements{}, fmt.Errorf("%s: %w", r.work, err)
		}
		m.figures = append(m.figures, found)
	}
	if len(m.rows)+len(m.figures) == 0 {
		return measurements{}, fmt.Errorf("-run: no row matches %q", pattern)
	}
	return m, nil
}
