package connectors

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/codings"
	"github.com/keywright/keywright/server/internal/pkcs12"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// maxModules limits all plugins of a file together, in bytes.
const maxModules = 32 << 20

// A candidate is a plugin whose file was read.
type candidate struct {
	pluginFile
	host.Plugin
	// locked is the plugin in keywright.lock, or nil for a plugin with a path.
	locked *lock.Plugin
}

// host creates the host with the plugins of the file. If that fails, it reports the plugins that cannot be used, and creates
// the host without them.
func (l *loader) host(ctx context.Context, files []pluginFile) error {
	candidates := l.candidates(files)
	err := l.hostWith(ctx, candidates)
	if err == nil {
		l.checkLocks(candidates)
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

// builtIns returns the built-in plugins that the connectors of the file use. The host would take longer to load all of them.
func builtIns(definitions []*definition) []host.Plugin {
	var types []string
	for _, c := range definitions {
		if name := c.gateway.Auth.Type; !slices.Contains(types, name) && plugins.Of(name) != nil {
			types = append(types, name)
		}
	}
	return BuiltIns(types...)
}

// hostWith creates the host with the candidates.
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
	l := newLoader(ctx, name, text, o)
	l.options.Host.BuiltIns = BuiltIns(plugins.Types()...)
	if root := parse(ctx, l.source.text, &l.problems); root != nil {
		var items []*node
		if l.is(root, object, "", "") && root.get("plugins") != nil {
			items = l.items(root.get("plugins").value, "plugins", "plugins")
		}
		err = l.host(ctx, l.plugins(items))
	}
	defer func() { _ = l.set.Close(context.WithoutCancel(ctx)) }() // does not block: there are no calls
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case len(l.all) > 0:
		return nil, &Error{File: name, Problems: l.sorted(nil, moreProblems), Files: l.set.Files}
	}
	return l.set.Host.Plugins(), nil
}

// inspect reports the plugins that cannot be used, and returns the others. It inspects each alone: to create a host again with
// each further plugin would take quadratic time.
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
	var infos []os.FileInfo
	room := maxModules
	for _, f := range pluginFiles {
		if f.Ref != "" {
			if c, ok := l.fromRegistry(f, room); ok {
				room -= len(c.Wasm)
				all = append(all, c)
			}
			continue
		}
		if f.Path == "" {
			l.pluginsMissing = true // already reported
			continue
		}
		name := f.Path
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.dir, name)
		}
		l.set.Files = append(l.set.Files, name)
		info, err := os.Stat(name)
		var wasm []byte
		switch first := slices.IndexFunc(infos, func(previous os.FileInfo) bool { return os.SameFile(info, previous) }); {
		case err != nil:
		case !info.Mode().IsRegular():
			err = errNotAFile
		case first >= 0:
			err = errTwice
		default:
			infos = append(infos, info)
			if wasm, err = files.Read(name, min(room, l.options.Host.Limits.WithDefaults().ModuleBytes)); len(wasm) > room {
				err = errRoom
			}
		}
		if err != nil {
			l.report(f.member.get("path").value.Place, f.itemPath+".path", "%s", unreadable(err))
			l.pluginsMissing = true
			continue
		}
		room -= len(wasm)
		all = append(all, candidate{f, host.Plugin{Name: f.Path, Wasm: wasm, SHA256: f.SHA256, Grants: f.grants, Limits: f.Limits}, nil})
	}
	return all
}

var (
	errNotAFile = errors.New("is no regular file")
	errTwice    = errors.New("names a file that another plugin names: remove one")
	errRoom     = errors.New("makes the plugins of this file larger than 32 MiB, all together")
)

func unreadable(err error) string {
	switch {
	case errors.Is(err, errNotAFile), errors.Is(err, errTwice), errors.Is(err, errRoom):
		return err.Error()
	case errors.Is(err, fs.ErrNotExist):
		return "names a file that does not exist; it is looked for from this file's directory"
	}
	return "cannot be read: " + cause(err)
}
