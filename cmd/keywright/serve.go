package main

import (
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/internal/daemon"
)

func (a *app) serve() *cobra.Command {
	var flags configFlags
	var listen, admin string
	c := &cobra.Command{
		Use:   "serve [-c FILE] [--secrets-dir DIR] [--listen ADDR] [--admin ADDR] [--dev]",
		Short: "Run the connectors for browsers and services",
		Long: "Runs the connectors of a file: a request for /connectors/PERMALINK is authenticated here and sent on, and no credential " +
			"reaches the caller. The file and its plugins are read again when they change, and on SIGHUP; a bad file leaves the " +
			"one before in use. SIGTERM ends it once the requests in flight have been answered.\n\n" +
			"Operators have a listener of their own: /healthz, /readyz, /debug/pprof/, and POST /connectors/PERMALINK/test, which " +
			"tries a connector and shows in X-Debug-Request what was sent.",
		Args: arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			options, err := a.options(c, &flags)
			if err != nil {
				return err
			}
			logger := slog.New(slog.NewJSONHandler(a.err, nil))
			options.Host.Logger = logger
			return daemon.Run(c.Context(), daemon.Config{
				File: flags.file, Options: options, Listen: listen, Admin: admin, Logger: logger,
				Started: func(callers, operators net.Addr) {
					_ = writeLine(a.out, "callers: http://"+callers.String()+"/connectors/")
					_ = writeLine(a.out, "operators: http://"+operators.String()+"/readyz")
				},
			})
		},
	}
	flags.add(c, "connectors.yaml")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "the `ADDR` for callers, host:port")
	c.Flags().StringVar(&admin, "admin", "127.0.0.1:8081", "the `ADDR` for operators, host:port; keep it from others")
	c.DisableFlagsInUseLine = true
	return c
}
