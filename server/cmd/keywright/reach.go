package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/remedy"
)

const (
	reachTime    = 10 * time.Second // the time for one host
	reachAtOnce  = 16               // the number of hosts at once
	maxOffset    = 30 * time.Second // the difference of two clocks from which on it is a problem
	leastSpace   = 256 << 20        // the free bytes below which a disk is nearly full
	nobodySender = "none"           // the auth type that adds no credential
)

// place describes a host, the metadata of an issuer, the store of state, the clock or a file, as check --reach found it.
type place struct {
	Place string `json:"place"`
	// For lists the members that name the place.
	For []string `json:"for"`
	OK  bool     `json:"ok"`
	// Found says what was found, or what is wrong, and Remedy what to do about it.
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
	// offset is the time that the clock of a host is ahead of this machine's, if it has said so.
	offset *time.Duration
}

// target is a place, and how it is asked. try sets what it has found.
type target struct {
	place
	try func(ctx context.Context, p *place) error
}

func (t *target) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	err := t.try(ctx, &t.place)
	if t.OK = err == nil; t.OK {
		t.Remedy = ""
		return
	}
	t.Found, t.Remedy = host.Printable(err.Error()), cmp.Or(remedy.Of(remedy.Fault{Err: err}), t.Remedy)
}

// reach looks for all that the configuration needs outside of this process.
func (a *app) reach(c *cobra.Command, f *configFlags, checked *connectors.Set) ([]place, error) {
	types := []string{nobodySender}
	for _, connector := range checked.Connectors {
		for _, auth := range connector.Definition().Auth {
			types = append(types, auth.Type)
		}
	}
	set, err := a.load(c, f, func(o *connectors.Options) { o.ReadSecrets, o.Host.BuiltIns = false, connectors.BuiltIns(types...) })
	if err != nil {
		return nil, err
	}
	ctx := c.Context()
	if f.user != (host.User{}) {
		ctx = host.WithUser(ctx, f.user)
	}
	targets := map[string]*target{}
	for _, connector := range set.Connectors {
		a.addTargets(targets, set, connector)
	}
	database := ""
	if set.State != nil {
		settings, err := set.State.Read(ctx)
		database = settings.Path
		targets["state"] = &target{
			place{Place: "state", For: []string{"state"}, Remedy: "Compare the member state with the database, and look whether that is up."},
			func(ctx context.Context, p *place) error {
				if err != nil {
					return err
				}
				return a.reachState(ctx, set.State, database, p)
			},
		}
	}
	if set.Settings.User.Mode == identity.ModeJWT {
		targets["sessions"] = &target{place{Place: "gateway.user", For: []string{"gateway.user"}, Found: "the keys of sessions can be read"}, func(ctx context.Context, _ *place) error {
			users, err := identity.New(ctx, set.Settings.User, identity.Options{Transport: set.Host.Base(), HTTP: set.Egress.AllowsHTTP}) // as serve does
			if err == nil {
				err = errors.Join(users.Ready(ctx), users.Close())
			}
			return err
		}}
	}
	var group errgroup.Group
	group.SetLimit(reachAtOnce)
	for _, t := range targets {
		group.Go(func() error {
			t.ask(ctx)
			return nil
		})
	}
	_ = group.Wait() // it has no error
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var all []place
	for _, key := range slices.Sorted(maps.Keys(targets)) {
		t := targets[key]
		slices.Sort(t.For)
		t.For = slices.Compact(t.For)
		if t.Found != "" {
			all = append(all, t.place)
		}
	}
	all = append(all, clockOf(all)...)
	return append(all, filesOf(set.Settings.Audit, database)...), nil
}

// addTargets adds the hosts that a connector names, and the metadata of issuers. Connectors with the same rules share a host.
func (a *app) addTargets(targets map[string]*target, set *connectors.Set, connector *gateway.Connector) {
	d := connector.Definition()
	add := func(key string, p place, member string, try func(ctx context.Context, p *place) error) {
		if targets[key] == nil {
			targets[key] = &target{p, try}
		}
		targets[key].For = append(targets[key].For, "connectors."+d.Permalink+"."+member)
	}
	addHost := func(u *url.URL, member, purpose string) {
		if strings.ContainsAny(u.Host, "*{") {
			return // it depends on the tenant
		}
		config := senderOf(d, u, purpose)
		key := config.Origins[0]
		if config.Egress != nil || config.TLS != nil {
			key += fmt.Sprint(" ", d.Permalink, config.TLS != nil)
		}
		add(key, place{Place: config.Origins[0]}, member, func(ctx context.Context, p *place) error { return reachHost(ctx, set.Host, config, p) })
	}
	base := connector.BaseURL()
	addHost(base, "url", host.TLSForAPI)
	for _, name := range d.Hosts {
		addHost(&url.URL{Scheme: base.Scheme, Host: name}, "hosts", host.TLSForAPI)
	}
	for _, auth := range d.Auth {
		info, _ := set.Host.Plugin(auth.Type)
		for _, field := range info.Fields {
			text, _ := auth.Config[field.Name].(string)
			if field.Kind != abi.KindURL {
				continue
			}
			if u, err := url.Parse(text); err == nil && u.Host != "" {
				addHost(u, "auth.config."+field.Name, host.TLSForToken)
			} else if strings.Contains(text, "discover(") {
				add("metadata "+d.Permalink, place{Place: "metadata for " + d.Permalink}, "auth.config."+field.Name, func(ctx context.Context, p *place) error { return reachMetadata(ctx, set.Host, connector, p) })
			}
		}
	}
}

