// Package daemon runs a gateway from a file: it serves, and follows the file, its plugins and its secrets as they change.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/connectors"
	"github.com/keywright/keywright/internal/httpserver"
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

// settle is how long the files have to stay as they are before they are read: editors write in several steps.
const settle = 200 * time.Millisecond

// Run serves until the context ends. It fails at once when the file is bad; later on, a bad file leaves what runs as it is.
func Run(ctx context.Context, c Config) error {
	m := newMetrics()
	c.Options.Host.Observe = func(ctx context.Context, told host.Call) {
		m.call(told)
		gateway.Observe(ctx, told)
	}
	d := &daemon{config: c, metrics: m}
	set, err := d.load(ctx)
	if err != nil {
		return err
	}
	observe := func(e gateway.Event) {
		m.request(e)
		d.logRequest(e)
	}
	if d.traces = set.Settings.Traces; d.traces != "" || c.Traces {
		t, err := newTraces(ctx, d.traces, c.Logger)
		if err != nil {
			return errors.Join(err, set.Close(ctx))
		}
		defer t.close()
		untraced := observe
		observe = func(e gateway.Event) {
			untraced(e)
			t.request(e)
		}
	}
	d.gateway = gateway.New(gateway.Config{Logger: c.Logger, Observe: observe})
	var secure *tls.Config
	if set.Settings.TLS != (connectors.TLS{}) {
		d.certificate = &httpserver.Certificate{Logger: c.Logger}
		secure = d.certificate.Config()
	}
	if err := d.use(ctx, set); err != nil {
		return errors.Join(err, set.Close(ctx))
	}
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
		Listen: c.Listen, Admin: c.Admin, Handler: d.gateway.Handler(), TLS: secure, Logger: c.Logger, Started: d.started, Ready: d.ready,
		Operate: map[string]http.Handler{"POST /connectors/{permalink}/test": d.gateway.Test(), "GET /metrics": m.Handler()},
	})
}

type daemon struct {
	config  Config
	metrics *gatewayMetrics
	gateway *gateway.Gateway
	retired sync.WaitGroup // sets that are no longer in use, but not closed yet
	// certificate is nil when callers use plain HTTP.
	certificate *httpserver.Certificate
	traces      string // the URL of the file; it stays as it was at the start

	mu    sync.Mutex
	set   *inUse
	tried []string // the plugins of a file that is not used: once one of them changes, it may be good
}

func (d *daemon) load(ctx context.Context) (*connectors.Set, error) {
	if d.config.Text != nil {
		return connectors.Read(ctx, d.config.File, d.config.Text, d.config.Options)
	}
	return connectors.Load(ctx, d.config.File, d.config.Options)
}

// inUse is a set with what belongs to it.
type inUse struct {
	*connectors.Set
	sessions gateway.Sessions
}

// close ends what the next one does not go on with.
func (u *inUse) close(next gateway.Sessions) {
	if u.sessions != next {
		_ = u.sessions.Close()
	}
	_ = u.Close(context.Background()) // whose calls have ended
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

// secure takes the certificate that a set has. The listener is what it was from the start.
func (d *daemon) secure(files connectors.TLS) error {
	switch on := files != (connectors.TLS{}); {
	case on != (d.certificate != nil):
		return errSecure
	case on:
		if err := d.certificate.Use(httpserver.Files(files)); err != nil {
			return fmt.Errorf("gateway.tls: %w", err)
		}
	}
	return nil
}

// use has the gateway run a set. The one before is closed when its requests have ended.
func (d *daemon) use(ctx context.Context, set *connectors.Set) error {
	if set.Settings.Traces != d.traces {
		return errTraces
	}
	if d.set != nil && d.set.Settings.HasUsers() && !set.Settings.HasUsers() {
		return errUsers
	}
	sessions, err := d.sessions(ctx, set)
	if err != nil {
		return err
	}
	if err := d.secure(set.Settings.TLS); err != nil {
		if d.set == nil || d.set.sessions != sessions {
			_ = sessions.Close()
		}
		return err
	}
	all := make([]*gateway.Connector, len(set.Connectors))
	for i, c := range set.Connectors {
		all[i] = c.Gateway
	}
	wait := d.gateway.Use(gateway.Setup{Connectors: all, Hosts: set.Settings.Hosts, Origins: set.Settings.Origins, Users: sessions})
	d.mu.Lock()
	before := d.set
	d.set = &inUse{set, sessions}
	d.mu.Unlock()
	if before != nil {
		d.retired.Go(func() {
			wait()
			before.close(sessions)
			for _, c := range before.Connectors {
				if _, err := set.Find(c.Permalink); err != nil {
					d.metrics.forget(c.Permalink)
				}
			}
		})
	}
	return nil
}

var errSecure = errors.New("gateway.tls cannot be added or taken away while this runs: restart it")

// sessions are those of the set before when nothing has changed about them: they have keys, and the issuer may be down.
func (d *daemon) sessions(ctx context.Context, set *connectors.Set) (gateway.Sessions, error) {
	if d.set != nil && reflect.DeepEqual(d.set.Settings.User, set.Settings.User) {
		return d.set.sessions, nil
	}
	transport := base(func() http.RoundTripper {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.set == nil {
			return set.Host.Base()
		}
		return d.set.Host.Base()
	})
	s, err := gateway.NewSessions(ctx, set.Settings.User, transport, d.config.Options.Host.Egress.AllowHTTP, d.config.Logger)
	if err != nil {
		return s, fmt.Errorf("gateway.user: %w", err)
	}
	return s, nil
}

// base is the transport of the host that is in use, whichever that is by then.
type base func() http.RoundTripper

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b().RoundTrip(r) }

