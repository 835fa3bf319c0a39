package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/keywright/keywright/host"
)

// consenting begins and ends a consent.
type consenting interface {
	// Consent returns the URL to which the browser must go.
	Consent(ctx context.Context, redirectURI, binding string) (authorizationURL string, err error)
	// Callback ends the consent.
	Callback(ctx context.Context, back host.Callback) error
}

// A loopback waits on a port of 127.0.0.1 for a browser that comes back from an authorization server (RFC 8252 section 7.3).
// Other programs and pages may send requests to that port, too. They do not know the state, so that their requests count as
// nothing (threats.md 136).
type loopback struct {
	of   consenting
	name string
	// address is that of the listener. It does not serve before state is set.
	listener net.Listener
	address  string
	binding  string
	// state is the parameter of the authorization URL that the browser brings back.
	state  string
	server *http.Server
	// comes has a token for the one callback that counts.
	comes chan struct{}
	ended chan error
}

// listenLoopback listens on a port, or on a free one if port is 0. The caller must call close.
func listenLoopback(ctx context.Context, port int, of consenting, name string) (*loopback, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("the browser could not come back: %w", err)
	}
	l := &loopback{of: of, name: name, listener: listener, address: listener.Addr().String(), binding: rand.Text(), comes: make(chan struct{}, 1), ended: make(chan error, 1)}
	l.comes <- struct{}{}
	const slow = 10 * time.Second
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.answer), ReadHeaderTimeout: slow, ReadTimeout: slow, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	return l, nil
}

// close ends the listener, once the answer under way has been written.
func (l *loopback) close() {
	_ = l.listener.Close()
	const last = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), last)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
}

func (l *loopback) redirectURI() string { return "http://" + l.address + "/callback" }

// begin begins the consent, and returns the URL to which the browser must go.
func (l *loopback) begin(ctx context.Context) (string, error) {
	to, err := l.of.Consent(ctx, l.redirectURI(), l.binding)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(to)
	if err != nil {
		return "", errors.New("the URL of the authorization server is not valid")
	}
	if l.state = u.Query().Get("state"); l.state == "" {
		return "", errors.New("the URL of the authorization server has no state")
	}
	go func() { _ = l.server.Serve(l.listener) }()
	return to, nil
}

// wait returns when the consent has ended, and returns its error. A callback that is under way when the time is over or ctx ends
// still counts.
func (l *loopback) wait(ctx context.Context, most time.Duration) (err error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-l.ended:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("no browser came back within %s: begin again", most)
	}
	select {
	case <-l.comes:
		return err
	default:
		return <-l.ended
	}
}

// answer answers a request to the port.
func (l *loopback) answer(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Connection": "close",
	} {
		w.Header().Set(name, value)
	}
	say := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintln(w, text)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	given := values["state"]
	switch {
	case r.Host != l.address: // a page may have a name of its own for 127.0.0.1
		say(http.StatusMisdirectedRequest, "This address is not known here.")
		return
	case r.URL.Path != "/callback" || r.Method != http.MethodGet:
		say(http.StatusNotFound, "There is nothing here.")
		return
	case err != nil || len(given) != 1 || subtle.ConstantTimeCompare([]byte(given[0]), []byte(l.state)) != 1:
		say(http.StatusBadRequest, "This is not the answer that keywright waits for.")
		return
	}
	select {
	case <-l.comes:
	default:
		say(http.StatusBadRequest, "This is over.")
		return
	}
	err = l.of.Callback(context.WithoutCancel(r.Context()), host.Callback{RedirectURI: l.redirectURI(), Response: values, Binding: l.binding})
	if err != nil {
		say(http.StatusBadGateway, "This did not work: keywright says why in the terminal.")
	} else {
		say(http.StatusOK, l.name+" is connected. You can close this page.")
	}
	l.ended <- err
}
