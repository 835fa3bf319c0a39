// Package daemon runs a gateway from a file: it serves, and follows the file, its plugins and its secrets as they change.
package daemon

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/httpserver"
)

// Config says what to run.
type Config struct {
	File    string // with the connectors
	Text    []byte // taken for the file's content when it is not nil: there is no file then, and nothing to be read again
	Options connectors.Options
	Listen  string // address for callers
	Admin   string // address for operators
	Logger  *slog.Logger
	Traces  bool // to where the environment says, OTEL_EXPORTER_OTLP_…; the file's gateway.traces comes before that
	// Started is told where the servers listen, once they do: URLs without a path.
	Started func(callers, operators string)
}

// ballast is how many bytes of the heap are never used. The collector waits until the heap has doubled: without them it would
// run for every few megabytes, which is some hundreds of requests. Memory that nobody writes to is not resident.
const ballast = 16 << 20

// Run serves until the context ends. It fails at once when the file is bad; later on, a bad file leaves what runs as it is.
func Run(ctx context.Context, c Config) error {
	unused := make([]byte, ballast)
	defer runtime.KeepAlive(unused)
	d, err := newDaemon(c)
	if err != nil {
		return err
	}
	first, err := d.heard(ctx)
	if err != nil {
		return err
	}
	observe := func(e gateway.Event) {
		d.metrics.request(e)
		d.logRequest(e)
	}
	if d.traces = first.Settings.Traces; d.traces != "" || c.Traces {
		t, err := newTraces(ctx, d.traces, c.Logger)
		if err != nil {
			first.close(nil)
			return err
		}
		defer t.close()
		untraced := observe
		observe = func(e gateway.Event) {
			untraced(e)
			t.request(e)
		}
	}
	d.gateway = gateway.New(gateway.Config{Logger: c.Logger, Clock: d.clock, Observe: observe})
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.follow(following, watch)
	}()
	defer func() { stop(); <-done }()
	return httpserver.Run(ctx, httpserver.Config{
		Listen: c.Listen, Admin: c.Admin, Handler: d.gateway.Handler(), TLS: secure, Logger: c.Logger, Started: d.started, Ready: d.ready, Notice: d.notice,
		Operate: map[string]http.Handler{"POST /connectors/{permalink}/test": d.gateway.Test(), "GET /metrics": d.metrics.Handler()},
	})
}

type daemon struct {
	config  Config
	read    func(context.Context) (*connectors.Set, error)
	follows func(name string) (target string, err error) // filepath.EvalSymlinks
	clock   func() time.Time
	metrics *gatewayMetrics
	gateway *gateway.Gateway
	retired sync.WaitGroup // sets that are no longer in use, but not closed yet
	// certificate is nil when callers use plain HTTP.
	certificate *httpserver.Certificate
	traces      string // the URL of the file; it stays as it was at the start

	mu      sync.Mutex
	set     *inUse
	used    time.Time // when it was
	refused time.Time // since when the file has been another, which cannot be used; zero when it is the one in use
	tried   []string  // the plugins of a file that is not used: once one of them changes, it may be good
}

// newDaemon makes one that has read nothing yet.
func newDaemon(c Config) (*daemon, error) {
	d := &daemon{config: c, follows: filepath.EvalSymlinks, clock: c.Options.Host.Clock}
	if d.clock == nil {
		d.clock = time.Now
	}
	d.metrics = newMetrics(d)
	options := c.Options
	options.Host.Observe = func(ctx context.Context, attempt host.Attempt) {
		d.metrics.attempted(attempt)
		gateway.Observe(ctx, attempt)
	}
	var err error
	if options.Host.Tokens, err = host.NewTokenCache(options.Host); err != nil { // one for all sets that follow each other
		return nil, err
	}
	d.read = func(ctx context.Context) (*connectors.Set, error) {
		if c.Text != nil {
			return connectors.Read(ctx, c.File, c.Text, options)
		}
		return connectors.Load(ctx, c.File, options)
	}
	return d, nil
}

func (d *daemon) started(callers, operators net.Addr) {
	if d.config.Started != nil {
		scheme := "http://"
		if d.certificate != nil {
			scheme = "https://"
		}
		d.config.Started(scheme+callers.String(), "http://"+operators.String())
	}
}

// ready reports whether requests can be served.
func (d *daemon) ready() error { return d.current().sessions.Ready(context.Background()) }

// notice is for /readyz. A file that is not used leaves the gateway ready: the one before it serves.
func (d *daemon) notice() string {
	if since := d.since(); !since.IsZero() {
		return "the configuration on disk is not in use, but the one before it: it was refused at " + since.UTC().Format(time.RFC3339) + ", and the log says why"
	}
	return ""
}

// since is when the file on disk was first found to be of no use, or zero.
func (d *daemon) since() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

func (d *daemon) current() *inUse {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.set
}

// logRequest is for gateway.access_log.
func (d *daemon) logRequest(e gateway.Event) {
	if d.current().Settings.AccessLog {
		d.config.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("request_id", e.ID), slog.String("connector", e.Connector),
			slog.Int("status", e.Status), slog.String("problem", e.Problem), slog.Duration("total", e.Total), slog.Duration("upstream", e.Upstream))
	}
}

func (d *daemon) end() {
	d.retired.Wait()
	d.set.close(nil)
}
