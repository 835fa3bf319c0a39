package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/imports"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/install"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/signature"
	"github.com/keywright/keywright/server/internal/terminal"
)

// pluginCache returns the directory for plugins of registries, or "" for a user without a cache.
func pluginCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "keywright", "plugins")
}

func moduleBytes() int { return host.Limits{}.WithDefaults().ModuleBytes }

func newRegistry() (*registry.Client, error) {
	return registry.New(registry.Options{ModuleBytes: moduleBytes()})
}

// An installation is a file of connectors with its lock.
type installation struct {
	dir  string
	lock *lock.Lock
	refs []connectors.PluginRef
	text []byte
}

func openInstallation(ctx context.Context, file string) (*installation, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	i := &installation{dir: filepath.Dir(file), text: text}
	if i.refs, err = connectors.PluginRefs(ctx, text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	i.lock, err = lock.Read(i.dir)
	return i, err
}

func (i *installation) lockPath() string { return filepath.Join(i.dir, lock.Name) }

// store stores a plugin: its bytes first, the lock then, so that a process that reads the lock finds them.
func (i *installation) store(r *install.Result) error {
	dirs := lock.PlacesOf(i.dir, pluginCache())
	if _, err := os.Stat(dirs[0]); err != nil && len(dirs) > 1 {
		dirs = dirs[1:] // without a directory beside the file, the cache is enough
	}
	for _, dir := range dirs {
		if err := errors.Join(lock.Store(dir, r.Manifest), lock.Store(dir, r.Module)); err != nil {
			return err
		}
	}
	previous := slices.Clone(i.lock.Plugins)
	i.lock.Put(r.Plugin)
	err := i.lock.Write(i.dir)
	if err != nil {
		i.lock.Plugins = previous
	}
	return err
}

// prune removes the plugins from the lock that the file does not have any more, and returns their names.
func (i *installation) prune() (removed []string, err error) {
	for _, p := range slices.Clone(i.lock.Plugins) {
		if !slices.ContainsFunc(i.refs, func(ref connectors.PluginRef) bool { return ref.Name == p.Name }) {
			i.lock.Remove(p.Name)
			removed = append(removed, p.Name)
		}
	}
	if removed == nil {
		return nil, nil
	}
	return removed, i.lock.Write(i.dir)
}

// An addition brings plugins of registries into an installation. Its fields are the flags of plugin add and plugin update.
type addition struct {
	app             *app
	file, name, key string
	// accept holds digests of [lock.Plugin.Digest].
	accept  []string
	preview bool

	options install.Options
	to      *installation
}

func (d *addition) flags(c *cobra.Command) {
	c.Flags().StringVarP(&d.file, "config", "c", "connectors.yaml", "the `FILE` with the connectors")
	c.Flags().StringVar(&d.key, "key", "", "a `FILE` with the public key that has to have signed the plugin")
	c.Flags().StringSliceVar(&d.accept, "accept", nil, "accept what was refused, by the `DIGEST` of the refusal; several are separated by commas")
}

// open reads the key and the file of connectors with its lock.
func (d *addition) open(ctx context.Context) (err error) {
	if d.options.Client, err = newRegistry(); err != nil {
		return err
	}
	if d.key != "" {
		text, err := os.ReadFile(d.key)
		if err != nil {
			return fmt.Errorf("--key %s: %w", d.key, errors.Unwrap(err))
		}
		key, err := signature.ParseKey(text)
		if err != nil {
			return fmt.Errorf("--key %s %w", d.key, err)
		}
		d.options.Key = &key
	}
	d.to, err = openInstallation(ctx, d.file)
	return err
}

func pluginAddCommand(a *app) *cobra.Command {
	d := &addition{app: a}
	c := command("add", arguments("REF"), func(c *cobra.Command, args []string) (err error) {
		if d.name == "" {
			if d.name, err = install.NameOf(args[0]); err != nil {
				return err
			}
		}
		if err := d.open(c.Context()); err != nil {
			return err
		}
		// Whether the file can be changed is found out before the registry is asked.
		if _, err := connectors.SetPluginRef(c.Context(), d.to.text, d.name, args[0]); err != nil {
			return fmt.Errorf("%s: %w", d.file, err)
		}
		if err := d.add(c.Context(), d.name, args[0]); err != nil {
			return err
		}
		return a.setRef(c.Context(), d.file, d.name, args[0])
	})
	d.flags(c)
	c.Flags().StringVar(&d.name, "name", "", "the `NAME` of the plugin in the file; the last part of the repository if it is left out")
	return c
}

// setRef writes a plugin's lines into a file of connectors, which it reads again, since somebody may have changed it meanwhile.
func (a *app) setRef(ctx context.Context, file, name, ref string) error {
	previous, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	text, err := connectors.SetPluginRef(ctx, previous, name, ref)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if string(text) == string(previous) {
		return nil
	}
	if err := os.WriteFile(file, text, 0o644); err != nil { // with the permissions that it has
		return err
	}
	a.out.Line("%s has name: %s and ref: %s", file, name, ref)
	return nil
}

func pluginUpdateCommand(a *app) *cobra.Command {
	d := &addition{app: a}
	c := command("update", arguments("[NAME]"), func(c *cobra.Command, args []string) error {
		if err := d.open(c.Context()); err != nil {
			return err
		}
		refs := d.to.refs
		if len(args) > 0 {
			refs = slices.DeleteFunc(slices.Clone(refs), func(p connectors.PluginRef) bool { return p.Name != args[0] })
			if len(refs) == 0 {
				return fmt.Errorf("%s has no plugin %q with a reference", d.file, args[0])
			}
		}
		if err := d.updateEach(c.Context(), refs); err != nil || len(args) > 0 || d.preview {
			return err
		}
		removed, err := d.to.prune()
		if err == nil && removed != nil {
			a.out.Line("%s has no %s any more, since %s has none", d.to.lockPath(), strings.Join(removed, ", "), d.file)
		}
		return err
	})
	d.flags(c)
	c.Flags().BoolVar(&d.preview, "preview", false, "show what is different, and write nothing")
	return c
}

// updateEach brings plugins to what the registries have. It goes on with the others when one fails.
func (d *addition) updateEach(ctx context.Context, refs []connectors.PluginRef) (failed error) {
	for _, p := range refs {
		err := d.add(ctx, p.Name, p.Ref)
		if err == nil {
			err = d.printNewer(ctx, p)
		}
		if err != nil {
			if !errors.Is(err, errReported) {
				d.app.printErr("keywright: plugin %s: %v", p.Name, err)
			}
			failed = errReported
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return failed
}

// printNewer prints the tag with the highest version of a plugin above the one in the lock. The file says which version is used.
func (d *addition) printNewer(ctx context.Context, p connectors.PluginRef) error {
	locked := d.to.lock.Find(p.Name)
	ref, err := registry.ParseReference(p.Ref)
	if err != nil || locked == nil {
		return err
	}
	tags, err := d.options.Client.Tags(ctx, ref)
	if err != nil {
		d.app.printErr("keywright: plugin %s: whether there is a newer version is unknown: %v", p.Name, err)
		return nil
	}
	newest := lock.Newest(tags, locked.Version)
	if newest == "" {
		return nil
	}
	file := ""
	if d.file != "connectors.yaml" {
		file = " -c " + imports.Quote(d.file)
	}
	d.app.out.Line("%s: %s is newer: keywright plugin add %s:%s --name %s%s",
		p.Name, newest, ref.Name(), newest, imports.Quote(p.Name), file)
	return nil
}

// add gets a plugin, shows what it may do or what is different, and writes the lock if nothing is refused.
func (d *addition) add(ctx context.Context, name, ref string) error {
	previous := d.to.lock.Find(name)
	if previous != nil {
		previous = new(*previous) // the lock changes
	}
	r, err := install.Get(ctx, d.options, name, ref, previous)
	if err != nil {
		return err
	}
	if owner := install.TakenBy(d.to.lock, &r.Plugin); owner != "" {
		return fmt.Errorf("%s: the plugin %s has its auth type or alias already", ref, owner)
	}
	d.print(r, previous)
	if err := d.app.out.Err(); err != nil { // nobody has seen what the plugin may do
		return err
	}
	if err := d.mayWrite(r); err != nil || d.preview {
		return err
	}
	if err := d.to.store(r); err != nil {
		return err
	}
	d.app.out.Line("%s has %s", d.to.lockPath(), name)
	return nil
}

// mayWrite returns an error if a plugin has changes that are refused, and the operator has not accepted them.
func (d *addition) mayWrite(r *install.Result) error {
	var why []string
	for _, c := range lock.Refused(r.Changes) {
		if !slices.Contains(why, c.Why) {
			why = append(why, c.Why)
		}
	}
	digest, err := r.Plugin.Digest()
	switch {
	case err != nil:
		return err
	case len(why) == 0, !d.preview && slices.Contains(d.accept, digest):
		return nil
	case d.preview:
		return errReported
	}
	note := ""
	if len(d.accept) > 0 {
		note = "; it is not what --accept names"
	}
	d.app.printErr("keywright: plugin %s is refused (%s), and nothing was written%s: if you want that, run it again with --accept %s",
		r.Plugin.Name, strings.Join(why, ", "), note, digest)
	return errReported
}

// print prints what a new plugin may do, or what is different of one that was there.
func (d *addition) print(r *install.Result, previous *lock.Plugin) {
	out, p := d.app.out, r.Plugin
	out.Line("%s: %s, version %s, signed by %s", p.Name, p.Ref, host.Printable(p.Version), cmp.Or(p.Signer.String(), "nobody"))
	if previous != nil {
		printChanges(out, r.Changes)
		return
	}
	terminal.List(out, "", slices.Sorted(maps.Keys(p.Capabilities)), func(what string) []string {
		return []string{host.Printable(what), listing(p.Capabilities[what])}
	}, "WHAT", "MAY")
}
