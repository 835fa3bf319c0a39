// Package daemon runs a gateway from a file. It reloads the file when the file or one of its plugins changes.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/api"
	"github.com/keywright/keywright/server/internal/operate/console"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

// Config configures [Run].
type Config struct {
	// File is the path of the file with the connectors.
	File string
	// Text, if not nil, replaces the content of File, which is then not read or watched.
	Text    []byte
	Options connectors.Options
	// Version is the version of the program, which the console shows.
	Version string
	// Listen is the address for callers, and Admin that for operators.
	Listen, Admin string
	// Login configures the login of operators. Its zero value means that they need none, and then Admin has to be a loopback
	// address. Run sets its Claims, Clock and Logger.
	Login  login.Config
	Logger *slog.Logger
	// Traces sends traces to the collector in the environment variables OTEL_EXPORTER_OTLP_…. The file's gateway.traces has precedence.
	Traces bool
	// DrainDelay is the time for which callers are still accepted after ctx has ended, while /readyz says that the daemon ends.
	DrainDelay time.Duration
	// Started, if not nil, is called once the servers listen, with their URLs without a path.
	Started func(callers, operators string)
	// Stdout returns what receives the lines of the audit log. It is called if the file says so, before Started.
	Stdout func() io.Writer
}

// request counts, records and logs a request that has ended. Tests of operators are in the audit log alone.
func (d *daemon) request(e gateway.Event) {
	if !e.Test {
		d.metrics.request(e)
		d.recorder.Request(&e)
		d.people.connections.Request(&e)
		d.logRequest(e)
	}
	d.audit.request(&e)
}

// trace returns the function that begins the span of each request, or nil if traces are off. From then on, hosts make spans, too.
func (d *daemon) trace(ctx context.Context, first *inUse) (begin func(context.Context, gateway.Event) (context.Context, func(gateway.Event)), closeTraces func(), err error) {
	if first.Settings.Traces == "" && !d.config.Traces {
		return nil, func() {}, nil
	}
	t, err := newTraces(ctx, first.Settings.Traces, d.config.Logger)
	if err != nil {
		return nil, nil, err
	}
	d.tracer.traces.Store(t)
	return t.begin, t.close, nil
}

// Run serves until ctx ends. It returns an error at once if the file is invalid. If the file becomes invalid later, the last
// valid configuration stays in use.
func Run(ctx context.Context, c Config) (err error) {
	// The ballast is never used, nor resident. The garbage collector waits until the heap has doubled, and would otherwise run for every few
	// megabytes, which is some hundreds of requests.
	ballast := make([]byte, 16<<20)
	defer runtime.KeepAlive(ballast)
	d := newDaemon(c)
	defer func() { err = errors.Join(err, d.shared.close()) }() // last, because the hosts of all sets use it
	first, err := d.heard(ctx)
	if err != nil {
		return err
	}
	if err := d.openPeople(ctx, first); err != nil {
		first.close(nil)
		return err
	}
	defer func() { err = errors.Join(err, d.people.close()) }()
	guard, err := d.login()
	if err != nil {
		first.close(nil)
		return err
	}
	begin, closeTraces, err := d.trace(ctx, first)
	if err != nil {
		first.close(nil)
		return err
	}
	defer closeTraces()
	if err := d.openAudit(first.Settings.Audit, c.Stdout); err != nil {
		first.close(nil)
		return err
	}
	defer func() { err = errors.Join(err, d.audit.log.Close()) }()
	d.gateway = gateway.New(gateway.Config{Logger: c.Logger, Clock: d.clock, Observe: d.request, Trace: begin, Recordable: d.audit.log.Err, Connections: d.people.connections, Tenants: administrators{d}})
	var secure *tls.Config
	if first.pair != nil {
		d.certificate = &httpserver.Certificate{Logger: c.Logger, Clock: d.clock}
		secure = d.certificate.Config()
		d.metrics.Certificate(d.certificate.NotAfter)
	}
	d.use(first)
	defer d.end()
	watch, err := d.watch()
	if err != nil {
		return err
	}
	defer watch.Close()
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { d.follow(following, watch) })
	defer func() { stop(); follower.Wait() }()
	return httpserver.Run(ctx, httpserver.Config{
		Listen: c.Listen, Admin: c.Admin, Handler: d.gateway.Handler(), TLS: secure, Logger: c.Logger, Started: d.started, Ready: d.ready, Notice: d.notice,
		DrainDelay: c.DrainDelay, Login: guard, Operate: d.operate(),
	})
}

