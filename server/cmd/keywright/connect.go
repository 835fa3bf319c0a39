package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/terminal"
)

type connectFlags struct {
	configFlags
	port                              int
	wait                              time.Duration
	localhost, open, list, disconnect bool
}

// consentTime is the time within which a consent must end. A host keeps it no longer.
const consentTime = 10 * time.Minute

func connectCommand(a *app) *cobra.Command {
	var flags connectFlags
	c := a.jsonCommand("connect", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) (document, error) { return a.runConnect(c, &flags, args) })
	flags.add(c, "connectors.yaml")
	c.Flags().IntVar(&flags.port, "port", 0, "the `PORT` of 127.0.0.1 to which the browser comes back (default a free one)")
	c.Flags().BoolVar(&flags.localhost, "localhost", false, "redirect to localhost in place of 127.0.0.1, for servers that take no other name, such as HubSpot's")
	c.Flags().BoolVar(&flags.open, "open", false, "open the URL in the browser of this machine, too; its other users may see the URL")
	c.Flags().DurationVar(&flags.wait, "wait", consentTime, "the `TIME` to wait for the browser, at most 10m")
	c.Flags().BoolVar(&flags.list, "list", false, "show which connectors are connected")
	c.Flags().BoolVar(&flags.disconnect, "disconnect", false, "forget a grant, and revoke it if the connector says where")
	c.Flags().Lookup("json").Usage = "with --list, write JSON, for machines"
	return c
}

func (a *app) runConnect(c *cobra.Command, f *connectFlags, args []string) (document, error) {
	names := []string{"CONNECTOR"}
	if f.list {
		names = nil
	}
	switch err := arguments(names...)(c, args); {
	case err != nil:
		return nil, err
	case f.list && f.disconnect:
		return nil, misuse(c, "--list and --disconnect do not go together")
	case c.Flags().Changed("json") && !f.list:
		return nil, misuse(c, "--json is for --list")
	case f.wait <= 0 || f.wait > consentTime:
		return nil, misuse(c, "--wait is a time above 0 and up to %s", consentTime)
	case f.port < 0 || f.port > 65535:
		return nil, misuse(c, "--port is a number from 1 to 65535")
	}
	ctx := c.Context()
	set, err := a.load(c, &f.configFlags, a.useStore)
	if err != nil {
		return nil, err
	}
	if f.list {
		return connectionsOf(ctx, set)
	}
	connector, err := set.Find(args[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.file, err)
	}
	d, done := connector.Definition(), "connected"
	if !connector.Upstream().NeedsConsent() {
		return nil, fmt.Errorf("connector %q (%s): this auth type has no consent, so there is nothing to connect", d.Permalink, d.Auth.Type())
	}
	if f.disconnect {
		done, err = "disconnected", connector.Upstream().Disconnect(ctx)
	} else {
		err = a.consent(ctx, f, connector)
	}
	if err != nil {
		return nil, ofConnector(d.Permalink, err)
	}
	a.out.Line("%s is %s", d.Permalink, done)
	return nil, nil
}

// ofConnector names the connector in an error that does not name it.
func ofConnector(permalink string, err error) error {
	if errors.As(err, new(*host.Error)) {
		return err
	}
	return fmt.Errorf("connector %q: %w", permalink, err)
}

func (a *app) consent(ctx context.Context, f *connectFlags, connector *gateway.Connector) error {
	l, to, err := beginLoopback(ctx, f.localhost, f.port, connector.Definition().Name, connector.Upstream().BeginConsent, func(ctx context.Context, back host.AuthorizationResponse) error {
		_, err := connector.Callback(ctx, back)
		return err
	})
	if err != nil {
		return err
	}
	defer l.close()
	a.out.Line("open this in a browser on this machine:")
	a.out.Printf("%s\n", to)
	if err := a.out.Err(); err != nil {
		return err
	}
	if f.open {
		if err := openBrowser(ctx, to); err != nil {
			a.printErr("keywright: --open: %v", err)
		}
	}
	return l.wait(ctx, f.wait)
}

func openBrowser(ctx context.Context, url string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	opener := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], url)...) // the browser may outlive this
	if err := opener.Start(); err != nil {
		return fmt.Errorf("no browser could be started: %w", err)
	}
	go func() { _ = opener.Wait() }()
	return nil
}

// connections is the document of connect --list.
type connections struct {
	Connections []connection `json:"connections"`
}

type connection struct {
	Connector string         `json:"connector"`
	Name      string         `json:"name"`
	Condition host.Condition `json:"condition"`
	Age       int64          `json:"age_seconds"`
}

