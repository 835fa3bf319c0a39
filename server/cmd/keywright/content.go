package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/embed"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/content/importer"
	"github.com/keywright/keywright/server/content/postgres"
	"github.com/keywright/keywright/server/content/sample"
	"github.com/keywright/keywright/server/content/sqlite"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/callers"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
	"github.com/keywright/keywright/server/internal/serve/metrics"
	"github.com/keywright/keywright/server/internal/terminal"
)

// contentDB is the environment variable that replaces --db.
const contentDB = "KEYWRIGHT_CONTENT_DB"

type databaseFlags struct {
	url         string
	connections int
	pooler      bool
}

func (f *databaseFlags) add(c *cobra.Command, sqlite string) {
	c.Flags().StringVar(&f.url, "db", "", "the database: sqlite:PATH"+sqlite+", or postgres://… (default $"+contentDB+")")
	c.Flags().IntVar(&f.connections, "db-connections", 16, "the most connections to PostgreSQL")
	c.Flags().BoolVar(&f.pooler, "db-pooler", false, "PostgreSQL is behind a pooler that lends connections for a transaction, such as PgBouncer")
}

// open opens the database until the command ends, a file of SQLite by sqliteOpen. Errors have no part of the URL that may be a password.
func (f *databaseFlags) open(
	a *app, c *cobra.Command, sqliteOpen func(context.Context, string) (content.Database, error),
) (store content.Database, err error) {
	address := cmp.Or(f.url, a.env(contentDB))
	switch scheme, path, _ := strings.Cut(address, ":"); {
	case address == "":
		return nil, misuse(c, "without --db: give it as sqlite:PATH or postgres://…, or set %s", contentDB)
	case f.connections < 2:
		return nil, misuse(c, "--db-connections wants 2 or more")
	case scheme == "sqlite" && path != "":
		store, err = sqliteOpen(c.Context(), path)
	case scheme == "postgres" || scheme == "postgresql":
		store, err = postgres.Open(c.Context(), address, postgres.Options{Connections: f.connections, Pooler: f.pooler})
	default:
		err = errors.New("this is no URL of a database: it has to be like sqlite:content.db or postgres://user@host/database")
	}
	if err != nil {
		return nil, err
	}
	a.cleanup(func(context.Context) error { return store.Close() })
	return store, nil
}

// openToRead opens a file of SQLite that exists.
func openToRead(ctx context.Context, path string) (content.Database, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // so that a misspelt path is no empty database
		return nil, fmt.Errorf("there is no database %s: `keywright content import` makes one", path)
	}
	return sqlite.OpenToRead(ctx, path)
}

func contentImportCommand(a *app) *cobra.Command {
	var db databaseFlags
	var o importer.Options
	c := command("import", someFiles, func(c *cobra.Command, files []string) error {
		if o.DryRun {
			return a.importFiles(c, nil, files, o)
		}
		store, err := db.open(a, c, sqlite.Open)
		if err != nil {
			return err
		}
		return a.importFiles(c, store, files, o)
	})
	db.add(c, ", which is made if it is not there")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only read and check, without a database")
	c.Flags().BoolVar(&o.IgnoreUnknown, "ignore-unknown", false, "leave out members that are not known, as a dump of another program has them, in place of the records that have them")
	return c
}

// importFiles imports files, and continues after a file with problems. If w is nil, it only checks them.
func (a *app) importFiles(c *cobra.Command, w content.Writer, files []string, o importer.Options) (failed error) {
	for _, file := range files {
		result, err := a.importFile(c.Context(), w, file, o)
		if err != nil {
			a.printErr("keywright: %v", err)
		}
		if err != nil || result.Problems > 0 {
			failed = errReported
		}
		if result != nil {
			a.printImport(file, w == nil, result)
		}
		if a.out.Err() != nil || c.Context().Err() != nil {
			break
		}
	}
	return failed
}

func (a *app) printImport(file string, dryRun bool, r *importer.Result) {
	done := "written"
	if dryRun {
		done = "checked, not written"
	}
	line := fmt.Sprintf("%s: %s: product updates %d, articles %d, replies %d, moderators %d; deleted %d; bad records %d",
		file, done, r.ProductUpdates, r.Articles, r.Replies, r.Moderators, r.Deleted, r.Bad)
	if r.Unknown > 0 {
		line += fmt.Sprintf("; unknown members left out of %d", r.Unknown)
	}
	a.out.Line("%s", line)
}

