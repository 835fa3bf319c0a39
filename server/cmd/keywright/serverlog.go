package main

import (
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/internal/terminal"
)

// levels are the values of --log-level.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// addLogLevel adds the flag --log-level.
func addLogLevel(c *cobra.Command, level *string) {
	c.Flags().StringVar(level, "log-level", "info", "the lowest `LEVEL` of the lines that are logged: debug, info, warn or error")
}

// serverLogger returns the log of a server on stderr, with lines of a level and above. It is JSON, and on a terminal text for people.
func (a *app) serverLogger(c *cobra.Command, level string) (*slog.Logger, error) {
	lowest, ok := levels[level]
	if !ok {
		return nil, misuse(c, "--log-level %s is none%s", problem.Quote(level), problem.DidYouMean(level, []string{"debug", "info", "warn", "error"}))
	}
	if terminal.Columns(a.err) == 0 {
		return slog.New(slog.NewJSONHandler(a.err, &slog.HandlerOptions{Level: lowest})), nil
	}
	return slog.New(tint.NewTextHandler(a.err, &tint.Options{
		Level: lowest, TimeFormat: time.TimeOnly, NoColor: !terminal.StyleOf(a.err, a.env).Colours(),
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
