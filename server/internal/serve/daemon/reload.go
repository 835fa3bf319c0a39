package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/console"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

// inUse is a set of connectors with its sessions and certificate.
type inUse struct {
	*connectors.Set
	sessions *identity.Identifier
	// pair is nil for plain HTTP.
	pair *httpserver.Pair
}

// close closes the set, and its sessions unless next, which may be nil, uses them.
func (u *inUse) close(next *inUse) {
	if next == nil || u.sessions != next.sessions {
		_ = u.sessions.Close()
	}
	_ = u.Close(context.Background()) // its calls have ended
}

// readTime limits a reload. There is one reload at a time.
const readTime = time.Minute

var errSlow = fmt.Errorf("it could not be read within %s: is it, or a plugin, on a disk that hangs, or no regular file?", readTime)

// heard is like prepare, but returns when ctx ends, because a file may be on a disk that hangs. A set that is read after that is closed.
func (d *daemon) heard(ctx context.Context) (*inUse, error) {
	type prepared struct {
		next *inUse
		err  error
	}
	done := make(chan prepared)
	go func() {
		next, err := d.prepare(ctx)
		select {
		case done <- prepared{next, err}:
		case <-ctx.Done():
			if next != nil {
				next.close(d.current())
			}
		}
	}()
	select {
	case p := <-done:
		return p.next, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prepare reads the file and creates all that the new configuration needs. It does not change the configuration in use.
func (d *daemon) prepare(ctx context.Context) (*inUse, error) {
	set, err := d.read(ctx)
	if err != nil {
		if wrong, ok := errors.AsType[*connectors.Error](err); ok {
			err = &unusable{error: err, problems: console.ProblemsOf(d.config.File, wrong.Problems)}
		}
		return nil, err
	}
	next := &inUse{Set: set}
	if err := d.complete(ctx, next); err != nil {
		return nil, errors.Join(err, set.Close(context.WithoutCancel(ctx)))
	}
	return next, nil
}

// unusable is the error for a file, with what the console shows. It is made before anything is locked: a disk may hang.
type unusable struct {
	error
	problems []console.Problem
	// difference says what the file would change after a restart. It is nil unless the file waits for one.
	difference *difference.Document
}

func (u *unusable) Unwrap() error { return u.error }

// complete adds the certificate and the sessions to a set. It returns an error if the set cannot replace the one in use.
func (d *daemon) complete(ctx context.Context, next *inUse) (err error) {
	if d.config.Login.Claim != "" && next.Settings.User.Mode != identity.ModeJWT {
		return errors.New("--admin-claim is about the claims of session tokens: gateway.user has to be of type jwt")
	}
	if next.Settings.TLS != (connectors.TLS{}) {
		if next.pair, err = httpserver.ReadPair(httpserver.Files(next.Settings.TLS)); err != nil {
			return fmt.Errorf("gateway.tls: %w", err)
		}
	}
	if prev := d.current(); prev != nil {
		if err := needsRestart(prev, next); err != nil {
			return &unusable{error: err, difference: difference.Of(prev.Set, next.Set)}
		}
	}
	next.sessions, err = d.sessions(ctx, next)
	return err
}

// needsRestart returns an error if a set cannot replace the one in use before a restart.
func needsRestart(prev, next *inUse) error {
	switch {
	case next.Settings.Traces != prev.Settings.Traces:
		return errors.New("gateway.traces cannot be changed while this runs: restart it")
	case !reflect.DeepEqual(prev.Settings.Audit, next.Settings.Audit): // a change of the file must not end the audit log
		return errors.New("gateway.audit cannot be added, changed or taken away while this runs: restart it")
	case prev.Settings.HasUsers() && !next.Settings.HasUsers(): // a half-written file, which may be well-formed, must not open the gateway to everybody
		return errors.New("gateway.user cannot be taken away while this runs: restart it")
	case prev.State != nil && next.State == nil: // as for errStateChanged
		return errors.New("state cannot be taken away while this runs: restart it")
	case (next.pair != nil) != (prev.pair != nil):
		return errors.New("gateway.tls cannot be added or taken away while this runs: restart it")
	}
	return nil
}

// sessions returns the sessions in use if their configuration is the same, since the issuer may be down, or new ones.
func (d *daemon) sessions(ctx context.Context, next *inUse) (*identity.Identifier, error) {
	if prev := d.current(); prev != nil && reflect.DeepEqual(prev.Settings.User, next.Settings.User) {
		return prev.sessions, nil
	}
	transport := base(func() http.RoundTripper {
		if set := d.current(); set != nil {
			return set.Host.Base()
		}
		return next.Host.Base()
	})
	var i *identity.Identifier
	plain := func(u *url.URL) bool {
		if set := d.current(); set != nil && set.sessions == i {
			return set.Egress.AllowsHTTP(u)
		}
		return next.Egress.AllowsHTTP(u)
	}
	i, err := identity.New(ctx, next.Settings.User, identity.Options{Transport: transport, HTTP: plain, Logger: d.config.Logger})
	if err != nil {
		return nil, fmt.Errorf("gateway.user: %w", err)
	}
	return i, nil
}

// base is a transport that uses the guarded transport of the host in use at the time of each request.
type base func() http.RoundTripper

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b().RoundTrip(r) }

// use puts a set in use. The previous one is closed when its requests have ended.
func (d *daemon) use(next *inUse) {
	if next.pair != nil {
		d.certificate.Use(next.pair)
	}
	d.audit.add(next.Set)
	var changed *difference.Document
	if prev := d.current(); prev != nil {
		changed = difference.Of(prev.Set, next.Set)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := d.gateway.Use(gateway.Setup{
		Connectors: next.Connectors, Hosts: next.Settings.Hosts, Origins: next.Settings.Origins, Users: next.sessions, Consent: next.Settings.Consent, Documents: next.Documents,
	})
	prev := d.set
	d.set, d.refusedPlugins = next, nil
	d.status = console.State{File: d.config.File, Set: next.Set, Used: d.clock(), Changed: changed, Sessions: next.sessions}
	if prev != nil {
		d.retired.Go(func() {
			wait()
			prev.close(next)
			d.audit.remove(prev.Set)
			d.forget(prev)
		})
	}
}

// forget removes the metrics of the connectors of prev, and of the auth types, that the set in use does not have. That
// may be a later set than the successor of prev.
func (d *daemon) forget(prev *inUse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there, types := map[string]bool{}, map[string]bool{}
	for _, c := range d.set.Connectors {
		there[c.Definition().Permalink] = true
		for _, auth := range c.Definition().Auth {
			types[auth.Type] = true
		}
	}
	d.metrics.plugins.keep(types)
	for _, c := range prev.Connectors {
		if permalink := c.Definition().Permalink; !there[permalink] {
			d.metrics.forget(permalink)
			d.recorder.Forget(permalink)
		}
	}
}

// reload reads the file again and puts it in use. If it returns an error, the set in use has not changed. If ctx ends, it returns the error
// of ctx, and does not refuse the file. A file that takes longer than readTime is refused, so that later changes are read.
func (d *daemon) reload(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	next, err := d.heard(reading)
	if ctx.Err() != nil {
		if next != nil {
			next.close(d.current())
		}
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && reading.Err() != nil {
		err = errSlow
	}
	if err != nil {
		d.refuse(err)
		return err
	}
	d.use(next)
	d.metrics.reloads.WithLabelValues(resultUsed).Inc()
	return nil
}

func (d *daemon) report(err error) {
	log := d.config.Logger.With(slog.String("file", d.config.File))
	if err == nil {
		log.Info("the configuration is in use", slog.Int("connectors", len(d.current().Connectors)))
		return
	}
	const message = "the configuration is not used, and the one before goes on"
	wrong, ok := errors.AsType[*connectors.Error](err)
	if !ok {
		log.Error(message, slog.Any("error", err))
		return
	}
	for _, problem := range wrong.Problems {
		log.Error(message, slog.String("problem", strings.TrimSpace(problem.String())))
	}
}

// refuse records that the file is refused, and the plugins that it names.
func (d *daemon) refuse(err error) {
	d.metrics.reloads.WithLabelValues(resultRefused).Inc()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusedPlugins = nil; d.status.Refused.IsZero() {
		d.status.Refused = d.clock()
	}
	d.status.Problems, d.status.Waiting = nil, nil
	if wrong, ok := errors.AsType[*connectors.Error](err); ok {
		d.refusedPlugins = wrong.Files
	}
	if unusable, ok := errors.AsType[*unusable](err); ok {
		d.status.Problems, d.status.Waiting = unusable.problems, unusable.difference
	}
	if d.status.Problems == nil {
		d.status.Problems = []console.Problem{{Text: err.Error()}}
	}
}