// importFile imports a file, or stdin for "-". For a file that cannot be opened, it returns no result.
func (a *app) importFile(ctx context.Context, w content.Writer, name string, o importer.Options) (*importer.Result, error) {
	in, size := a.in, int64(-1)
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = file
	}
	bar := a.progress(filepath.Base(name), size)
	defer func() { _ = bar.Finish() }()
	o.Problem = func(p importer.Problem) {
		_ = bar.Clear() // it is shown again at the next step
		a.printErr("%s", p)
	}
	o.Progress = func(r importer.Result) { _ = bar.Set64(r.Bytes) }
	result, err := importer.Import(ctx, w, name, in, o)
	return &result, err
}

// progress starts a progress bar for a file in a terminal. Elsewhere the bar is invisible. The size is in bytes, and -1 if it is unknown.
func (a *app) progress(name string, size int64) *progressbar.ProgressBar {
	width := a.err.Columns()
	return progressbar.NewOptions64(size,
		progressbar.OptionSetVisibility(width > 0),
		progressbar.OptionSetWriter(a.err.Writer),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(max(width-len(name)-60, 5)), // leaves room for the text beside the bar
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSpinnerCustom([]string{"|", "/", "-", `\`}),
		progressbar.OptionClearOnFinish(),
	)
}

func contentExportCommand(a *app) *cobra.Command {
	var db databaseFlags
	c := command("export", nil, func(c *cobra.Command, _ []string) error {
		store, err := db.open(a, c, openToRead)
		if err != nil {
			return err
		}
		status, err := store.Export(c.Context(), a.out)
		if err == nil {
			a.printErr("exported: product updates %d, articles %d, replies %d, moderators %d",
				status.ProductUpdates, status.Articles, status.Replies, status.Moderators)
		}
		return err
	})
	db.add(c, "")
	return c
}

type contentStatus content.Status

func contentStatusCommand(a *app) *cobra.Command {
	var db databaseFlags
	c := a.jsonCommand("status", nil, func(c *cobra.Command, _ []string) (document, error) {
		store, err := db.open(a, c, openToRead)
		if err != nil {
			return nil, err
		}
		status, err := store.Status(c.Context())
		return contentStatus(status), err
	})
	db.add(c, "")
	return c
}

func (s contentStatus) print(a *app) {
	a.out.Line("product updates %d, articles %d (listed %d), replies %d, moderators %d; last activity %s",
		s.ProductUpdates, s.Articles, s.Listed, s.Replies, s.Moderators, cmp.Or(s.Newest, "none"))
}

type contentServeFlags struct {
	serverFlags
	db                   databaseFlags
	base                 string
	keys, moderatorKeys  []string
	secretsDir           string
	jwks, issuer         string
	audiences            []string
	moderateClaim        string
	tls                  httpserver.Files
	accessLog, dev, demo bool
}

func contentServeCommand(a *app) *cobra.Command {
	var flags contentServeFlags
	c := command("serve", nil, func(c *cobra.Command, _ []string) error { return a.serveContent(c, &flags) })
	flags.db.add(c, "")
	c.Flags().StringVar(&flags.base, "base", "", "the `PATH` below which all is, such as /community/v1")
	flags.add(c, "127.0.0.1:8090", "127.0.0.1:8091")
	c.Flags().StringArrayVar(&flags.keys, "key", nil, "the `NAME` of a secret that is an API key; may be repeated")
	c.Flags().StringArrayVar(&flags.moderatorKeys, "moderator-key", nil, "the `NAME` of an API key with the permission moderate; may be repeated")
	c.Flags().StringVar(&flags.secretsDir, "secrets-dir", "", "a `DIR` with a file for each secret, asked before the environment")
	c.Flags().StringVar(&flags.jwks, "jwks", "", "the keys of bearer tokens, a `URL` or a file")
	c.Flags().StringVar(&flags.issuer, "issuer", "", "what the claim iss of tokens has to be")
	c.Flags().StringArrayVar(&flags.audiences, "audience", nil, "what the claim aud of tokens has to have; may be repeated")
	c.Flags().StringVar(&flags.moderateClaim, "moderate-claim", "", "which tokens have the permission moderate, `CLAIM=VALUE`, such as scope=content.moderate")
	c.Flags().StringVar(&flags.tls.Cert, "tls-cert", "", "the `FILE` of a certificate with its chain: callers use HTTPS")
	c.Flags().StringVar(&flags.tls.Key, "tls-key", "", "the `FILE` of its key")
	c.Flags().BoolVar(&flags.accessLog, "access-log", false, "log each request")
	c.Flags().BoolVar(&flags.dev, "dev", false, "allow private addresses for --jwks and embeds, and plain http for --jwks")
	c.Flags().BoolVar(&flags.demo, "demo", false, "serve a sample instead of a database")
	return c
}

func (f *contentServeFlags) check(c *cobra.Command) error {
	switch claim, value, _ := strings.Cut(f.moderateClaim, "="); {
	case f.demo && f.db.url != "":
		return misuse(c, "--demo has records of its own: leave --db out")
	case (f.jwks == "") != (f.issuer == "") || (f.jwks == "") != (len(f.audiences) == 0):
		return misuse(c, "--jwks, --issuer and --audience go together: they say which tokens count")
	case f.moderateClaim != "" && f.jwks == "":
		return misuse(c, "--moderate-claim is about tokens: give --jwks, --issuer and --audience")
	case f.moderateClaim != "" && (claim == "" || value == ""):
		return misuse(c, "--moderate-claim wants CLAIM=VALUE, not %q", f.moderateClaim)
	case httpapi.CheckBase(f.base) != nil:
		return misuse(c, "--base: %v", httpapi.CheckBase(f.base))
	case (f.tls.Cert == "") != (f.tls.Key == ""):
		return misuse(c, "--tls-cert and --tls-key go together")
	}
	for _, name := range []string{"listen", "admin"} {
		flag := c.Flags().Lookup(name)
		if _, _, err := net.SplitHostPort(flag.Value.String()); err != nil {
			return misuse(c, "--%s wants host:port, such as %s, not %q", name, flag.DefValue, flag.Value)
		}
	}
	return nil
}

// serveContent serves content until the context ends, and then waits for the requests in flight.
func (a *app) serveContent(c *cobra.Command, f *contentServeFlags) error {
	if err := f.check(c); err != nil {
		return err
	}
	logger, err := f.begin(a, c, f.dev)
	if err != nil {
		return err
	}
	config, users, err := a.contentConfig(c, f, logger)
	if err != nil {
		return err
	}
	m := metrics.New(moduleVersion())
	config.Observe = f.recorder(m, logger)
	server := httpserver.Config{
		Listen: f.listen, Admin: f.admin, Local: users == nil, Logger: logger, Operate: map[string]http.Handler{"GET /metrics": m.Handler()},
		Ready: func() error { return contentReady(config.Store, users) },
		Started: func(callers, operators string) {
			callers += f.base
			hints := a.hints()
			hints.Line("callers: %s/articles", callers)
			hints.Line("operators: %s/readyz", operators)
			if f.demo && users == nil {
				printContentCalls(hints, reachable(callers), reachable(operators))
			}
		},
	}
	if server.Handler, err = httpapi.New(config); err != nil {
		return err
	}
	if f.operators.TokenFile != "" {
		f.operators.Logger = logger
		l, err := login.New(f.operators)
		if err != nil {
			return fmt.Errorf("the login of operators: %w", err)
		}
		server.Login = l.Guard
	}
	if server.TLS, err = f.secure(m, logger); err != nil {
		return err
	}
	return httpserver.Run(c.Context(), server)
}

// contentConfig returns the configuration of the interface, with its store, until the command ends. users are its Callers, or nil if
// everybody may call.
func (a *app) contentConfig(c *cobra.Command, f *contentServeFlags, logger *slog.Logger) (config httpapi.Config, users *callers.Callers, err error) {
	transport, err := host.Egress{AllowHTTP: f.dev, AllowPrivate: f.dev}.Transport()
	if err != nil {
		return config, nil, err
	}
	a.cleanup(func(context.Context) error {
		transport.CloseIdleConnections()
		return nil
	})
	if f.dev {
		a.printErr("keywright: --dev: plain http and private addresses are allowed")
	}
	config = httpapi.Config{Base: f.base, Logger: logger}
	if users, err = f.callers(c.Context(), transport, logger); err != nil {
		return config, nil, err
	}
	if users != nil {
		config.Callers = users
		a.cleanup(func(context.Context) error { return users.Close() })
	}
	if config.Embeds, err = embed.New(embed.Config{Transport: transport, Logger: logger}); err != nil {
		return config, nil, err
	}
	if f.demo {
		config.Store, err = a.sampleStore(c.Context())
	} else {
		config.Store, err = f.db.open(a, c, openToRead)
	}
	return config, users, err
}

// contentReady returns an error if requests cannot be served, because the store fails or callers cannot be authenticated.
func contentReady(store content.Store, users *callers.Callers) error {
	const readyTime = 5 * time.Second // limits the check for /readyz
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if _, err := store.Articles(ctx, 0, 1); err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	if users != nil {
		return users.Ready(ctx)
	}
	return nil
}

// secure returns the TLS configuration, or nil without a certificate. m shows when the certificate ends.
func (f *contentServeFlags) secure(m *metrics.Registry, logger *slog.Logger) (*tls.Config, error) {
	if f.tls == (httpserver.Files{}) {
		return nil, nil
	}
	pair, err := httpserver.ReadPair(f.tls)
	if err != nil {
		return nil, err
	}
	certificate := &httpserver.Certificate{Logger: logger}
	certificate.Use(pair)
	m.Certificate(certificate.NotAfter)
	return certificate.Config(), nil
}

// recorder returns a function that counts and logs requests. The values of labels are from fixed lists.
func (f *contentServeFlags) recorder(m *metrics.Registry, logger *slog.Logger) func(httpapi.Event) {
	requests := m.Counter("content_requests_total", "Requests for content that were answered.", "operation", "status", "problem")
	total := m.Seconds("content_request_seconds", "Time until an answer had been written.", "operation")
	return func(e httpapi.Event) {
		requests.WithLabelValues(e.Operation, strconv.Itoa(e.Status), e.Problem).Inc()
		total.WithLabelValues(e.Operation).Observe(e.Total.Seconds())
		if f.accessLog {
			logger.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("request_id", e.ID), slog.String("operation", e.Operation), slog.String("caller", e.Caller),
				slog.Int("status", e.Status), slog.String("problem", e.Problem), slog.Float64("total_ms", float64(e.Total.Microseconds())/1000))
		}
	}
}

// callers returns the authentication of callers, or nil if callers need not authenticate.
func (f *contentServeFlags) callers(ctx context.Context, transport http.RoundTripper, logger *slog.Logger) (*callers.Callers, error) {
	if len(f.keys)+len(f.moderatorKeys) == 0 && f.jwks == "" {
		return nil, nil
	}
	_, all, err := (&configFlags{secretsDir: f.secretsDir}).secrets(host.DirSecrets) // callers.New caches them
	if err != nil {
		return nil, err
	}
	config := callers.Config{Secrets: all, Options: identity.Options{Transport: transport, HTTP: host.Egress{AllowHTTP: f.dev}.AllowsHTTP, Logger: logger}}
	config.Claim, config.Value, _ = strings.Cut(f.moderateClaim, "=")
	for i, name := range slices.Concat(f.keys, f.moderatorKeys) {
		config.Keys = append(config.Keys, callers.Key{Secret: name, Moderate: i >= len(f.keys)})
	}
	if f.jwks != "" {
		config.JWT = &identity.JWT{Bearer: true, Issuer: f.issuer, Audiences: f.audiences}
		if strings.Contains(f.jwks, "://") {
			config.JWT.JWKSURL = f.jwks
		} else {
			config.JWT.JWKSFile = f.jwks
		}
	}
	return callers.New(ctx, config)
}

// sampleStore returns a database with the sample, which is removed when the command ends.
func (a *app) sampleStore(ctx context.Context) (content.Store, error) {
	dir, err := os.MkdirTemp("", "keywright-content-")
	if err != nil {
		return nil, err
	}
	a.cleanup(func(context.Context) error { return os.RemoveAll(dir) })
	store, err := sqlite.Open(ctx, filepath.Join(dir, "sample.db"))
	if err != nil {
		return nil, err
	}
	a.cleanup(func(context.Context) error { return store.Close() })
	_, err = importer.Import(ctx, store, sample.Name, sample.Records(), importer.Options{})
	return store, err
}

func printContentCalls(p *terminal.Printer, callers, operators string) {
	p.Printf("\n%s\n", p.Bold("Try these in another terminal:"))
	for _, path := range []string{
		"/articles?pageSize=3", "/articles/1001/replies/20123", "/productUpdates/538", "/productUpdates/530?resolveEmbeds=true",
	} {
		p.Printf("  curl '%s%s'\n", callers, path)
	}
	p.Printf("\n%s\n", p.Bold("A product update that is trashed, for a moderator and for others:"))
	p.Printf("  curl '%s/productUpdates/507?moderatorId=311'\n  curl -i '%s/productUpdates/507'\n", callers, callers)
	p.Printf("\n  curl %s/openapi.json\n  curl %s/metrics\n\n%s\n", callers, operators, p.Dim("Ctrl-C ends it."))
}