type daemon struct {
	config Config
	read   func(context.Context) (*connectors.Set, error)
	// follows is filepath.EvalSymlinks, except in tests.
	follows func(name string) (target string, err error)
	clock   func() time.Time
	metrics *gatewayMetrics
	// recorder has the requests that the console shows.
	recorder *activity.Recorder
	// began is the time at which the process began, and node is the name of this machine, or "".
	began   time.Time
	node    string
	gateway *gateway.Gateway
	// people has what people look at. It is nil until the first set is read.
	people *people
	// seed is that of hashes of users.
	seed atomic.Uint64
	// reloads has those who wait for a reload.
	reloads chan chan error
	// shared is the member state of the file, which all sets share.
	shared *sharedState
	// retired counts the sets that are no longer in use and not yet closed.
	retired sync.WaitGroup
	audit   auditor
	// certificate is nil if callers use plain HTTP.
	certificate *httpserver.Certificate
	tracer      *hostTracer

	mu  sync.Mutex
	set *inUse
	// status says what is in use, and what was refused since.
	status console.State
	// refusedPlugins holds the plugins of a refused file. When one of them changes, the file may be valid.
	refusedPlugins []string
}

// newDaemon returns a daemon that has not read its file yet.
func newDaemon(c Config) *daemon {
	d := &daemon{config: c, reloads: make(chan chan error), follows: filepath.EvalSymlinks, clock: c.Options.Host.Clock}
	if d.clock == nil {
		d.clock = time.Now
	}
	d.audit = auditor{clock: d.clock, subjects: map[*host.Connector]*subject{}}
	d.node, _ = os.Hostname() // pages do without
	d.seed.Store(maphash.Comparable(maphash.MakeSeed(), 0))
	d.recorder, d.began = activity.New(activity.Config{Clock: d.clock, Node: d.node, Hash: hashUser(&d.seed), Remembered: d.logRemembered}), d.clock()
	d.metrics = newMetrics(d)
	d.shared = &sharedState{logger: c.Logger, clock: d.clock}
	options := c.Options
	if l := options.Host.Logger; l != nil {
		options.Host.Logger = slog.New(gateway.LogHandler(l.Handler()))
	}
	d.tracer = &hostTracer{clock: d.clock}
	options.Host.Tracer = d.tracer
	options.OpenState, options.WithoutStore = d.open, false
	options.Host.Observe = func(ctx context.Context, attempt host.Attempt) {
		d.metrics.attempted(attempt)
		d.recorder.Attempted(&attempt)
		d.audit.attempted(ctx, &attempt)
		gateway.Observe(ctx, attempt)
	}
	d.read = func(ctx context.Context) (*connectors.Set, error) {
		options := options
		if set := d.current(); set != nil {
			options.Host.Previous = set.Host
		}
		if c.Text != nil {
			return connectors.Read(ctx, c.File, c.Text, options)
		}
		return connectors.Load(ctx, c.File, options)
	}
	return d
}

func (d *daemon) started(callers, operators string) {
	d.config.Logger.LogAttrs(context.Background(), slog.LevelInfo, "serving", slog.String("file", d.config.File),
		slog.Int("connectors", len(d.current().Connectors)), slog.String("callers", callers), slog.String("operators", operators))
	if d.config.Started != nil {
		d.config.Started(callers, operators)
	}
}

func (d *daemon) ready() error {
	return errors.Join(d.audit.log.Err(), d.current().sessions.Ready(context.Background()))
}

// notice returns what /readyz adds while the gateway is ready, but with the previous configuration, without an audit
// log, or without the store of state.
func (d *daemon) notice() string {
	var lines []string
	if since := d.since(); !since.IsZero() {
		lines = append(lines, "the configuration on disk is not in use, but the one before it: it has been refused since "+since.UTC().Format(time.RFC3339)+", and the log says why")
	}
	if err := d.audit.log.Failure(); err != nil {
		lines = append(lines, "the audit log cannot be written: "+err.Error())
	}
	if notice := d.shared.notice(); notice != "" {
		lines = append(lines, notice)
	}
	return strings.Join(lines, "\n")
}

// since returns the time at which the file on disk was first refused, or zero if it is in use.
func (d *daemon) since() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status.Refused
}

func (d *daemon) current() *inUse {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.set
}