func connectionsOf(ctx context.Context, set *connectors.Set) (document, error) {
	all := []connection{}
	for _, c := range set.Connectors {
		if !c.Upstream().NeedsConsent() {
			continue
		}
		d := c.Definition()
		found, err := c.Upstream().Connection(ctx)
		if err != nil {
			return nil, ofConnector(d.Permalink, err)
		}
		all = append(all, connection{d.Permalink, d.Name, found.Condition, int64(found.Age / time.Second)})
	}
	return connections{all}, nil
}

func (all connections) print(a *app) {
	terminal.List(a.out, "no connector of the file needs consent", all.Connections, func(c connection) []string {
		condition := string(c.Condition)
		if c.Age > 0 {
			condition += ", last renewed or tried " + (time.Duration(c.Age) * time.Second).String() + " ago"
		}
		return []string{c.Connector, condition}
	}, "CONNECTOR", "CONDITION")
}

// A loopback waits on a port of 127.0.0.1 for a browser that comes back from an authorization server (RFC 8252 section 7.3). Other programs
// and pages may send requests to that port, too. They do not know the state, so that their requests count as nothing (threats.md 136).
type loopback struct {
	name string
	// callback ends the consent.
	callback         func(ctx context.Context, back host.AuthorizationResponse) error
	address, binding string
	// state is the parameter of the authorization URL that the browser brings back.
	state  string
	server *http.Server
	// claim is set by the one callback that counts, and when nobody waits any more.
	claim  atomic.Bool
	result chan error
}

// beginLoopback listens on a port, or on a free one if port is 0, and begins a consent. It returns the URL to which the browser must go.
// The caller must call close.
func beginLoopback(
	ctx context.Context, localhost bool, port int, name string,
	consent func(context.Context, host.ConsentRequest) (string, error), callback func(context.Context, host.AuthorizationResponse) error,
) (l *loopback, to string, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, "", fmt.Errorf("the browser could not come back: %w", err)
	}
	l = &loopback{name: name, callback: callback, address: listener.Addr().String(), binding: rand.Text(), result: make(chan error, 1)}
	if localhost { // a program at ::1 may get the code (RFC 8252 section 8.3), which is of no use without the secret or the verifier
		l.address = strings.Replace(l.address, "127.0.0.1", "localhost", 1)
	}
	to, err = consent(ctx, host.ConsentRequest{RedirectURI: l.redirectURI(), Binding: l.binding})
	u, wrong := url.Parse(to)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, "", errors.Join(err, listener.Close())
	}
	l.state = u.Query().Get("state") // which the host has made
	const slow = 10 * time.Second
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.answer), ReadHeaderTimeout: slow, ReadTimeout: slow, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	go func() { _ = l.server.Serve(listener) }()
	return l, to, nil
}

// close ends the listener, once the answer under way has been written.
func (l *loopback) close() {
	const last = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), last)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
}

func (l *loopback) redirectURI() string { return "http://" + l.address + "/callback" }

// wait waits for the end of the consent, and returns its error. A callback under way when the time is over or ctx ends still counts.
func (l *loopback) wait(ctx context.Context, timeout time.Duration) (err error) {
	select {
	case err := <-l.result:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(timeout):
		err = fmt.Errorf("no browser came back within %s: begin again", timeout)
	}
	if l.claim.CompareAndSwap(false, true) {
		return err
	}
	return <-l.result
}

func (l *loopback) answer(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Connection": "close",
	} {
		w.Header().Set(name, value)
	}
	status, text := http.StatusOK, l.name+" is connected. You can close this page."
	values, err := url.ParseQuery(r.URL.RawQuery)
	switch states := values["state"]; {
	case r.Host != l.address: // a page may have a name of its own for 127.0.0.1
		status, text = http.StatusMisdirectedRequest, "This address is not known here."
	case r.URL.Path != "/callback" || r.Method != http.MethodGet:
		status, text = http.StatusNotFound, "There is nothing here."
	case err != nil || len(states) != 1 || subtle.ConstantTimeCompare([]byte(states[0]), []byte(l.state)) != 1:
		status, text = http.StatusBadRequest, "This is not the answer that keywright waits for."
	case !l.claim.CompareAndSwap(false, true):
		status, text = http.StatusBadRequest, "This is over."
	default:
		err := l.callback(context.WithoutCancel(r.Context()), host.AuthorizationResponse{RedirectURI: l.redirectURI(), Response: values, Binding: l.binding})
		if err != nil {
			status, text = http.StatusBadGateway, "This did not work: keywright says why in the terminal."
		}
		l.result <- err // close waits for the answer
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
