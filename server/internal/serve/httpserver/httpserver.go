// Package httpserver runs an HTTP server for callers and one for operators. It provides listeners, time limits, health
// checks and draining. The handlers come from its users.
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
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Limits of a connection.
const (
	headerTime  = 10 * time.Second       // for the header of a request
	idleTime    = 2 * time.Minute        // between two requests
	stallTime   = 30 * time.Second       // between two pieces of a body, in either direction
	slowest     = 1 << 10                // bytes per second; a client's body may fall behind this rate by stallTime in total
	restTime    = 10 * time.Second       // for the rest of a body that the handler has not read
	headerBytes = 32 << 10               // of the header of a request
	drainTime   = 30 * time.Second       // for requests in flight when the server ends
	noticeTime  = 200 * time.Millisecond // after which the log reports that Run waits for requests in flight
)

// Config configures [Run].
type Config struct {
	// Listen is the address for callers, Admin the address for operators, host:port each.
	Listen, Admin string
	// Handler serves callers.
	Handler http.Handler
	// Operate has further routes for operators, beside /healthz, /readyz and /debug/pprof/.
	Operate map[string]http.Handler
	// If not nil, Login returns a handler that lets operators alone reach h. /healthz and /readyz need no login, and have no
	// details then. Without it, Admin has to be a loopback address.
	Login func(h http.Handler) http.Handler
	// Local means that everybody on this machine may call. Then Listen has to be a loopback address, and requests that
	// pages of other sites make a browser send are refused.
	Local bool
	// TLS is the configuration for callers, who may then use HTTP/2, and for operators if Admin is no loopback address. If it is
	// nil, they use plain HTTP.
	TLS *tls.Config
	// If not nil, Ready returns an error while requests cannot be served. /readyz reports it.
	Ready func() error
	// If not nil, Notice returns a text that /readyz adds while requests can be served, for example that a change is
	// not in use. "" means none.
	Notice func() string
	Logger *slog.Logger
	// DrainDelay is the time between the end of the context, from which on /readyz says that the server is about to end, and
	// the time at which it takes no new connection. A load balancer needs it to send requests elsewhere.
	DrainDelay time.Duration
	// After is time.After, except in tests. It measures DrainDelay.
	After func(time.Duration) <-chan time.Time
	// If not nil, Started is called with the URLs of the servers, without a path, once they listen.
	Started func(callers, operators string)
}

// Run serves until ctx ends, and then waits for the requests in flight. It returns an error if a server cannot listen
// or fails, or if requests had to be cut off after 30 seconds.
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
	if c.Local && !loopback(callers.Addr()) {
		return fmt.Errorf("listening on %s: callers from other machines have to prove themselves: give an API key or the keys of tokens, or listen on 127.0.0.1", c.Listen)
	}
	if err := c.checkOpen(operators.Addr()); err != nil {
		return err
	}
	draining := &atomic.Bool{}
	failed := make(chan error, 2)
	caller := server(c.callers(), c.Logger)
	operator := server(withDeadlines(c.operate(draining)), c.Logger)
	caller.TLSConfig = c.TLS.Clone() // a copy, because net/http changes it
	if !loopback(operators.Addr()) { // where others are on the way
		operator.TLSConfig = c.TLS.Clone()
	}
	defer func() { _, _ = caller.Close(), operator.Close() }()
	atCallers, atOperators := urlOf(caller, callers.Addr()), urlOf(operator, operators.Addr())
	go func() { failed <- serve(caller, callers) }()
	go func() { failed <- serve(operator, operators) }()
	if c.Started != nil {
		c.Started(atCallers, atOperators)
	}
	select {
	case err = <-failed:
		return err
	case <-ctx.Done():
	}
	draining.Store(true)
	if err := c.delay(failed); err != nil {
		return err
	}
	waiting := time.AfterFunc(noticeTime, func() {
		c.Logger.Info("ending: waiting for the requests in flight", slog.String("at_most", drainTime.String()))
	})
	defer waiting.Stop()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err = caller.Shutdown(ending)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("requests were still in flight after %v, and are cut off", drainTime)
	}
	return errors.Join(err, operator.Close())
}

// delay waits for c.DrainDelay. It returns an error if a server fails meanwhile.
func (c Config) delay(failed <-chan error) error {
	if c.DrainDelay <= 0 {
		return nil
	}
	c.Logger.Info("ending: /readyz says so, and callers are still accepted", slog.String("for", c.DrainDelay.String()))
	timer := c.After
	if timer == nil {
		timer = time.After
	}
	select {
	case err := <-failed:
		return err
	case <-timer(c.DrainDelay):
		return nil
	}
}