// senderOf returns the configuration of a connector that sends no credential to the origin of u, over connections like those of d.
func senderOf(d gateway.Definition, u *url.URL, purpose string) host.ConnectorConfig {
	c := host.ConnectorConfig{Name: d.Permalink, Origins: []string{u.Scheme + "://" + u.Host}, Auth: host.Auths{{Type: nobodySender}}, Egress: d.Egress}
	if d.TLS != nil && (len(d.TLS.For) == 0 || slices.Contains(d.TLS.For, purpose)) {
		own := *d.TLS
		own.For = []string{host.TLSForAPI}
		c.TLS = &own
	}
	return c
}

// reachHost sends HEAD / to a host, without a credential. Any answer will do. Its Date compares the clocks.
func reachHost(ctx context.Context, h *host.Host, config host.ConnectorConfig, p *place) error {
	connector, err := h.NewConnector(ctx, config)
	request, wrong := http.NewRequestWithContext(ctx, http.MethodHead, config.Origins[0]+"/", nil)
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	response, err := answers.Final(connector.Transport(nil).RoundTrip(request))
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	p.Found = fmt.Sprintf("it answers, with %d", response.StatusCode)
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		offset := time.Until(date)
		p.offset = &offset
	}
	return nil
}

// reachMetadata reads the metadata of issuers that a connector names, and asks the host of the endpoint that it names last.
func reachMetadata(ctx context.Context, h *host.Host, connector *gateway.Connector, p *place) error {
	origin := connector.BaseURL()
	origin.Host = strings.ReplaceAll(origin.Host, "*", "tenant")
	request := (&http.Request{Method: http.MethodGet, URL: origin, Header: http.Header{}}).WithContext(ctx)
	explained, err := connector.Upstream().Explain(request)
	if err != nil {
		return err
	}
	for _, step := range explained.Steps {
		if found := step.Discovery; found != nil {
			u, _ := url.Parse(found.URL) // the host has checked it
			p.Place = "metadata of " + found.Issuer
			if err := reachHost(ctx, h, senderOf(connector.Definition(), u, host.TLSForToken), p); err != nil {
				return err
			}
			p.Found = found.Endpoint + " is " + found.URL + ", and " + p.Found
		}
	}
	return nil
}

// reachState opens the store of state, unless that is a file that is not there yet.
func (a *app) reachState(ctx context.Context, s *connectors.State, file string, p *place) error {
	if _, err := os.Stat(file); file != "" && errors.Is(err, fs.ErrNotExist) {
		p.Found = "it is not there yet, and serve makes it"
		return nil
	}
	p.Found = s.Type() + " answers"
	store, err := a.openState(ctx, s)
	if err != nil {
		return err
	}
	_, err = store.Database.Get(ctx, state.ID{})
	return err
}

// clockOf compares the clock of this machine with that of most hosts, or returns nothing if no host has said its time.
func clockOf(all []place) []place {
	var offsets []time.Duration
	for _, p := range all {
		if p.offset != nil {
			offsets = append(offsets, *p.offset)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	slices.Sort(offsets)
	p := place{Place: "clock", For: []string{"this machine"}, OK: true, Found: "it agrees with that of the hosts"}
	if median := offsets[len(offsets)/2].Abs(); median > maxOffset {
		p.OK, p.Found = false, fmt.Sprintf("it differs by %s from that of the hosts", median.Round(time.Second))
		p.Remedy = "Set the clock of this machine, with NTP: signatures and tokens depend on it."
	}
	return []place{p}
}

// filesOf checks the rights and the space of the files that serve writes: the audit log, the database, and bodies in the temporary directory.
func filesOf(log *connectors.Audit, database string) (all []place) {
	add := func(member, file string) {
		p := place{Place: file, For: []string{member}, OK: true, Found: "it can be written"}
		if err := writable(file); err != nil {
			p.OK, p.Found, p.Remedy = false, err.Error(), "Let the user of the gateway write there."
		} else if free, ok := freeSpace(filepath.Dir(file)); ok {
			p.Found += fmt.Sprintf(", and %d MiB are free", free>>20)
			if free < leastSpace {
				p.OK, p.Remedy = false, "Make room on the disk, before it is full."
			}
		}
		all = append(all, p)
	}
	if log != nil && log.File != "" {
		add("gateway.audit.file", log.File)
	}
	if database != "" {
		add("state.path", filepath.Join(filepath.Dir(database), "*")) // to open the file itself would end the locks of the open store
	}
	add("TMPDIR", filepath.Join(os.TempDir(), "*"))
	return all
}

// writable returns an error if this user cannot append to a file, or if it is not there, make one in its directory.
func writable(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = os.CreateTemp(filepath.Dir(name), ".keywright-check-*"); err == nil {
			defer func() { _ = os.Remove(file.Name()) }()
		}
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("it cannot be written: %w", failed.Err)
	}
	return errors.Join(err, file.Close())
}

func (p *place) print(a *app) {
	word := map[bool]string{true: a.out.Green("ok"), false: a.out.Red("problem")}[p.OK]
	text := strings.TrimSuffix(p.Found+". "+p.Remedy, ". ")
	a.out.Line("%s: %s: %s (%s)", a.out.Bold(p.Place), word, text, shortList(slices.Clone(p.For)))
}
