package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/connectors"
)

// configFlags are those of every command that reads a configuration.
type configFlags struct {
	file       string
	secretsDir string
	variables  []string
	dev        bool
}

func (f *configFlags) add(c *cobra.Command, file string) {
	c.Flags().StringVarP(&f.file, "config", "c", file, "the `FILE` with the connectors")
	c.Flags().StringVar(&f.secretsDir, "secrets-dir", "", "a `DIR` with a file for each secret, asked before the environment")
	c.Flags().StringArrayVar(&f.variables, "var", nil, "what get_variable gives in templates, `K=V`; may be repeated")
	c.Flags().BoolVar(&f.dev, "dev", false, "allow plain http and private addresses")
}

// load loads the configuration. The caller closes the set.
func (a *app) load(ctx context.Context, c *cobra.Command, f *configFlags) (*connectors.Set, error) {
	variables := map[string]string{}
	for _, pair := range f.variables {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, misuse(c, "--var wants K=V, not %q", pair)
		}
		variables[name] = value
	}
	if f.dev {
		a.tell("keywright: --dev: plain http and private addresses are allowed, credentials may go out in the open")
	}
	secrets := host.EnvSecrets()
	if f.secretsDir != "" {
		secrets = host.FirstOf(host.DirSecrets(f.secretsDir), secrets)
	}
	return connectors.Load(ctx, f.file, connectors.Options{Environment: true, Host: host.Config{
		Secrets:   secrets,
		Variables: variables,
		Egress:    host.Egress{AllowHTTP: f.dev, AllowPrivate: f.dev},
		Logger:    a.logger(),
	}})
}

// logger writes warnings to stderr.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{} // who reads it sees it now
			}
			return attr
		},
	}))
}

func closeSet(ctx context.Context, set *connectors.Set) { _ = set.Close(context.WithoutCancel(ctx)) }
