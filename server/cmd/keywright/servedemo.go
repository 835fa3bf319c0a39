package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/daemon"
	"github.com/keywright/keywright/server/internal/demo/tour"
	"github.com/keywright/keywright/server/internal/terminal"
)

// serveDemo runs the demo's connectors until the context ends.
func (a *app) serveDemo(c *cobra.Command, config daemon.Config) (err error) {
	for _, name := range []string{"config", "secrets-dir", "var", "dev"} {
		if c.Flags().Changed(name) {
			return misuse(c, "--demo has connectors, secrets and servers of its own: leave --%s out", name)
		}
	}
	stage, err := tour.NewStage(c.Context(), tour.Config{Now: time.Now, Rand: rand.Reader})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Servers.Close()) }()
	config.File, config.Text = "demo/gateway.yaml", stage.File
	config.Options = connectors.Options{Host: host.Config{
		Secrets: stage.Secrets, UserAgent: userAgent(), Logger: config.Logger,
		Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, // the servers listen on loopback, with plain HTTP
	}}
	config.Started = func(callers, operators string) {
		a.listening(callers, operators)
		a.writeCalls(stage, reachable(callers), reachable(operators))
	}
	return daemon.Run(c.Context(), config)
}

// writeCalls writes shell commands to try.
func (a *app) writeCalls(stage *tour.Stage, callers, operators string) {
	s := terminal.StyleOf(a.out, a.env)
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", s.Bold("Try these in another terminal; no answer holds a credential:"))
	last := tour.GatewayCall{}
	for _, call := range stage.Calls {
		user := ""
		if call.User != "" {
			user = fmt.Sprintf("-H '%s: %s' ", tour.UserHeader, call.User)
		}
		fmt.Fprintf(&b, "  curl -i %s%s/connectors/%s\n", user, callers, call.Permalink)
		last = call
	}
	fmt.Fprintf(&b, "\n%s\n", s.Bold("An operator's test; its answer shows what was sent:"))
	fmt.Fprintf(&b, "  curl -i -d '{\"user\":{\"email\":\"%s\"}}' %s/connectors/%s/test\n", last.User, operators, last.Permalink)
	fmt.Fprintf(&b, "  curl %s/metrics\n\n%s\n", operators, s.Dim("Ctrl-C ends it."))
	_, _ = fmt.Fprint(a.out, b.String()) // the hints are not essential
}

// reachable returns a server's URL with an address that clients can use: 127.0.0.1 in place of an unspecified one such as [::].
func reachable(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.String()
}
