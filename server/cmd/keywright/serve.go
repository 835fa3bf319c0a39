package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/daemon"
	"github.com/keywright/keywright/server/internal/demo/tour"
	"github.com/keywright/keywright/server/internal/terminal"
)

// serveFlags holds the flags of serve.
type serveFlags struct {
	configFlags
	serverFlags
	drainDelay time.Duration
	demo       bool
}

// maxDrainDelay limits --drain-delay.
const maxDrainDelay = 10 * time.Minute

func serveCommand(a *app) *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve [-c FILE] [--secrets-dir DIR] [--listen ADDR] [--admin ADDR] [--admin-token-file FILE] [--drain-delay TIME] [--log-level LEVEL] [--dev] [--demo]",
		Short: "Run the connectors for browsers and services",
		Long: "Runs the connectors of a file: a request for /connectors/PERMALINK is authenticated here and sent on, and no credential " +
			"reaches the caller. The file and its plugins are read again when they change, and on SIGHUP; a bad file leaves the " +
			"one before in use. SIGTERM ends it once the requests in flight have been answered; with " +
			"--drain-delay, /readyz says so first.\n\n" +
			"With state in the file, tokens outlast this process, and several processes share them (docs/several-nodes.md).\n\n" +
			"Operators have a listener of their own. At / it has the console, pages that show what the connectors do and why a " +
			"request failed. Programs use /healthz, /readyz, /metrics, /debug/pprof/, and POST " +
			"/connectors/PERMALINK/test, which tries a connector and shows what was sent. Where other machines reach it, operators log in with " +
			"the token of --admin-token-file or a session with --admin-claim, and /healthz and /readyz alone are open.\n\n" +
			"Users connect their accounts at /connect, if a connector needs their consent.\n\n" +
			"With gateway.tls in the file, callers have HTTPS; a certificate that is renewed counts at the next connection.\n\n" +
			"With gateway.traces in the file, or OTEL_EXPORTER_OTLP_ENDPOINT in the environment, each request is a trace of " +
			"OpenTelemetry, whose id is the X-Request-Id; it holds no URL, header or body.\n\n" +
			"This process leaves no core dump, and no debugger of the same user reads its memory; with --dev both are allowed.\n\n" +
			"With --demo it needs no file: it starts the servers of `keywright demo`, runs connectors of five auth types before " +
			"them, and says what to try.",
		RunE: func(c *cobra.Command, _ []string) error { return a.runServe(c, &flags) },
	}
	flags.configFlags.add(c, "connectors.yaml")
	flags.serverFlags.add(c, "127.0.0.1:8080", "127.0.0.1:8081")
	flags.addClaim(c)
	c.Flags().DurationVar(&flags.drainDelay, "drain-delay", 0, "how long after SIGTERM new callers are still accepted, while /readyz is 503: a `TIME` such as 10s")
	c.Flags().BoolVar(&flags.demo, "demo", false, "run the demo's connectors, before servers that it starts, instead of a file")
	return c
}

// runServe runs the connectors of a file, or those of the demo.
func (a *app) runServe(c *cobra.Command, flags *serveFlags) error {
	if flags.drainDelay < 0 || flags.drainDelay > maxDrainDelay {
		return misuse(c, "--drain-delay is a time from 0s to %s", maxDrainDelay)
	}
	operators, logger, err := flags.begin(a, c, flags.dev)
	if err != nil {
		return err
	}
	config := daemon.Config{
		File: flags.file, Version: moduleVersion(), Listen: flags.listen, Admin: flags.admin, Login: operators, Logger: logger, DrainDelay: flags.drainDelay,
		Traces: a.env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || a.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "",
	}
	if flags.demo {
		return a.serveDemo(c, config)
	}
	options, err := a.options(c, &flags.configFlags)
	if err != nil {
		return err
	}
	audit := &usedWriter{Writer: a.out.Writer}
	config.Options, config.Stdout = options, audit
	config.Options.Host.Logger = logger
	config.Started = func(callers, operators string) {
		if !audit.used.Load() { // otherwise stdout has nothing else, and the log has the addresses
			listening(a.hints(), callers, operators)
		}
	}
	return daemon.Run(c.Context(), config)
}

// usedWriter is a writer that knows whether anything was written.
type usedWriter struct {
	io.Writer
	used atomic.Bool
}

// Write implements [io.Writer].
func (w *usedWriter) Write(p []byte) (int, error) {
	w.used.Store(true)
	return w.Writer.Write(p)
}

func listening(p *terminal.Printer, callers, operators string) {
	p.Line("callers: %s/connectors/", callers)
	p.Line("console: %s/", reachable(operators))
	p.Line("operators: %s/readyz", operators)
}

// serveDemo runs the demo's connectors until the context ends.
func (a *app) serveDemo(c *cobra.Command, config daemon.Config) (err error) {
	for _, name := range []string{"config", "secrets-dir", "var", "dev"} {
		if c.Flags().Changed(name) {
			return misuse(c, "--demo has connectors, secrets and servers of its own: leave --%s out", name)
		}
	}
	stage, err := tour.NewStage(c.Context(), tour.Config{Now: time.Now, Rand: rand.Reader})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Servers.Close()) }()
	config.File, config.Text = "demo/gateway.yaml", stage.File
	config.Options = connectors.Options{Host: host.Config{
		Secrets: stage.Secrets, UserAgent: userAgent(), Logger: config.Logger,
		Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, // the servers listen on loopback, with plain HTTP
	}}
	config.Started = func(callers, operators string) {
		hints := a.hints()
		listening(hints, callers, operators)
		printCalls(hints, reachable(callers), reachable(operators))
	}
	return daemon.Run(c.Context(), config)
}

// printCalls prints shell commands to try.
func printCalls(p *terminal.Printer, callers, operators string) {
	p.Printf("\n%s\n", p.Bold("Try these in another terminal; no answer holds a credential:"))
	last := tour.GatewayCall{}
	for _, call := range tour.GatewayCalls {
		user := ""
		if call.User != "" {
			user = fmt.Sprintf("-H '%s: %s' ", tour.UserHeader, call.User)
		}
		p.Printf("  curl -i %s%s/connectors/%s\n", user, callers, call.Permalink)
		last = call
	}
	p.Printf("\n%s\n", p.Bold("An operator's test; its answer shows what was sent:"))
	p.Printf("  curl -i -d '{\"user\":{\"email\":\"%s\"}}' %s/connectors/%s/test\n", last.User, operators, last.Permalink)
	p.Printf("  curl %s/metrics\n\n%s\n", operators, p.Dim("Ctrl-C ends it."))
}
