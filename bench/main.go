// Command bench measures Keywright against others that do the same work, and against bounds, and says whether each goal
// is reached.
//
//	go run -C bench . [-json | -markdown] [-count N] [-run REGEXP] [-time DURATION]
//
// What a row measures stands in its file; how all are measured, in measure.go.
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
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == childVerb {
		return runChild(ctx, args[1:], stdout)
	}
	// A process as small as this one would collect garbage after every few calls of a peer that makes much of it. In a
	// server, there is more to fill in between.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	count := flags.Int("count", 10, "rounds, of which the median counts")
	slice := flags.Duration("time", 300*time.Millisecond, "time of one measurement")
	only := flags.String("run", "", "only rows whose work, or what it is held against, matches this regular expression")
	asJSON := flags.Bool("json", false, `write [{"work","against","ratio","goal"}], smaller being better and goal the most it may be`)
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
	measured, err := measureAll(ctx, rows(), pattern, session{count: *count, slice: *slice, now: time.Now}, stderr)
	if err != nil {
		return err
	}
	switch {
	case *asJSON:
		return writeJSON(stdout, measured)
	case *asMarkdown:
		return writeMarkdown(stdout, measured, *count)
	}
	return writeText(stdout, measured, *count)
}

func measureAll(ctx context.Context, all []row, pattern *regexp.Regexp, s session, progress io.Writer) ([]measuredRow, error) {
	var measured []measuredRow
	for i, r := range all {
		if !pattern.MatchString(r.work) && !pattern.MatchString(r.against) {
			continue
		}
		_, _ = fmt.Fprintf(progress, "%d of %d: %s, against %s\n", i+1, len(all), r.work, r.against)
		result, err := r.measure(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s, against %s: %w", r.work, r.against, err)
		}
		measured = append(measured, measuredRow{r, result})
	}
	if len(measured) == 0 {
		return nil, fmt.Errorf("-run: no row matches %q", pattern)
	}
	return measured, nil
}
