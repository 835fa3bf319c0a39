package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/internal/demo/tour"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/records"
	auditlog "github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/internal/serve/daemon"
	"github.com/keywright/keywright/server/internal/terminal"
)

type serveFlags struct {
	configFlags
	serverFlags
	drainDelay time.Duration
	demo       bool
}

func serveCommand(a *app) *cobra.Command {
	var flags serveFlags
	c := command("serve", nil, func(c *cobra.Command, _ []string) error { return a.runServe(c, &flags) })
	flags.configFlags.add(c, "connectors.yaml")
	flags.serverFlags.add(c, "127.0.0.1:8080", "127.0.0.1:8081")
	c.Flags().StringVar(&flags.operators.TokensDir, "admin-tokens", "", "a `DIR` with a file for each further token of operators, with its hash and its rights")
	c.Flags().StringVar(&flags.claim, "admin-claim", "", "operators are those whose session of gateway.user has a claim, `CLAIM=VALUE`, such as role=operator")
	c.Flags().DurationVar(&flags.drainDelay, "drain-delay", 0, "how long after SIGTERM new callers are still accepted, while /readyz is 503: a `TIME` such as 10s")
	c.Flags().BoolVar(&flags.demo, "demo", false, "run the demo's connectors, before servers that it starts, instead of a file")
	return c
}

func (a *app) runServe(c *cobra.Command, flags *serveFlags) error {
	const maxDrainDelay = 10 * time.Minute
	if flags.drainDelay < 0 || flags.drainDelay > maxDrainDelay {
		return misuse(c, "--drain-delay is a time from 0s to %s", maxDrainDelay)
	}
	if flags.file == stdinName {
		return misuse(c, "-c - is stdin, which cannot be watched for changes: name a file")
	}
	logger, err := flags.begin(a, c, flags.dev)
	if err != nil {
		return err
	}
	config := daemon.Config{
		File: flags.file, Version: moduleVersion(), Listen: flags.listen, Admin: flags.admin, Login: flags.operators, Logger: logger, DrainDelay: flags.drainDelay,
		Traces: a.env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || a.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "",
	}
	if flags.demo {
		return a.serveDemo(c, config)
	}
	if config.Options, err = a.options(c, &flags.configFlags); err != nil {
		return err
	}
	audit := false // reports whether stdout has the audit log and nothing else. The log has the addresses then
	config.Options.Host.Logger = logger
	config.Stdout = func() io.Writer {
		audit = true
		return a.out.Writer
	}
	config.Started = func(callers, operators string) {
		if !audit {
			printAddresses(a.hints(), callers, operators)
		}
	}
	return daemon.Run(c.Context(), config)
}

func printAddresses(p *terminal.Printer, callers, operators string) {
	p.Line("callers: %s/connectors/", callers)
	p.Line("console: %s/", reachable(operators))
	p.Line("operators: %s/readyz", operators)
}

// serveDemo runs the demo's connectors until the context ends.
func (a *app) serveDemo(c *cobra.Command, config daemon.Config) error {
	for _, name := range []string{"config", "secrets-dir", "var", "dev"} {
		if c.Flags().Changed(name) {
			return misuse(c, "--demo has connectors, secrets and servers of its own: leave --%s out", name)
		}
	}
	stage, err := tour.NewStage(c.Context())
	if err != nil {
		return err
	}
	a.cleanup(func(context.Context) error { return stage.Servers.Close() })
	config.File, config.Text = "demo/gateway.yaml", stage.File
	config.Options = connectors.Options{Host: host.Config{
		Secrets: stage.Secrets, UserAgent: userAgent(), Logger: config.Logger,
		Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, // the servers listen on loopback, with plain HTTP
	}}
	config.Started = func(callers, operators string) {
		hints := a.hints()
		printAddresses(hints, callers, operators)
		printCalls(hints, reachable(callers), reachable(operators))
	}
	return daemon.Run(c.Context(), config)
}

