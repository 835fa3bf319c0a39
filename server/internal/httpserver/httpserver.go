// Package httpserver runs a server for callers and one for operators: listening, time limits, health, draining. It knows
// nothing of what they serve.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Limits of a connection.
const (
	headerTime   = 10 * time.Second // for a request's header
	idleTime     = 2 * time.Minute  // between two requests
	stallTime    = 30 * time.Second // between two pieces of a body, in either direction
	slowest      = 1 << 10          // bytes in a second of a client's body, but for stallTime in all
	restTime     = 10 * time.Second // for what is left of a body that nobody wants
	headerBytes  = 32 << 10
	defaultDrain = 30 * time.Second
	noticeTime   = 200 * time.Millisecond // of waiting for requests in flight, until the log says so
)

// Config configures Run.
type Config struct {
	Listen, Admin string       // addresses, host:port
	Handler       http.Handler // for callers
	// Operate has further routes for operators, beside /healthz, /readyz and /debug/pprof/.
	Operate map[string]http.Handler
	// Local is set when callers are whoever is on this machine: no page of another site may have a browser call then.
	Local bool
	TLS   *tls.Config  // for callers, who may use HTTP/2 then; nil is plain HTTP
	Ready func() error // nil when requests can be served; it may be nil itself
	// Notice returns what /readyz adds while requests can be served, such as that a change is not in use, or "". It may be
	// nil.
	Notice func() string
	Logger *slog.Logger
	Drain  time.Duration // for requests in flight once the server is to end; 0 is 30 seconds
	// Started is told where the servers listen, once they do.
	Started func(callers, operators net.Addr)
}

// Run serves until the context ends, and then finishes what is in flight. Its error is nil when all of that went well.
func Run(ctx context.Context, c Config) error {
	var config net.ListenConfig
	callers, err := config.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening for callers: %w", err)
	}
	defer callers.Close()
	operators, err := config.Listen(ctx, "tcp", c.Admin)
	if err != nil {
		return fmt.Errorf("listening for operators: %w", err)
	}
	defer operators.Close()
	draining := &atomic.Bool{}
	failed := make(chan error, 2)
	handler := c.Handler
	if c.Local {
		handler = noPages(handler, c.Listen)
	}
	handler = bounded(handler)
	if c.TLS != nil {
		handler = strict(handler)
	}
	caller := server(handler, c.Logger)
	operator := server(c.operate(draining), c.Logger)
	if c.TLS != nil {
		caller.TLSConfig = c.TLS
		go func() { failed <- caller.ServeTLS(callers, "", "") }()
	} else {
		go func() { failed <- caller.Serve(callers) }()
	}
	go func() { failed <- operator.Serve(operators) }()
	if c.Started != nil {
		c.Started(callers.Addr(), operators.Addr())
	}
	select {
	case err = <-failed:
		_ = caller.Close()
		_ = operator.Close()
		return err
	case <-ctx.Done():
	}
	draining.Store(true)
	drain := c.Drain
	if drain == 0 {
		drain = defaultDrain
	}
	waiting := time.AfterFunc(noticeTime, func() {
		c.Logger.Info("ending: waiting for the requests in flight", slog.String("at_most", drain.String()))
	})
	defer waiting.Stop()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err = caller.Shutdown(ending)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("requests were still in flight after %v, and are cut off", drain)
		_ = caller.Close()
	}
	return errors.Join(err, operator.Close())
}

func server(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: log.New(serverLog{logger}, "", 0),
	}
}

// serverLog takes what net/http has to say: of clients, which is for debugging, and of handlers that panicked.
type serverLog struct{ *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	level := slog.LevelDebug
	if strings.Contains(text, "panic serving") {
		level = slog.LevelError
	}
	l.Log(context.Background(), level, text)
	return len(line), nil
}