func (d *daemon) end() {
	d.retired.Wait()
	d.set.close(nil)
}

// login returns the login of operators, or nil if they need none.
func (d *daemon) login() (func(http.Handler) http.Handler, error) {
	c := d.config.Login
	if c.TokenFile == "" && c.Claim == "" && c.TokensDir == "" {
		return nil, nil
	}
	c.Clock, c.Logger, c.Acted, c.Sessions = d.clock, d.config.Logger, d.people.acted, d.people.store
	c.Claims = func(r *http.Request) (map[string]any, error) { return d.current().sessions.Claims(r) }
	l, err := login.New(c)
	if err != nil {
		return nil, fmt.Errorf("the login of operators: %w", err)
	}
	return l.Guard, nil
}

func (d *daemon) operate() map[string]http.Handler {
	p, test := d.people, d.gateway.Test()
	routes := map[string]http.Handler{
		"POST /connectors/{permalink}/test": login.Require(login.Test, p.acting("test", test)),
		"GET /metrics":                      login.Require(login.Read, d.metrics.Handler()),
		api.Prefix + "/":                    newAPI(d, test),
	}
	maps.Copy(routes, console.New(console.Config{
		Version: d.config.Version, Started: d.began, Clock: d.clock, Logger: d.config.Logger, Gateway: d.gateway,
		View: p.nodes.View, Find: p.nodes.Find, Connections: p.connections, Acts: p.acts, State: d.consoleState, Fuel: d.metrics.plugins.fuelOf,
	}).Routes())
	return routes
}

// newAPI returns the API of operators.
func newAPI(d *daemon, test http.Handler) http.Handler {
	p := d.people
	return api.New(api.Config{
		Version: d.config.Version, Clock: d.clock, Find: p.nodes.Find, Connections: p.connections, Tenants: p.tenants, Acts: p.acts, Test: test, Reload: d.ask,
		View: p.nodes.View, Set: func() *connectors.Set { return d.current().Set },
		Configuration: func() api.Configuration {
			s := d.consoleState()
			c := api.Configuration{SHA256: s.Set.SHA256, Used: s.Used, RefusedTime: s.Refused, Waiting: s.Waiting}
			for _, problem := range s.Problems {
				c.Problems = append(c.Problems, problem.Text)
			}
			return c
		},
		Check: func(ctx context.Context, file []byte) (api.CheckResult, error) {
			return api.CheckFile(ctx, d.config.File, file, d.config.Options, d.current().Set)
		},
		Link: func(ctx context.Context, r api.LinkRequest) (string, error) {
			return d.gateway.ConnectLink(ctx, gateway.LinkRequest{User: host.User{ID: r.User, TenantID: r.Tenant}, Connectors: r.Connectors, Back: r.Back})
		},
	})
}

func (d *daemon) consoleState() console.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.status
	if err := d.audit.log.Failure(); err != nil {
		state.Unrecorded = err.Error()
	}
	if d.certificate != nil {
		state.CertificateEnds = d.certificate.NotAfter()
	}
	return state
}

// logRequest logs a request if gateway.access_log is true. The line has no path and no query of a caller, because they may have
// personal data or a secret.
func (d *daemon) logRequest(e gateway.Event) {
	settings := d.current().Settings
	if !settings.AccessLog {
		return
	}
	line := make([]slog.Attr, 0, 11)
	line = append(line, slog.String("request_id", e.ID), slog.String("method", e.Method), slog.String("connector", e.Connector),
		slog.String("pattern", e.Pattern), slog.String("tenant", host.Printable(e.Tenant)))
	if settings.AccessLogUsers {
		line = append(line, slog.String("user", host.Printable(e.User)))
	}
	line = append(line, slog.Int("status", e.Status), slog.Int("upstream_status", e.UpstreamStatus), slog.String("problem", e.Problem),
		slog.Float64("total_ms", float64(e.Total.Microseconds())/1000), slog.Float64("upstream_ms", float64(e.Upstream.Microseconds())/1000))
	d.config.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", line...)
}

// logRemembered logs remembered refusals of a token endpoint, which are logged for each request at the level debug alone.
func (d *daemon) logRemembered(f *activity.Failure, count uint64) {
	d.config.Logger.LogAttrs(context.Background(), slog.LevelWarn, "requests refused as an earlier one", slog.String("request_id", f.RequestID), slog.String("connector", f.Connector),
		slog.Uint64("count", count), slog.String("error", f.Cause))
}