func printCalls(p *terminal.Printer, callers, operators string) {
	p.Printf("\n%s\n", p.Bold("Try these in another terminal; no answer holds a credential:"))
	for _, call := range tour.GatewayCalls {
		user := ""
		if call.User != "" {
			user = fmt.Sprintf("-H '%s: %s' ", tour.UserHeader, call.User)
		}
		p.Printf("  curl -i %s%s/connectors/%s\n", user, callers, call.Permalink)
	}
	last := tour.GatewayCalls[len(tour.GatewayCalls)-1]
	p.Printf("\n%s\n", p.Bold("An operator's test; its answer shows what was sent:"))
	p.Printf("  curl -i -d '{\"user\":{\"email\":\"%s\"}}' %s/connectors/%s/test\n", last.User, operators, last.Permalink)
	p.Printf("  curl %s/metrics\n\n%s\n", operators, p.Dim("Ctrl-C ends it."))
}

type demoReport struct{ *tour.Report }

func demoCommand(a *app) *cobra.Command {
	return a.jsonCommand("demo", nil, func(c *cobra.Command, _ []string) (document, error) {
		report, err := tour.Run(c.Context())
		if err != nil {
			return nil, err
		}
		return demoReport{report}, reportUnless(report.OK)
	})
}

func (r demoReport) print(a *app) { r.Print(a.out) }

// serverFlags holds the flags that all servers have.
type serverFlags struct {
	listen, admin, logLevel, claim string
	operators                      login.Config
}

// add adds the flags, with ports of this machine for callers and for operators.
func (f *serverFlags) add(c *cobra.Command, callers, operators string) {
	c.Flags().StringVar(&f.listen, "listen", callers, "the `ADDR` for callers, host:port")
	c.Flags().StringVar(&f.admin, "admin", operators, "the `ADDR` for operators, host:port; one that other machines reach needs a login")
	c.Flags().StringVar(&f.operators.TokenFile, "admin-token-file", "", "operators log in with the token in a `FILE`")
	c.Flags().StringVar(&f.operators.MetricsTokenFile, "metrics-token-file", "", "a `FILE` with a token that is good for /metrics alone")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "the lowest `LEVEL` of the lines that are logged: debug, info, warn or error")
}

