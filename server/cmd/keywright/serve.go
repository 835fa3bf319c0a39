package main

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/internal/daemon"
)

// serveFlags holds the flags of serve.
type serveFlags struct {
	configFlags
	operatorFlags
	listen     string
	drainDelay time.Duration
	logLevel   string
	demo       bool
}

// maxDrainDelay limits --drain-delay.
const maxDrainDelay = 10 * time.Minute

func (a *app) serve() *cobra.Command {
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
		Args: arguments(),
		RunE: func(c *cobra.Command, _ []string) error { return a.runServe(c, &flags) },
	}
	flags.configFlags.add(c, "connectors.yaml")
	c.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "the `ADDR` for callers, host:port")
	flags.operatorFlags.add(c, "127.0.0.1:8081")
	flags.addClaim(c)
	addLogLevel(c, &flags.logLevel)
	c.Flags().DurationVar(&flags.drainDelay, "drain-delay", 0, "how long after SIGTERM new callers are still accepted, while /readyz is 503: a `TIME` such as 10s")
	c.Flags().BoolVar(&flags.demo, "demo", false, "run the demo's connectors, before servers that it starts, instead of a file")
	c.DisableFlagsInUseLine = true
	return c
}

// runServe runs the connectors of a file, or those of the demo.
func (a *app) runServe(c *cobra.Command, flags *serveFlags) error {
	if flags.drainDelay < 0 || flags.drainDelay > maxDrainDelay {
		return misuse(c, "--drain-delay is a time from 0s to %s", maxDrainDelay)
	}
	operators, err := flags.login(c)
	if err != nil {
		return err
	}
	if !flags.dev {
		if err := noDumps(); err != nil {
			return err
		}
	}
	logger, err := a.serverLogger(c, flags.logLevel)
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
	audit := &usedWriter{Writer: a.out}
	config.Options, config.Stdout = options, audit
	config.Options.Host.Logger = logger
	config.Started = func(callers, operators string) {
		if !audit.used.Load() { // otherwise stdout has nothing else, and the log has the addresses
			a.listening(callers, operators)
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

func (a *app) listening(callers, operators string) {
	_ = writeLine(a.out, "callers: "+callers+"/connectors/")
	_ = writeLine(a.out, "console: "+reachable(operators)+"/")
	_ = writeLine(a.out, "operators: "+operators+"/readyz")
}