// logRequest is for gateway.access_log.
func (d *daemon) logRequest(e gateway.Event) {
	d.mu.Lock()
	wanted := d.set.Settings.AccessLog
	d.mu.Unlock()
	if wanted {
		d.config.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("request_id", e.ID), slog.String("connector", e.Connector),
			slog.Int("status", e.Status), slog.String("problem", e.Problem), slog.Duration("total", e.Total), slog.Duration("upstream", e.Upstream))
	}
}

// errUsers keeps half a file, which may be well-formed, from opening the gateway to everybody.
var errUsers = errors.New("gateway.user cannot be taken away while this runs: restart it")

func (d *daemon) end() {
	d.retired.Wait()
	d.set.close(gateway.Sessions{})
}

// ready tells whether requests can be served.
func (d *daemon) ready() error {
	d.mu.Lock()
	set := d.set
	d.mu.Unlock()
	return set.sessions.Ready(context.Background())
}

// reload reads the file again: all of it, or nothing.
func (d *daemon) reload(ctx context.Context) {
	log := d.config.Logger
	set, err := d.load(ctx)
	var wrong *connectors.Error
	isWrong := errors.As(err, &wrong)
	d.mu.Lock()
	d.tried = nil
	if isWrong {
		d.tried = wrong.PluginFiles
	}
	d.mu.Unlock()
	switch {
	case isWrong:
		for _, p := range wrong.Problems {
			log.Error("the configuration is not used, and the one before goes on", slog.String("file", d.config.File), slog.String("problem", strings.TrimSpace(p.String())))
		}
		return
	case err != nil:
		log.Error("the configuration is not used, and the one before goes on", slog.String("file", d.config.File), slog.Any("error", err))
		return
	}
	if err := d.use(ctx, set); err != nil {
		log.Error("the configuration is not used, and the one before goes on", slog.String("file", d.config.File), slog.Any("error", err))
		_ = set.Close(ctx)
		return
	}
	log.Info("the configuration is in use", slog.String("file", d.config.File), slog.Int("connectors", len(set.Connectors)))
}

// watch watches the directories of the file and of its plugins: a file that is replaced is another one.
func (d *daemon) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching the configuration: %w", err)
	}
	for _, name := range d.files() {
		if err := w.Add(filepath.Dir(name)); err != nil {
			return nil, errors.Join(fmt.Errorf("watching %s: %w", filepath.Dir(name), err), w.Close())
		}
	}
	return w, nil
}

// files are those that a change of matters: as they are named, and where links of that name lead.
func (d *daemon) files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := slices.Concat(d.set.PluginFiles, d.tried)
	if d.config.Text == nil {
		files = append(files, d.config.File)
	}
	for _, name := range files {
		if target, err := filepath.EvalSymlinks(name); err == nil && target != name {
			files = append(files, target)
		}
	}
	return files
}

// state tells one state of the files from another.
func (d *daemon) state() string {
	var state strings.Builder
	for _, name := range d.files() {
		if info, err := os.Stat(name); err == nil {
			_, _ = fmt.Fprintln(&state, name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return state.String()
}

// follow reloads when a file has changed, or on SIGHUP. (Stores of secrets see their own changes.)
func (d *daemon) follow(ctx context.Context, w *fsnotify.Watcher) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	seen := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			d.reload(ctx)
			d.watchAll(w)
		case event := <-w.Events:
			if event.Op != fsnotify.Chmod && d.concerns(event.Name) {
				timer.Reset(settle)
			}
		case err := <-w.Errors:
			d.config.Logger.Warn("watching the configuration", slog.Any("error", err))
		case <-timer.C:
			d.watchAll(w)                          // what is written from now on is seen
			if state := d.state(); state != seen { // somebody may still be at it
				seen = state
				timer.Reset(settle)
				continue
			}
			d.reload(ctx)
			d.watchAll(w)
		}
	}
}

// watchAll watches what is there now: a plugin may be in another directory, or a directory be another one.
func (d *daemon) watchAll(w *fsnotify.Watcher) {
	for _, name := range d.files() {
		_ = w.Add(filepath.Dir(name)) // an error is of one that is gone; SIGHUP tries again
	}
}

// concerns tells whether a file that changed is one of the configuration's. In Kubernetes, the link ..data is what changes.
func (d *daemon) concerns(name string) bool {
	if filepath.Base(name) == "..data" {
		return true
	}
	for _, file := range d.files() {
		if filepath.Clean(file) == filepath.Clean(name) {
			return true
		}
	}
	return false
}