func (c Config) callers() http.Handler {
	handler := c.Handler
	if c.Local {
		handler = refuseOtherSites(handler, c.Listen)
	}
	handler = withDeadlines(handler)
	if c.TLS != nil {
		handler = strictTransport(handler)
	}
	return handler
}

func serve(s *http.Server, l net.Listener) error {
	if s.TLSConfig == nil {
		return s.Serve(l)
	}
	return s.ServeTLS(l, "", "")
}

func server(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: log.New(serverLog{logger}, "", 0),
	}
}

// serverLog logs the messages of net/http: errors of clients at level debug, panics of handlers at level error.
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

// strictTransport makes browsers use only TLS for this host for a year (RFC 6797). Subdomains may be of others.
func strictTransport(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		h.ServeHTTP(w, r)
	})
}

// withDeadlines closes the connection of a client that stops sending its body or stops reading the response. There are
// deadlines only while the handler reads or writes, since one that passes would end the request.
func withDeadlines(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &timedWriter{ResponseWriter: w, deadlines: deadlines{
			control: *http.NewResponseController(w), body: r.Body != http.NoBody, harmless: r.ProtoMajor == 1 && r.TLS == nil,
		}}
		if lastOfConnection(r) {
			w.Header().Set("Connection", "close")
		}
		if b.deadlines.body {
			r = new(*r) // a copy, because the server needs its own type of body to handle the rest that was not read
			r.Body = &timedBody{ReadCloser: r.Body, deadlines: &b.deadlines, patience: stallTime}
		}
		h.ServeHTTP(b, r)
		b.deadlines.write() // for the bytes that the server has buffered
	})
}

// lastOfConnection reports whether the connection must be closed after a request, because the bytes that follow may be
// something else than the next request (threats.md 42).
//
// A request with Transfer-Encoding may also have had a Content-Length, which net/http ignores and hides. A proxy in
// front of this server may have used the Content-Length, and taken the next bytes for a part of the body (RFC 9112
// sections 6.1 and 6.3). A client that asks for a tunnel or for another protocol may continue as if it had it already.
func lastOfConnection(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) || r.Method == http.MethodConnect || r.Header.Get("Upgrade") != ""
}

// deadlines sets the deadlines of a connection, or of a stream of HTTP/2. It ignores errors.
type deadlines struct {
	control http.ResponseController
	// body is set if the request has a body. The server may read the rest of it before it writes.
	body bool
	// harmless is set if a write deadline may pass while nobody writes. It may not with HTTP/2, where it ends the stream,
	// or with TLS, which may have to write by itself.
	harmless bool
	// stalled reports that reading the body timed out. Then the read deadline is not extended again.
	stalled atomic.Bool
	// done reports that the body was read to its end. From then on, the server reads ahead to notice that the client has
	// gone. A read deadline that passed would look like that, and end the request.
	done atomic.Bool
	// writing is the current write deadline.
	writing time.Time
}

func (d *deadlines) read(limit time.Duration) { _ = d.control.SetReadDeadline(time.Now().Add(limit)) }

// write sets the deadline of a write, at most once a second. The server may read the rest of a body before it writes.
func (d *deadlines) write() {
	if d.body && !d.stalled.Load() && !d.done.Load() {
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

// timedBody is a client's body. Read fails if no bytes arrive for stallTime, or so few that the request may last days.
type timedBody struct {
	io.ReadCloser
	deadlines *deadlines
	// patience is the time that remains for the next read. Each byte that arrives adds to it.
	patience time.Duration
}

func (b *timedBody) Read(p []byte) (int, error) {
	began := time.Now()
	b.deadlines.read(b.patience)
	n, err := b.ReadCloser.Read(p)
	b.patience = min(stallTime, max(0, b.patience-time.Since(began)+time.Duration(n)*time.Second/slowest))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.deadlines.stalled.Store(true)
	} else {
		_ = b.deadlines.control.SetReadDeadline(time.Time{})
	}
	if err == io.EOF {
		b.deadlines.done.Store(true)
	}
	return n, err
}

type timedWriter struct {
	http.ResponseWriter
	deadlines deadlines
}

func (w *timedWriter) Write(p []byte) (int, error) {
	w.deadlines.write()
	defer w.deadlines.end()
	return w.ResponseWriter.Write(p)
}

// FlushError implements Flush of http.ResponseController.
func (w *timedWriter) FlushError() error {
	w.deadlines.write()
	defer w.deadlines.end()
	return w.deadlines.control.Flush()
}

// Unwrap returns the underlying ResponseWriter to http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
