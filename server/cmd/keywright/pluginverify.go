package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/reach"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/install"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/terminal"
)

// verifications is the document of plugin verify.
type verifications []verification

type verification struct {
	Name    string `json:"name"`
	Ref     string `json:"ref"`
	Version string `json:"version"`
	Signer  string `json:"signer"`
	OK      bool   `json:"ok"`
	// Problem is the reason why it is not OK.
	Problem string `json:"problem,omitempty"`
}

func pluginVerifyCommand(a *app) *cobra.Command {
	var file string
	var online bool
	c := a.jsonCommand("verify", nil, func(c *cobra.Command, _ []string) (document, error) {
		i, err := openInstallation(c.Context(), file)
		if err != nil {
			return nil, err
		}
		var client *registry.Client
		if online {
			if client, err = newRegistry(); err != nil {
				return nil, err
			}
		}
		all, good := verifications{}, true
		for _, p := range i.refs {
			v := i.verify(c.Context(), p, client)
			all, good = append(all, v), good && v.OK
		}
		return all, reportUnless(good)
	})
	c.Flags().StringVarP(&file, "config", "c", "connectors.yaml", "the `FILE` with the connectors")
	c.Flags().BoolVar(&online, "registry", false, "ask the registries, too")
	return c
}

// verify verifies a plugin. It asks the registry if client is not nil.
func (i *installation) verify(ctx context.Context, p connectors.PluginRef, client *registry.Client) verification {
	v := verification{Name: p.Name, Ref: p.Ref}
	locked := i.lock.Find(p.Name)
	var err error
	switch {
	case locked == nil:
		err = fmt.Errorf("is not in %s: run `keywright plugin add`", lock.Name)
	case locked.Ref != p.Ref:
		err = fmt.Errorf("%s has %s: run `keywright plugin update`", lock.Name, locked.Ref)
	default:
		v.Version, v.Signer = locked.Version, locked.Signer.String()
		if err = i.open(ctx, locked); err == nil && client != nil {
			err = checkReference(ctx, client, locked)
		}
	}
	if err != nil {
		v.Problem = err.Error()
	}
	v.OK = err == nil
	return v
}

// open verifies the bytes of a plugin, and what it may do.
func (i *installation) open(ctx context.Context, p *lock.Plugin) error {
	wasm, _, err := p.Open(lock.PlacesOf(i.dir, pluginCache()), moduleBytes())
	if errors.Is(err, lock.ErrMissing) {
		return fmt.Errorf("%w: run `keywright plugin vendor`", err)
	}
	if err != nil {
		return err
	}
	info, err := host.Inspect(ctx, host.Plugin{Name: p.Name, Wasm: wasm, SHA256: lock.Hex(p.Module)}, host.Limits{})
	if err != nil {
		return err
	}
	var texts []string
	for _, c := range p.Compare(lock.Describe(info)) {
		texts = append(texts, fmt.Sprintf("its %s is %s in %s, and %s in the module", c.What, listing(c.Before), lock.Name, listing(c.Now)))
	}
	if texts != nil {
		return errors.New(strings.Join(texts, "; "))
	}
	return nil
}

// checkReference returns an error if a reference leads to something else than the lock has.
func checkReference(ctx context.Context, client *registry.Client, p *lock.Plugin) error {
	ref, err := registry.ParseReference(p.Ref)
	if err != nil {
		return err
	}
	found, err := client.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	if found.Digest != p.Manifest {
		return fmt.Errorf("the tag has moved: it leads to %s, and %s has %s; `keywright plugin update --preview` shows what is different", found.Digest, lock.Name, p.Manifest)
	}
	return nil
}

func (all verifications) print(a *app) {
	terminal.List(a.out, "the file has no plugins of registries", all, func(v verification) []string {
		return []string{
			v.Name, cmp.Or(host.Printable(v.Version), "-"), cmp.Or(host.Printable(v.Signer), "nobody"),
			cmp.Or(host.Printable(v.Problem), "as accepted"),
		}
	}, "PLUGIN", "VERSION", "SIGNED BY", "RESULT")
}

func pluginVendorCommand(a *app) *cobra.Command {
	var file string
	c := command("vendor", nil, func(c *cobra.Command, _ []string) error {
		i, err := openInstallation(c.Context(), file)
		if err != nil {
			return err
		}
		dir := filepath.Join(i.dir, lock.VendorDir)
		names, err := i.vendor(c.Context(), dir)
		if err == nil {
			plugins := terminal.Count(len(i.lock.Plugins), "plugin")
			a.out.Line("%s: %s (%s from a registry)", dir, plugins, cmp.Or(strings.Join(names, ", "), "none"))
		}
		return err
	})
	c.Flags().StringVarP(&file, "config", "c", "connectors.yaml", "the `FILE` with the connectors")
	return c
}

// vendor stores the plugins of the lock in a directory, and removes others. It returns the names of those for which a registry was asked.
func (i *installation) vendor(ctx context.Context, dir string) (names []string, err error) {
	client, err := newRegistry()
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() { // a link may lead to a directory of others, whose files would be deleted
		return nil, fmt.Errorf("%s is no directory: remove it, and vendor makes one", dir)
	}
	keep := []string{}
	for n := range i.lock.Plugins {
		p := &i.lock.Plugins[n]
		fromRegistry, err := install.Restore(ctx, client, p, dir, lock.PlacesOf(i.dir, pluginCache()), moduleBytes())
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
		}
		if fromRegistry {
			names = append(names, p.Name)
		}
		keep = append(keep, "sha256-"+lock.Hex(p.Manifest), "sha256-"+lock.Hex(p.Module))
	}
	entries, err := os.ReadDir(dir)
	if err != nil && len(i.lock.Plugins) > 0 {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sha256-") && !slices.Contains(keep, e.Name()) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// reachList is the document of plugin audit.
type reachList []reach.Use

func pluginAuditCommand(a *app) *cobra.Command {
	var flags configFlags
	c := a.jsonCommand("audit", nil, func(c *cobra.Command, _ []string) (document, error) {
		set, err := a.load(c, &flags, nil)
		if err != nil {
			return nil, err
		}
		return append(reachList{}, reach.Of(set)...), nil
	})
	flags.add(c, "connectors.yaml")
	return c
}

func (list reachList) print(a *app) {
	terminal.List(a.out, "the file names no secrets", list, func(r reach.Use) []string {
		permissions := r.May
		if len(r.Grants) > 0 {
			permissions = append(slices.Clone(permissions), "granted "+strings.Join(r.Grants, ", "))
		}
		return []string{r.Connector, r.Secret, host.Printable(r.Field), cmp.Or(r.Type, "-"), cmp.Or(host.Printable(r.Plugin), "-"), listing(permissions)}
	}, "CONNECTOR", "SECRET", "FIELD", "TYPE", "PLUGIN", "MAY")
}
