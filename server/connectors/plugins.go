package connectors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/codings"
	"github.com/keywright/keywright/server/internal/pkcs12"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// A candidate is a plugin whose file was read.
type candidate struct {
	pluginFile
	host.Plugin
	// locked is the plugin in keywright.lock, or nil for a plugin with a path.
	locked *lock.Plugin
}

// host creates the host with the plugins of the file. It reports those that cannot be used, and leaves them out.
func (l *loader) host(ctx context.Context, files []pluginFile) error {
	candidates := l.candidates(files)
	err := l.hostWith(ctx, candidates)
	if err == nil {
		infos := l.set.Host.Plugins()
		for i, info := range infos[len(infos)-len(candidates):] { // in this order, after all others
			l.matchesLock(candidates[i], info)
		}
	}
	if err == nil || ctx.Err() != nil || len(candidates) == 0 {
		return err
	}
	if err := l.hostWith(ctx, nil); err != nil {
		return err // not the fault of a plugin of the file
	}
	good, err := l.inspect(ctx, candidates)
	if err != nil || len(good) == 0 {
		return err
	}
	_ = l.set.Host.Close(ctx)
	return l.hostWith(ctx, good)
}

// BuiltIns returns the built-in plugins with the auth types, each once. It leaves out types that are not built in.
func BuiltIns(types ...string) []host.Plugin {
	builtIns := []host.Plugin{} // not nil, which would mean the default
	for _, name := range types {
		wasm := plugins.Of(name)
		same := func(p host.Plugin) bool { return bytes.Equal(p.Wasm, wasm) }
		if wasm != nil && !slices.ContainsFunc(builtIns, same) {
			builtIns = append(builtIns, host.Plugin{Name: "built-in", Wasm: wasm})
		}
	}
	return builtIns
}

func (l *loader) hostWith(ctx context.Context, candidates []candidate) (err error) {
	config := l.options.Host
	config.Plugins = slices.Clone(config.Plugins)
	config.UserTokenHosts = slices.Clone(config.UserTokenHosts)
	config.ContentCodings, config.PKCS12 = codings.Further(), pkcs12.Read
	if jwt := l.set.Settings.User.JWT; jwt != nil {
		for _, name := range jwt.TokenHosts {
			if _, err := urlcheck.ParseHost(name); err != nil {
				name = "unknown.invalid" // already reported
			}
			config.UserTokenHosts = append(config.UserTokenHosts, name)
		}
	}
	for _, c := range candidates {
		config.Plugins = append(config.Plugins, c.Plugin)
	}
	l.set.Host, err = host.New(ctx, config)
	return err
}

// Plugins returns the built-in plugins, and those of the file name. It looks at nothing else of the file. If the file cannot be read, or
// one of its plugins, it returns an [*Error].
func Plugins(ctx context.Context, name string, o Options) ([]host.PluginInfo, error) {
	text, err := readFile(ctx, name)
	if err != nil {
		return nil, err
	}
	l := newLoader(name, text, o)
	l.options.Host.BuiltIns = BuiltIns(plugins.Types()...)
	if root := parse(ctx, l.source.text, &l.problems); root != nil {
		var items []*node
		if l.is(root, object, "", "") && root.get("plugins") != nil {
			items = l.items(root.get("plugins").value, "plugins", "plugins")
		}
		err = l.host(ctx, l.plugins(items))
	}
	if err := l.failure(ctx, name, err); err != nil {
		return nil, err
	}
	defer func() { _ = l.set.Close(context.WithoutCancel(ctx)) }()
	return l.set.Host.Plugins(), nil
}

// inspect reports the plugins that cannot be used, and returns the others. To create a host for each would take quadratic time.
func (l *loader) inspect(ctx context.Context, candidates []candidate) (good []candidate, err error) {
	owners := map[string]string{}
	for _, info := range l.set.Host.Plugins() {
		for _, name := range append([]string{info.Type}, info.Aliases...) {
			owners[name] = info.Name
		}
	}
	for _, c := range candidates {
		info, err := host.Inspect(ctx, c.Plugin, l.options.Host.Limits)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		names := append([]string{info.Type}, info.Aliases...)
		i := slices.IndexFunc(names, func(name string) bool { _, there := owners[name]; return there })
		var limit *host.LimitError
		switch {
		case errors.As(err, &limit):
			l.report(c.member.get("limits").value.get(limit.Member).value.Place, c.itemPath+".limits."+limit.Member, "%v", limit.Err)
		case err != nil:
			l.report(c.member.Place, c.itemPath, "%v", err)
		case i >= 0:
			l.report(c.member.Place, c.itemPath, "plugin %q: auth type %q is taken already, by plugin %q: give this one another", c.Plugin.Name, names[i], owners[names[i]])
		case !l.matchesLock(c, info): // reported there
		default:
			good = append(good, c)
			for _, name := range names {
				owners[name] = c.Plugin.Name
			}
			continue
		}
		l.pluginsMissing = true
	}
	return good, nil
}

