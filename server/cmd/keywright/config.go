package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// configFlags holds the flags of every command that reads a configuration.
type configFlags struct {
	file, secretsDir string
	variables        []string
	dev              bool
	// readSecrets and user are not common flags. They are set by commands that check the secrets.
	readSecrets bool
	user        host.User
}

func (f *configFlags) add(c *cobra.Command, file string) {
	c.Flags().StringVarP(&f.file, "config", "c", file, "the `FILE` with the connectors")
	c.Flags().StringVar(&f.secretsDir, "secrets-dir", "", "a `DIR` with a file for each secret, asked before all others")
	c.Flags().StringArrayVar(&f.variables, "var", nil, "what get_variable gives in templates, `K=V`; may be repeated")
	c.Flags().BoolVar(&f.dev, "dev", false, "allow plain http and private addresses")
}

// load loads the configuration until the command ends. change, unless it is nil, changes the options.
func (a *app) load(c *cobra.Command, f *configFlags, change func(*connectors.Options)) (*connectors.Set, error) {
	options, err := a.options(c, f)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&options)
	}
	set, err := a.read(c.Context(), f.file, options)
	if err == nil {
		a.cleanup(set.Close)
	}
	return set, err
}

// stdinName is the name of a file that is read from stdin. Its paths are relative to the working directory.
const stdinName = "-"

// read reads a file of connectors.
func (a *app) read(ctx context.Context, name string, options connectors.Options) (*connectors.Set, error) {
	const longest = 16 << 20 // more than a file may have
	if name != stdinName {
		return connectors.Load(ctx, name, options)
	}
	if a.stdin == nil { // otherwise a command reads it again
		var err error
		if a.stdin, err = io.ReadAll(io.LimitReader(a.in, longest)); err != nil {
			return nil, fmt.Errorf("stdin cannot be read: %w", err)
		}
	}
	return connectors.Read(ctx, name, a.stdin, options)
}

// useStore changes the options of a command that sends requests: it opens the store of state of the file.
func (a *app) useStore(options *connectors.Options) {
	options.WithoutStore = false
	options.OpenState = func(ctx context.Context, s *connectors.State, c *host.Config) error {
		store, err := a.openState(ctx, s)
		if err == nil {
			c.State = store.State
		}
		return err
	}
}

// openState opens a store of state until the command ends.
func (a *app) openState(ctx context.Context, s *connectors.State) (*statestore.Store, error) {
	const flushTime = 10 * time.Second // the time in which a store of state may take what it did not take before
	store, err := statestore.Open(ctx, s, statestore.Options{Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	a.cleanup(func(ctx context.Context) error {
		ending, cancel := context.WithTimeout(ctx, flushTime)
		defer cancel()
		return store.Close(ending)
	})
	return store, nil
}

func (a *app) options(c *cobra.Command, f *configFlags) (connectors.Options, error) {
	variables := map[string]string{}
	for _, pair := range f.variables {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return connectors.Options{}, misuse(c, "--var wants K=V, not %q", pair)
		}
		variables[name] = value
	}
	if f.dev && !a.warned {
		a.warned = true // a command may read several files
		a.printErr("keywright: --dev: plain http and private addresses are allowed, credentials may go out in the open")
	}
	first, secrets, err := f.secrets(func(dir string) host.Secrets { return secretstore.Dir(dir, time.Now) })
	if err != nil {
		return connectors.Options{}, err
	}
	return connectors.Options{First: first, Environment: true, ReadSecrets: f.readSecrets, User: f.user, WithoutStore: true, PluginCache: pluginCache(), Host: host.Config{
		Secrets:   secrets,
		Variables: variables,
		Egress:    host.Egress{AllowHTTP: f.dev, AllowPrivate: f.dev},
		UserAgent: userAgent(),
		Observe:   func(_ context.Context, attempt host.Attempt) { a.failure.Store(attempt.Failure) },
		Logger:    a.logger(),
		CodeCache: codeCache(c.Context()),
	}}, nil
}

// secrets returns the stores of the command line: first is the directory of --secrets-dir, or nil, and all includes the environment.
func (f *configFlags) secrets(filesOf func(dir string) host.Secrets) (first, all host.Secrets, err error) {
	environment := store{host.EnvSecrets(), func(name string) string { return "the environment variable " + expr.EnvName(name) }}
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

// A store is a store of secrets whose error for an empty secret names the place of the secret.
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

// logger returns a logger that writes warnings to stderr, without the time.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{} // commands are short
			}
			return attr
		},
	}))
}