func (c Config) operate(draining *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := error(nil)
		if c.Ready != nil {
			err = c.Ready()
		}
		if draining.Load() {
			err = errors.New("the server is about to end")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
		if c.Notice != nil {
			if notice := c.Notice(); notice != "" {
				_, _ = fmt.Fprintln(w, notice)
			}
		}
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for pattern, handler := range c.Operate {
		mux.Handle(pattern, handler)
	}
	return noPages(mux, c.Admin)
}

// noPages refuses what a page of another site has a browser on this machine, or an operator's, send. Such a page may have a
// name of its own lead to this address (DNS rebinding), so that names are refused but for those that the listener has.
func noPages(h http.Handler, listen string) http.Handler {
	own, _, _ := net.SplitHostPort(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
		switch {
		case net.ParseIP(strings.Trim(name, "[]")) == nil && name != "localhost" && name != own:
			http.Error(w, "this listener is not known under that name", http.StatusMisdirectedRequest)
		case site != "" && site != "none" && site != "same-origin" || origin != "" && origin != "http://"+r.Host:
			http.Error(w, "pages of other sites may not call this listener", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// strict has browsers use nothing but TLS from now on, for a year: RFC 6797. Other names below this one are for others to
// speak of.
func strict(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		h.ServeHTTP(w, r)
	})
}

// bounded has a client whose body does not go on, or who does not read, lose its connection. A handler may take its time: there
// are deadlines only while it reads or writes, since one that passes would end the request.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &writer{ResponseWriter: w, deadlines: deadlines{
			control: *http.NewResponseController(w), body: r.Body != http.NoBody, harmless: r.ProtoMajor == 1 && r.TLS == nil,
		}}
		if lastOfConnection(r) {
			w.Header().Set("Connection", "close")
		}
		if b.deadlines.body {
			copied := *r // by the body of its own, the server tells what is to be done with what has not been read
			copied.Body = &stalling{ReadCloser: r.Body, deadlines: &b.deadlines, patience: stallTime}
			r = &copied
		}
		h.ServeHTTP(b, r)
		b.deadlines.write() // what the server still has to
	})
}

// lastOfConnection reports whether what follows a request may be something else than the next one (threats.md 42).
//
// A request may have had a Content-Length beside its Transfer-Encoding, of which net/http ignores one, and hides it: what
// stands before this server may have gone by the other, and taken what follows for a part of the body (RFC 9112 sections
// 6.1 and 6.3). And who asks for a tunnel or another protocol may go on as if it was there already.
func lastOfConnection(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) || r.Method == http.MethodConnect || r.Header.Get("Upgrade") != ""
}

// deadlines of a connection, or of a stream of HTTP/2. The errors of setting them say that there are none here.
type deadlines struct {
	control http.ResponseController
	// body is set when the request has one. The server may read what is left of it before it writes.
	body bool
	// harmless is set when a deadline for writing that passes while nobody writes does no harm. It ends a stream of HTTP/2, and
	// TLS may have something of its own to write.
	harmless bool
	// stalled is set once the body did not go on, and gets no more time.
	stalled atomic.Bool
	// writing is the deadline for writing that is set.
	writing time.Time
}

func (d *deadlines) read(most time.Duration) { _ = d.control.SetReadDeadline(time.Now().Add(most)) }

// write sets the deadline for writing, unless it was set within the last second, and one for reading what is left of the body.
func (d *deadlines) write() {
	if d.body && !d.stalled.Load() {
		d.read(restTime)
	}
	if now := time.Now(); d.writing.Sub(now) < stallTime-time.Second {
		d.writing = now.Add(stallTime)
		_ = d.control.SetWriteDeadline(d.writing)
	}
}

func (d *deadlines) end() {
	if d.body && !d.stalled.Load() {
		_ = d.control.SetReadDeadline(time.Time{})
	}
	if !d.harmless {
		d.writing = time.Time{}
		_ = d.control.SetWriteDeadline(d.writing)
	}
}

// stalling is a client's body. It ends when no piece of it comes, and when they come so slowly that a request, and its place
// among those at once, could be held for days.
type stalling struct {
	io.ReadCloser
	deadlines *deadlines
	patience  time.Duration // that is left; what comes adds to it
}

func (s *stalling) Read(p []byte) (int, error) {
	began := time.Now()
	s.deadlines.read(s.patience)
	n, err := s.ReadCloser.Read(p)
	s.patience = min(stallTime, max(0, s.patience-time.Since(began)+time.Duration(n)*time.Second/slowest))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.deadlines.stalled.Store(true)
	} else {
		_ = s.deadlines.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

type writer struct {
	http.ResponseWriter
	deadlines deadlines
}

func (w *writer) Write(p []byte) (int, error) {
	w.deadlines.write()
	defer w.deadlines.end()
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.deadlines.write()
	defer w.deadlines.end()
	return w.deadlines.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