// candidates reads the plugins of the file, and reports those that cannot be read.
func (l *loader) candidates(pluginFiles []pluginFile) (all []candidate) {
	room := 32 << 20 // for all plugins of the file together, in bytes
	for _, f := range pluginFiles {
		if f.Ref == "" && f.Path == "" {
			l.pluginsMissing = true // already reported
			continue
		}
		source, read := "path", l.fromFile
		if f.Ref != "" {
			source, read = "ref", l.fromRegistry
		}
		c, err := read(f, room)
		if err != nil {
			l.report(f.member.get(source).value.Place, f.itemPath+"."+source, "%v", err)
			l.pluginsMissing = true
			continue
		}
		room -= len(c.Wasm)
		all = append(all, c)
	}
	return all
}

// fromFile reads a plugin, unless it is the file of another one.
func (l *loader) fromFile(f pluginFile, room int) (candidate, error) {
	name := f.Path
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.dir, name)
	}
	l.set.Files = append(l.set.Files, name)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return candidate{}, errors.New("names a file that does not exist; it is looked for from this file's directory")
	case err != nil:
		return candidate{}, errors.New("cannot be read: " + cause(err))
	case !info.Mode().IsRegular():
		return candidate{}, errors.New("is no regular file")
	case slices.ContainsFunc(l.modules, func(previous os.FileInfo) bool { return os.SameFile(info, previous) }):
		return candidate{}, errors.New("names a file that another plugin names: remove one")
	}
	l.modules = append(l.modules, info)
	wasm, err := files.Read(name, min(room, l.options.Host.Limits.WithDefaults().ModuleBytes))
	switch {
	case err != nil:
		return candidate{}, errors.New("cannot be read: " + cause(err))
	case len(wasm) > room:
		return candidate{}, errors.New("makes the plugins of this file larger than 32 MiB, all together")
	}
	return candidate{f, host.Plugin{Name: f.Path, Wasm: wasm, SHA256: f.SHA256, Grants: f.grants, Limits: f.Limits}, nil}, nil
}

// pluginSource checks where a plugin comes from: it has a path, or a name and a reference.
func (d *definer) pluginSource(n *node, p *pluginFile) {
	switch path, ref := n.get("path"), n.get("ref"); {
	case path != nil && ref != nil:
		d.report(ref.key, p.itemPath+".ref", "stands beside path: a plugin is a file, or comes from a registry")
		p.Path, p.Ref = "", ""
	case path == nil && ref == nil && !d.reportedAsTypo(n, "path") && !d.reportedAsTypo(n, "ref"):
		d.report(n.Place, p.itemPath+".path", "is missing")
	case path != nil && n.get("name") != nil:
		d.report(n.get("name").key, p.itemPath+".name", "is for a plugin with ref: one with path has no name")
		p.Path = ""
	case ref == nil:
	case n.get("sha256") != nil:
		d.report(n.get("sha256").key, p.itemPath+".sha256", "is for a plugin with path: the digest of this one is in %s", lock.Name)
	case n.get("name") == nil && !d.reportedAsTypo(n, "name"):
		d.report(n.Place, p.itemPath+".name", "is missing: %s has the plugin under it", lock.Name)
		p.Ref = ""
	case p.Name != "" && lock.CheckName(p.Name) != nil:
		d.report(n.get("name").value.Place, p.itemPath+".name", "%v", lock.CheckName(p.Name))
		p.Ref = ""
	case p.Name == "":
		p.Ref = "" // already reported
	}
}

// fromRegistry reads a plugin that came from a registry, by its entry in keywright.lock. It asks no registry.
func (l *loader) fromRegistry(f pluginFile, room int) (candidate, error) {
	if l.locked == nil && l.lockError == nil {
		l.locked, l.lockError = lock.Read(l.dir)
		l.set.Files = append(l.set.Files, filepath.Join(l.dir, lock.Name))
	}
	if l.lockError != nil {
		return candidate{}, l.lockError
	}
	p := l.locked.Find(f.Name)
	switch {
	case p == nil:
		return candidate{}, fmt.Errorf("is not in %s: run `keywright plugin add` with this reference", lock.Name)
	case p.Ref != f.Ref:
		return candidate{}, fmt.Errorf("is not that of %s, which has %s: run `keywright plugin update`, which shows what is different", lock.Name, p.Ref)
	}
	wasm, files, err := p.Open(lock.PlacesOf(l.dir, l.options.PluginCache), min(room, l.options.Host.Limits.WithDefaults().ModuleBytes))
	l.set.Files = append(l.set.Files, files...)
	if errors.Is(err, lock.ErrMissing) {
		err = fmt.Errorf("%w: run `keywright plugin vendor` where the registry can be reached", err)
	}
	return candidate{f, host.Plugin{Name: f.Name, Wasm: wasm, SHA256: lock.Hex(p.Module), Grants: f.grants, Limits: f.Limits}, p}, err
}

// matchesLock reports whether a plugin describes itself as keywright.lock says, as it did when the operator accepted it.
func (l *loader) matchesLock(c candidate, info host.PluginInfo) bool {
	if c.locked == nil {
		return true
	}
	changes := c.locked.Compare(lock.Describe(info))
	for _, change := range changes {
		l.report(c.member.get("ref").value.Place, c.itemPath+".ref", "its %s is %q in %s, and %q in the module: the lock was edited, or the module describes itself differently now; run `keywright plugin verify`",
			change.What, strings.Join(change.Before, ", "), lock.Name, strings.Join(change.Now, ", "))
	}
	l.pluginsMissing = l.pluginsMissing || len(changes) > 0
	return len(changes) == 0
}