// begin completes the login of operators, and returns the log of a server. Unless dev is true, it turns core dumps off.
func (f *serverFlags) begin(a *app, c *cobra.Command, dev bool) (*slog.Logger, error) {
	o := &f.operators
	o.Claim, o.Value, _ = strings.Cut(f.claim, "=")
	switch {
	case f.claim != "" && (o.Claim == "" || o.Value == ""):
		return nil, misuse(c, "--admin-claim wants CLAIM=VALUE, such as role=operator, not %q", f.claim)
	case o.MetricsTokenFile != "" && o.TokenFile == "" && f.claim == "" && o.TokensDir == "":
		return nil, misuse(c, "--metrics-token-file is good for /metrics alone: give --admin-token-file for the rest")
	}
	if !dev {
		if err := noDumps(); err != nil {
			return nil, err
		}
	}
	return a.serverLogger(c, f.logLevel)
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// serverLogger returns the log of a server on stderr, with lines of a level and above. It is JSON, and on a terminal text for people.
func (a *app) serverLogger(c *cobra.Command, level string) (*slog.Logger, error) {
	lowest, ok := levels[level]
	if !ok {
		return nil, misuse(c, "--log-level %s is none%s", problem.Quote(level), problem.DidYouMean(level, []string{"debug", "info", "warn", "error"}))
	}
	if a.err.Columns() == 0 {
		return slog.New(slog.NewJSONHandler(a.err.Writer, &slog.HandlerOptions{Level: lowest})), nil
	}
	return slog.New(tint.NewTextHandler(a.err.Writer, &tint.Options{
		Level: lowest, TimeFormat: time.TimeOnly, NoColor: !a.err.Colours(),
		ReplaceAttr: printable,
	})), nil
}

// printable returns an attribute whose text cannot control a terminal. Texts of a log come from files, plugins and APIs.
func printable(_ []string, attr slog.Attr) slog.Attr {
	switch value := attr.Value.Resolve(); value.Kind() {
	case slog.KindString, slog.KindAny:
		if _, level := value.Any().(slog.Level); !level {
			attr.Value = slog.StringValue(host.Printable(value.String()))
		}
	}
	return attr
}

// hints returns a printer to stdout for what a server says once it listens. That is not essential, so errors of writing do not count.
func (a *app) hints() *terminal.Printer { return terminal.NewPrinter(a.out.Writer, a.env) }

// reachable returns a server's URL with an address that clients can use: 127.0.0.1 in place of an unspecified one such as [::].
func reachable(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.String()
}

func auditVerifyCommand(a *app) *cobra.Command {
	var hash string
	c := a.jsonCommand("verify", func(c *cobra.Command, args []string) error {
		if sum, err := hex.DecodeString(hash); len(args) > 0 && hash != "" && (err != nil || len(sum) != 32) {
			return misuse(c, "--hash is not a hash of the log: it has 64 hexadecimal digits")
		}
		return someFiles(c, args)
	}, func(_ *cobra.Command, args []string) (document, error) {
		report, err := auditlog.Verify(args, hash)
		return auditReport(report), cmp.Or(err, reportUnless(report.OK))
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

type stateStatus struct {
	Type string `json:"type"`
	// Values is the number of values that have not expired, and Leased is the number of those with a lease.
	Values int `json:"values"`
	Leased int `json:"leased"`
	// Grants are the numbers of grants by their condition.
	Grants map[host.Condition]int `json:"grants,omitempty"`
	// Milliseconds is the time of one read.
	Milliseconds float64 `json:"milliseconds"`
}

func stateStatusCommand(a *app) *cobra.Command {
	return a.stateCommand("status", func(c *cobra.Command, store *statestore.Store, config *connectors.State) (document, error) {
		status := &stateStatus{Type: config.Type()}
		began := time.Now()
		if _, err := store.Database.Get(c.Context(), state.ID{}); err != nil {
			return nil, err
		}
		status.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
		err := store.Database.Rows(c.Context(), func(_ state.ID, row state.Row) error {
			status.Values++
			if row.LeasedFor > 0 {
				status.Leased++
			}
			return nil
		})
		if err == nil {
			status.Grants, err = store.State.Grants(c.Context())
		}
		return status, err
	})
}

func (s *stateStatus) print(a *app) {
	text := fmt.Sprintf("%s: %s, %d leased; a read took %.1f ms", s.Type, terminal.Count(s.Values, "value"), s.Leased, s.Milliseconds)
	between := "; grants: "
	for _, condition := range slices.Sorted(maps.Keys(s.Grants)) {
		text += fmt.Sprintf("%s%d %s", between, s.Grants[condition], condition)
		between = ", "
	}
	a.out.Line("%s", text)
}

// rekeyCounts is the document of state rekey.
type rekeyCounts struct {
	// Sealed is the number of values that were sealed under the first state key, Current of those that were before, and
	// Unopened of those that no state key opens.
	Sealed   int `json:"sealed"`
	Current  int `json:"current"`
	Unopened int `json:"unopened"`
}

func stateRekeyCommand(a *app) *cobra.Command {
	return a.stateCommand("rekey", func(c *cobra.Command, store *statestore.Store, _ *connectors.State) (document, error) {
		counts, err := store.State.Rekey(c.Context())
		if err == nil {
			err = records.Rekey(c.Context(), &records.Store{Records: store.Database, State: store.State}, &counts)
		}
		if err != nil {
			return nil, fmt.Errorf("%d values were sealed under the first key before this: %w", counts.Sealed, err)
		}
		if counts.Unopened > 0 {
			a.printErr("keywright: no state key opens %s: add the key that is missing, or they are of no use", terminal.Count(counts.Unopened, "value"))
		}
		return rekeyCounts(counts), reportUnless(counts.Unopened == 0)
	})
}

func (r rekeyCounts) print(a *app) {
	a.out.Line("sealed under the first key: %s; before: %d", terminal.Count(r.Sealed, "value"), r.Current)
}

// stateCommand returns a command whose run gets the store of state of a file, which is closed when the command ends.
func (a *app) stateCommand(name string, run func(*cobra.Command, *statestore.Store, *connectors.State) (document, error)) *cobra.Command {
	var flags configFlags
	c := a.jsonCommand(name, nil, func(c *cobra.Command, _ []string) (document, error) {
		set, err := a.load(c, &flags, nil)
		if err != nil {
			return nil, err
		}
		if set.State == nil {
			return nil, fmt.Errorf("%s: the file has no state: its member state says where tokens are kept (docs/several-nodes.md)", flags.file)
		}
		store, err := a.openState(c.Context(), set.State)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flags.file, err)
		}
		return run(c, store, set.State)
	})
	flags.add(c, "connectors.yaml")
	return c
}
