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
	"github.com/keywright/keywright/server/internal/imports"
	"github.com/keywright/keywright/server/internal/install"
	"github.com/keywright/keywright/server/internal/lock"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/signature"
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
	file, dir string
	lock      *lock.Lock
	refs      []connectors.PluginRef
	text      []byte
}

func openInstallation(ctx context.Context, file string) (*installation, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	i := &installation{file: file, dir: filepath.Dir(file), text: text}
	if i.refs, err = connectors.PluginRefs(ctx, text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	i.lock, err = lock.Read(i.dir)
	return i, err
}

// store stores a plugin: its bytes first, the lock then, so that a process that reads the lock finds them.
func (i *installation) store(r *install.Result) error {
	dirs := []string{}
	if cache := pluginCache(); cache != "" {
		dirs = append(dirs, cache)
	}
	if _, err := os.Stat(filepath.Join(i.dir, lock.VendorDir)); err == nil || len(dirs) == 0 {
		dirs = append(dirs, filepath.Join(i.dir, lock.VendorDir))
	}
	for _, dir := range dirs {
		if err := errors.Join(lock.Store(dir, r.Manifest), lock.Store(dir, r.Module)); err != nil {
			return err
		}
	}
	before := slices.Clone(i.lock.Plugins)
	i.lock.Put(r.Plugin)
	err := i.lock.Write(i.dir)
	if err != nil {
		i.lock.Plugins = before
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

// addFlags holds the flags of plugin add and plugin update.
type addFlags struct {
	file, name, key string
	// accept holds digests of [lock.Plugin.Digest].
	accept  []string
	preview bool
}

func (f *addFlags) options() (install.Options, error) {
	client, err := newRegistry()
	if err != nil || f.key == "" {
		return install.Options{Client: client}, err
	}
	text, err := os.ReadFile(f.key)
	if err != nil {
		return install.Options{}, fmt.Errorf("--key %s: %w", f.key, errors.Unwrap(err))
	}
	key, err := signature.ParseKey(text)
	if err != nil {
		return install.Options{}, fmt.Errorf("--key %s %w", f.key, err)
	}
	return install.Options{Client: client, Key: &key}, nil
}

func (a *app) pluginAdd() *cobra.Command {
	var flags addFlags
	c := &cobra.Command{
		Use:   "add REF [-c FILE] [--name NAME] [--key FILE] [--accept DIGEST]",
		Short: "Add a plugin of a registry to a configuration, or another version of it",
		Long: "Adds a plugin of a registry to a configuration: verifies it, runs it in the sandbox to find out what it may do, and writes " +
			"keywright.lock and the plugin's lines of the file. REF is registry/repository:tag, or registry/repository@sha256:…. " +
			"The credentials are those of docker.\n\n" +
			"The key of the first version is remembered, or is that of --key: a public key of minisign, or PEM of one of cosign. " +
			"If the plugin is there already, and the new version may do more, has another signer, another contract or no higher " +
			"version, then nothing is written without --accept. DIGEST comes with the refusal: the registry cannot put " +
			"something else in its place afterwards.",
		Args: arguments("REF"),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := flags.options()
			if err != nil {
				return err
			}
			if flags.name == "" {
				if flags.name, err = install.NameOf(args[0]); err != nil {
					return err
				}
			}
			i, err := openInstallation(c.Context(), flags.file)
			if err != nil {
				return err
			}
			// Whether the file can be changed is found out before the registry is asked.
			if _, err := connectors.SetPluginRef(c.Context(), i.text, flags.name, args[0]); err != nil {
				return fmt.Errorf("%s: %w", flags.file, err)
			}
			if err := a.accept(c.Context(), i, &flags, o, flags.name, args[0]); err != nil {
				return err
			}
			return a.setRef(c.Context(), flags.file, flags.name, args[0])
		},
	}
	flags.common(c)
	c.Flags().StringVar(&flags.name, "name", "", "the `NAME` of the plugin in the file; the last part of the repository if it is left out")
	return c
}

func (f *addFlags) common(c *cobra.Command) {
	c.Flags().StringVarP(&f.file, "config", "c", "connectors.yaml", "the `FILE` with the connectors")
	c.Flags().StringVar(&f.key, "key", "", "a `FILE` with the public key that has to have signed the plugin")
	c.Flags().StringSliceVar(&f.accept, "accept", nil, "accept what was refused, by the `DIGEST` of the refusal; several are separated by commas")
	c.DisableFlagsInUseLine = true
}

// setRef writes a plugin's lines into a file of connectors. It reads the file again, since somebody may have changed it while the
// registry was asked.
func (a *app) setRef(ctx context.Context, file, name, ref string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	text, err := connectors.SetPluginRef(ctx, before, name, ref)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if string(text) == string(before) {
		return nil
	}
	if err := writeInPlace(file, text); err != nil {
		return err
	}
	return writeLine(a.out, fmt.Sprintf("%s has name: %s and ref: %s", file, name, ref))
}

// writeInPlace writes a file that is there, with the permissions that it has.
func writeInPlace(name string, text []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, info.Mode().Perm())
}

func (a *app) pluginUpdate() *cobra.Command {
	var flags addFlags
	c := &cobra.Command{
		Use:   "update [NAME] [-c FILE] [--preview] [--key FILE] [--accept DIGEST]",
		Short: "Bring keywright.lock to what the registries have now, for one plugin or all",
		Long: "Asks the registries for the plugins of a configuration, and shows what is different from keywright.lock, and the tag of " +
			"the highest version if that is above the one in the lock. What may do " +
			"more, has another signer, another contract or no higher version is not written without --accept, with the DIGEST " +
			"that comes with the refusal. With --preview nothing is written.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misuse(c, "%q is an argument too many", args[1])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o, err := flags.options()
			if err != nil {
				return err
			}
			i, err := openInstallation(c.Context(), flags.file)
			if err != nil {
				return err
			}
			refs := i.refs
			if len(args) > 0 {
				refs = slices.DeleteFunc(slices.Clone(refs), func(p connectors.PluginRef) bool { return p.Name != args[0] })
				if len(refs) == 0 {
					return fmt.Errorf("%s has no plugin %q with a reference", flags.file, args[0])
				}
			}
			if err := a.updateEach(c.Context(), i, &flags, o, refs); err != nil || len(args) > 0 || flags.preview {
				return err
			}
			removed, err := i.prune()
			if err != nil || removed == nil {
				return err
			}
			return writeLine(a.out, fmt.Sprintf("%s has no %s any more, since %s has none", filepath.Join(i.dir, lock.Name), strings.Join(removed, ", "), flags.file))
		},
	}
	flags.common(c)
	c.Flags().BoolVar(&flags.preview, "preview", false, "show what is different, and write nothing")
	return c
}