// codeCacheVariable is the environment variable with the directory for compiled plugins, or off.
const codeCacheVariable = "KEYWRIGHT_CODE_CACHE"

// codeCache returns the directory for the compiled code of plugins, or "". Unless the environment names one, that is a directory in the
// user's cache, if the user has one that nobody else can write to. It is only there to save time, so what is wrong with it is no error.
func codeCache(ctx context.Context) string {
	switch dir := os.Getenv(codeCacheVariable); dir {
	case "":
	case "off":
		return ""
	default:
		return dir // the host checks it
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "keywright", "code")
	probe, err := host.New(ctx, host.Config{BuiltIns: []host.Plugin{}, CodeCache: dir})
	if err != nil || probe.Close(ctx) != nil {
		return ""
	}
	return dir
}

func schemaCommand(a *app) *cobra.Command {
	var file, output string
	var strict bool
	c := command("schema", nil, func(c *cobra.Command, _ []string) error {
		text, err := a.schemaOf(c.Context(), file)
		if err == nil && strict {
			text, err = connectors.StrictSchema(text)
		}
		if err != nil {
			return err
		}
		if output == "-" {
			_, err = a.out.Write(text)
			return err
		}
		return writeSchema(output, text)
	})
	c.Flags().StringVarP(&file, "config", "c", "", "a `FILE` with connectors, whose plugins have auth types of their own")
	c.Flags().BoolVar(&strict, "strict", false, "leave out the words for editors, which are no keywords of JSON Schema: validators such as ajv refuse them")
	c.Flags().StringVarP(&output, "output", "o", "-", "write to a `FILE`, which may be an older schema; - is stdout")
	return c
}

// schemaOf returns the schema of a file, or with "" that of a file without plugins.
func (a *app) schemaOf(ctx context.Context, file string) (schema []byte, err error) {
	config := host.Config{Logger: a.logger(), CodeCache: codeCache(ctx)}
	var infos []host.PluginInfo
	if file != "" {
		infos, err = connectors.Plugins(ctx, file, connectors.Options{PluginCache: pluginCache(), Host: config})
	} else {
		infos, err = a.builtIns(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	return connectors.Schema(infos)
}

// writeSchema writes a schema to a file. It returns an error for a file that is no schema that was written so: the file with the
// connectors is easily named by mistake.
func writeSchema(name string, text []byte) error {
	switch previous, err := os.ReadFile(name); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(bytes.TrimSpace(previous)) > 0 && !isSchema(previous):
		return fmt.Errorf("%s is there, and is no schema of keywright: name another file with -o", name)
	}
	return os.WriteFile(name, text, 0o644)
}

func isSchema(text []byte) bool {
	var s struct {
		Comment string `json:"$comment"`
	}
	return json.Unmarshal(text, &s) == nil && s.Comment == connectors.SchemaComment
}

// schemaName returns the name of the schema beside a file: connectors.schema.json for connectors.yaml.
func schemaName(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".schema.json"
}

// modeline returns the line by which editors find the schema beside a file.
func modeline(file string) string { return modelineOf(filepath.Base(schemaName(file))) }

// modelineOf returns the line by which editors find a schema. schema is its path from the file with the line.
func modelineOf(schema string) string {
	return "# yaml-language-server: $schema=" + (&url.URL{Path: filepath.ToSlash(schema)}).EscapedPath() + "\n"
}

// refreshSchema writes the schema beside a file that names it in its first line. If there is no such file, it does nothing.
func (a *app) refreshSchema(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.HasPrefix(text, []byte(modeline(file))):
		return nil
	}
	schema, err := a.schemaOf(ctx, file)
	if err != nil {
		return err
	}
	return writeSchema(schemaName(file), schema)
}

// writeSchemaBeside writes the schema that the modeline of a new file names, and returns its path. If there is a file of that name, it
// writes nothing, and returns "".
func (a *app) writeSchemaBeside(ctx context.Context, file string) (string, error) {
	name := schemaName(file)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text, err := a.schemaOf(ctx, file)
	if err != nil {
		return "", err
	}
	return name, writeSchema(name, text)
}

// schemaWritten returns the line that says which schema a command has written beside a file.
func schemaWritten(name string) string {
	return name + ": the JSON Schema of the file, by which editors complete and check it"
}
