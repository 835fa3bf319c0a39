package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// configFlags are those of every command that reads a configuration.
type configFlags struct {
	file       string
	secretsDir string
	variables  []string
	dev        bool
	// readSecrets is no flag of its own: it is set by a command that tries the secrets.
	readSecrets bool
}

func (f *configFlags) add(c *cobra.Command, file string) {
	c.Flags().StringVarP(&f.file, "config", "c", file, "the `FILE` with the connectors")
	c.Flags().StringVar(&f.secretsDir, "secrets-dir", "", "a `DIR` with a file for each secret, asked before all others")
	c.Flags().StringArrayVar(&f.variables, "var", nil, "what get_variable gives in templates, `K=V`; may be repeated")
	c.Flags().BoolVar(&f.dev, "dev", false, "allow plain http and private addresses")
}

// load loads the configuration. The caller closes the set.
func (a *app) load(ctx context.Context, c *cobra.Command, f *configFlags) (*connectors.Set, error) {
	options, err := a.options(c, f)
	if err != nil {
		return nil, err
	}
	return connectors.Load(ctx, f.file, options)
}

// options says what a configuration is loaded with.
func (a *app) options(c *cobra.Command, f *configFlags) (connectors.Options, error) {
	variables := map[string]string{}
	for _, pair := range f.variables {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return connectors.Options{}, misuse(c, "--var wants K=V, not %q", pair)
		}
		variables[name] = value
	}
	if f.dev {
		a.tell("keywright: --dev: plain http and private addresses are allowed, credentials may go out in the open")
	}
	first, secrets, err := f.secrets(func(dir string) host.Secrets { return secretstore.Dir(dir, time.Now) })
	if err != nil {
		return connectors.Options{}, err
	}
	return connectors.Options{First: first, Environment: true, ReadSecrets: f.readSecrets, Host: host.Config{
		Secrets:   secrets,
		Variables: variables,
		Egress:    host.Egress{AllowHTTP: f.dev, AllowPrivate: f.dev},
		Logger:    a.logger(),
	}}, nil
}

// secrets are those of the command line: first the files of a directory, or nil, and all with the environment.
func (f *configFlags) secrets(filesOf func(dir string) host.Secrets) (first, all host.Secrets, err error) {
	environment := store{host.EnvSecrets(), func(name string) string { return "the environment variable " + host.EnvName(name) }}
	dir := f.secretsDir
	if dir == "" {
		return nil, environment, nil
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("--secrets-dir %s: there is no such directory", dir)
	case err != nil:
		return nil, nil, fmt.Errorf("--secrets-dir: %w", err)
	case !info.IsDir():
		return nil, nil, fmt.Errorf("--secrets-dir %s: is no directory", dir)
	}
	files := store{filesOf(dir), func(name string) string { return "the file " + filepath.Join(dir, name) }}
	return files, host.FirstOf(files, environment), nil
}

// store says of a secret that is empty where it lies.
type store struct {
	host.Secrets
	place func(name string) string
}

func (s store) Secret(ctx context.Context, name string) (string, error) {
	value, err := s.Secrets.Secret(ctx, name)
	if err == nil && strings.TrimSpace(value) == "" {
		return "", fmt.Errorf("%s is empty: it has to hold the secret", s.place(name))
	}
	return value, err
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