// updateEach brings plugins to what the registries have. It goes on with the others when one fails.
func (a *app) updateEach(ctx context.Context, i *installation, flags *addFlags, o install.Options, refs []connectors.PluginRef) (failed error) {
	for _, p := range refs {
		err := a.accept(ctx, i, flags, o, p.Name, p.Ref)
		if err == nil {
			err = a.writeNewer(ctx, i, o.Client, p)
		}
		if err != nil {
			if !errors.Is(err, errReported) {
				a.printErr("keywright: plugin %s: %v", p.Name, err)
			}
			failed = errReported
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return failed
}

// writeNewer writes the tag with the highest version of a plugin, if that is above the one in the lock. It changes nothing: the file
// says which version is used.
func (a *app) writeNewer(ctx context.Context, i *installation, client *registry.Client, p connectors.PluginRef) error {
	locked := i.lock.Find(p.Name)
	ref, err := registry.ParseReference(p.Ref)
	if err != nil || locked == nil {
		return err
	}
	tags, err := client.Tags(ctx, ref)
	if err != nil {
		a.printErr("keywright: plugin %s: whether there is a newer version is unknown: %v", p.Name, err)
		return nil
	}
	newest := lock.Newest(tags, locked.Version)
	if newest == "" {
		return nil
	}
	file := ""
	if i.file != "connectors.yaml" {
		file = " -c " + imports.Quote(i.file)
	}
	return writeLine(a.out, fmt.Sprintf("%s: %s is newer: keywright plugin add %s:%s --name %s%s", p.Name, newest, ref.Name(), newest, imports.Quote(p.Name), file))
}

// accept gets a plugin, shows what it may do or what is different, and writes the lock if nothing is refused.
func (a *app) accept(ctx context.Context, i *installation, f *addFlags, o install.Options, name, ref string) error {
	before := i.lock.Find(name)
	if before != nil {
		before = &[]lock.Plugin{*before}[0] // the lock changes
	}
	r, err := install.Get(ctx, o, name, ref, before)
	if err != nil {
		return err
	}
	if other := install.TakenBy(i.lock, &r.Plugin); other != "" {
		return fmt.Errorf("%s: the plugin %s has its auth type or alias already", ref, other)
	}
	if err := a.writeResult(r, before); err != nil {
		return err
	}
	if err := a.mayWrite(f, r); err != nil || f.preview {
		return err
	}
	if err := i.store(r); err != nil {
		return err
	}
	return writeLine(a.out, fmt.Sprintf("%s has %s", filepath.Join(i.dir, lock.Name), name))
}

// mayWrite returns an error if a plugin has changes that are refused, and the operator has not accepted them.
func (a *app) mayWrite(f *addFlags, r *install.Result) error {
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
	case len(why) == 0, !f.preview && slices.Contains(f.accept, digest):
		return nil
	case f.preview:
		return errReported
	}
	other := ""
	if len(f.accept) > 0 {
		other = "; it is not what --accept names"
	}
	a.printErr("keywright: plugin %s is refused (%s), and nothing was written%s: if you want that, run it again with --accept %s", r.Plugin.Name, strings.Join(why, ", "), other, digest)
	return errReported
}

// writeResult writes what a new plugin may do, or what is different of one that was there.
func (a *app) writeResult(r *install.Result, before *lock.Plugin) error {
	if err := writeLine(a.out, fmt.Sprintf("%s: %s, version %s, signed by %s", r.Plugin.Name, r.Plugin.Ref, host.Printable(r.Plugin.Version), cmp.Or(r.Plugin.Signer.String(), "nobody"))); err != nil {
		return err
	}
	if before != nil {
		return a.writeChanges(r.Changes)
	}
	rows := [][]string{{"WHAT", "MAY"}}
	for _, what := range slices.Sorted(maps.Keys(r.Plugin.Capabilities)) {
		rows = append(rows, []string{host.Printable(what), shown(r.Plugin.Capabilities[what])})
	}
	return terminal.Table(a.out, terminal.StyleOf(a.out, a.env), terminal.Columns(a.out), rows)
}
