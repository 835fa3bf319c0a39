package main

import (
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/internal/login"
	"github.com/keywright/keywright/server/internal/terminal"
)

// serverFlags holds the flags that all servers have.
type serverFlags struct {
	listen, admin    string
	tokenFile, claim string
	metricsTokenFile string
	logLevel         string
}

// add adds the flags, with ports of this machine for callers and for operators.
func (f *serverFlags) add(c *cobra.Command, callers, operators string) {
	c.Flags().StringVar(&f.listen, "listen", callers, "the `ADDR` for callers, host:port")
	c.Flags().StringVar(&f.admin, "admin", operators, "the `ADDR` for operators, host:port; one that other machines reach needs a login")
	c.Flags().StringVar(&f.tokenFile, "admin-token-file", "", "operators log in with the token in a `FILE`")
	c.Flags().StringVar(&f.metricsTokenFile, "metrics-token-file", "", "a `FILE` with a token that is good for /metrics alone")
	c.Flags().StringVar(&f.logLevel, "log-level", "info", "the lowest `LEVEL` of the lines that are logged: debug, info, warn or error")
}

// addClaim adds the flag of a server whose callers have sessions.
func (f *serverFlags) addClaim(c *cobra.Command) {
	c.Flags().StringVar(&f.claim, "admin-claim", "", "operators are those whose session of gateway.user has a claim, `CLAIM=VALUE`, such as role=operator")
}

// login returns the login of operators. It returns an error for flags that cannot be combined.
func (f *serverFlags) login(c *cobra.Command) (login.Config, error) {
	config := login.Config{TokenFile: f.tokenFile, MetricsTokenFile: f.metricsTokenFile}
	var ok bool
	config.Claim, config.Value, ok = strings.Cut(f.claim, "=")
	switch {
	case f.claim != "" && (!ok || config.Claim == "" || config.Value == ""):
		return config, misuse(c, "--admin-claim wants CLAIM=VALUE, such as role=operator, not %q", f.claim)
	case f.metricsTokenFile != "" && f.tokenFile == "" && f.claim == "":
		return config, misuse(c, "--metrics-token-file is good for /metrics alone: give --admin-token-file for the rest")
	}
	return config, nil
}

// begin returns the login of operators and the log of a server. Unless dev is true, it turns core dumps off.
func (f *serverFlags) begin(a *app, c *cobra.Command, dev bool) (operators login.Config, logger *slog.Logger, err error) {
	if operators, err = f.login(c); err != nil {
		return operators, nil, err
	}
	if !dev {
		if err := noDumps(); err != nil {
			return operators, nil, err
		}
	}
	logger, err = a.serverLogger(c, f.logLevel)
	return operators, logger, err
}

// levels are the values of --log-level.
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
