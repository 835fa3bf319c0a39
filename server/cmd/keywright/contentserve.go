package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/embed"
	"github.com/keywright/keywright/server/content/httpapi"
	"github.com/keywright/keywright/server/content/importer"
	"github.com/keywright/keywright/server/content/sample"
	"github.com/keywright/keywright/server/content/sqlite"
	"github.com/keywright/keywright/server/internal/callers"
	"github.com/keywright/keywright/server/internal/contentserver"
	"github.com/keywright/keywright/server/internal/httpserver"
	"github.com/keywright/keywright/server/internal/terminal"
)

// contentServeFlags holds the flags of content serve.
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
	c := &cobra.Command{
		Use:   "serve [--db URL] [--listen ADDR] [--admin ADDR] [--key NAME] [--log-level LEVEL] [--dev] [--demo]",
		Short: "Serve the content of a community",
		Long: "Serves product updates, articles and replies from a database: GET BASE/productUpdates/ID, BASE/articles and " +
			"BASE/articles/ID/replies/ID; BASE/openapi.json says all of it. SIGTERM ends it once the requests in flight have been " +
			"answered.\n\n" +
			"Callers prove themselves by an API key in X-API-Key, or by a bearer token. --key and --moderator-key name secrets that hold " +
			"keys: a file in --secrets-dir, or " + host.EnvName("NAME") + " in the environment; a key that is rotated counts within a second. --jwks, " +
			"--issuer and --audience say which tokens count. Only with the permission moderate does a moderatorId show what is trashed, " +
			"spam or waits for approval: --moderator-key has it, and tokens with --moderate-claim. Without keys and tokens, callers need " +
			"not prove themselves, and have to be on this machine.\n\n" +
			"Operators have a listener of their own: /healthz, /readyz, /metrics, /debug/pprof/. Where other machines reach it, operators log in with " +
			"the token of --admin-token-file, and /healthz and /readyz alone are open.\n\n" +
			"This process leaves no core dump, and no debugger of the same user reads its memory; with --dev both are allowed.\n\n" +
			"With --demo it needs no database: it serves a sample, and says what to try.",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.serveContent(c, &flags)
		},
	}
	flags.db.add(c, "")
	c.Flags().StringVar(&flags.base, "base", "", "the `PATH` below which all is, such as /community/v1")
	flags.serverFlags.add(c, "127.0.0.1:8090", "127.0.0.1:8091")
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

// check returns an error for invalid flags and for flags that cannot be combined.
func (f *contentServeFlags) check(c *cobra.Command) error {
	claim, value, ok := strings.Cut(f.moderateClaim, "=")
	switch {
	case f.demo && f.db.url != "":
		return misuse(c, "--demo has records of its own: leave --db out")
	case (f.jwks == "") != (f.issuer == "") || (f.jwks == "") != (len(f.audiences) == 0):
		return misuse(c, "--jwks, --issuer and --audience go together: they say which tokens count")
	case f.moderateClaim != "" && f.jwks == "":
		return misuse(c, "--moderate-claim is about tokens: give --jwks, --issuer and --audience")
	case f.moderateClaim != "" && (!ok || claim == "" || value == ""):
		return misuse(c, "--moderate-claim wants CLAIM=VALUE, not %q", f.moderateClaim)
	case httpapi.CheckBase(f.base) != nil:
		return misuse(c, "--base: %v", httpapi.CheckBase(f.base))
	case (f.tls.Cert == "") != (f.tls.Key == ""):
		return misuse(c, "--tls-cert and --tls-key go together")
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return misuse(c, "--listen wants host:port, such as 127.0.0.1:8090, not %q", f.listen)
	}
	if _, _, err := net.SplitHostPort(f.admin); err != nil {
		return misuse(c, "--admin wants host:port, such as 127.0.0.1:8091, not %q", f.admin)
	}
	return nil
}

func (a *app) serveContent(c *cobra.Command, f *contentServeFlags) error {
	if err := f.check(c); err != nil {
		return err
	}
	operators, logger, err := f.begin(a, c, f.dev)
	if err != nil {
		return err
	}
	transport, err := host.Egress{AllowHTTP: f.dev, AllowPrivate: f.dev}.Transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	if f.dev {
		a.printErr("keywright: --dev: plain http and private addresses are allowed")
	}
	config := contentserver.Config{Base: f.base, Listen: f.listen, Admin: f.admin, Login: operators, TLS: f.tls, Logger: logger, AccessLog: f.accessLog}
	if config.Callers, err = f.callers(c.Context(), transport, logger); err != nil {
		return err
	}
	if config.Callers != nil {
		a.atEnd(func(context.Context) error { return config.Callers.Close() })
	}
	if config.Embeds, err = embed.New(embed.Config{Transport: transport, Logger: logger}); err != nil {
		return err
	}
	if f.demo {
		config.Store, err = a.sampleStore(c.Context())
	} else {
		config.Store, err = f.db.openToRead(a, c)
	}
	if err != nil {
		return err
	}
	config.Started = func(callers, operators string) {
		hints := a.hints()
		hints.Line("callers: %s/articles", callers)
		hints.Line("operators: %s/readyz", operators)
		if f.demo && config.Callers == nil {
			printContentCalls(hints, reachable(callers), reachable(operators))
		}
	}
	return contentserver.Run(c.Context(), config)
}

// callers returns the authentication of callers, or nil if callers need not authenticate.
func (f *contentServeFlags) callers(ctx context.Context, transport http.RoundTripper, logger *slog.Logger) (*callers.Callers, error) {
	if len(f.keys)+len(f.moderatorKeys) == 0 && f.jwks == "" {
		return nil, nil
	}
	secrets := configFlags{secretsDir: f.secretsDir}
	_, all, err := secrets.secrets(host.DirSecrets) // callers.New caches them
	if err != nil {
		return nil, err
	}
	config := callers.Config{Secrets: all, Transport: transport, AllowHTTP: f.dev, Logger: logger}
	for _, name := range f.keys {
		config.Keys = append(config.Keys, callers.Key{Secret: name})
	}
	for _, name := range f.moderatorKeys {
		config.Keys = append(config.Keys, callers.Key{Secret: name, Moderate: true})
	}
	if f.jwks != "" {
		config.Token = &callers.Token{Issuer: f.issuer, Audiences: f.audiences}
		config.Token.Claim, config.Token.Value, _ = strings.Cut(f.moderateClaim, "=")
		if strings.Contains(f.jwks, "://") {
			config.Token.JWKSURL = f.jwks
		} else {
			config.Token.JWKSFile = f.jwks
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
	a.atEnd(func(context.Context) error { return os.RemoveAll(dir) })
	store, err := sqlite.Open(ctx, filepath.Join(dir, "sample.db"))
	if err != nil {
		return nil, err
	}
	a.atEnd(func(context.Context) error { return store.Close() })
	_, err = importer.Import(ctx, store, sample.Name, sample.Records(), importer.Options{})
	return store, err
}

// printContentCalls prints shell commands to try.
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
