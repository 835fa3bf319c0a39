package console

import (
	"cmp"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// pluginsView is the page of the plugins.
type pluginsView struct {
	Plugins []pluginRow
	// LockError says why keywright.lock cannot be read. It is empty if it can.
	LockError string
}

// pluginRow is a plugin that is loaded.
type pluginRow struct {
	host.PluginInfo
	// From says where the module comes from.
	From string
	// Locked is the entry of the plugin in keywright.lock, or nil.
	Locked *lock.Plugin
	// Same reports whether the module is the one of Locked.
	Same bool
	// Connectors has the permalinks of the connectors with the type.
	Connectors []string
	// Rights has what it may do, by the things that it may use. The name of its type is no right.
	Rights lock.Capabilities
	Fuel   Fuel
}

// Limited reports whether the operator has given the plugin limits of its own.
func (p *pluginRow) Limited() bool { return p.Limits != host.PluginLimits{} }

// plugins returns the view of all plugins.
func (c *Console) plugins(s *State, _ *http.Request) (any, error) {
	view := &pluginsView{}
	locked, err := lock.Read(filepath.Dir(s.File))
	if err != nil {
		view.LockError, locked = host.Printable(err.Error()), &lock.Lock{}
	}
	used := map[string][]string{}
	for _, connector := range s.Set.Connectors {
		d := connector.Definition()
		used[d.Auth.Type] = append(used[d.Auth.Type], d.Permalink)
	}
	for _, p := range s.Set.Host.Plugins() {
		row := pluginRow{PluginInfo: p, From: "a file", Rights: lock.Of(p)}
		delete(row.Rights, "type")
		delete(row.Rights, "aliases")
		for _, name := range append([]string{p.Type}, p.Aliases...) {
			row.Connectors = append(row.Connectors, used[name]...)
		}
		if p.BuiltIn {
			row.From = "built in"
		} else if row.Locked = locked.Find(p.Name); row.Locked != nil {
			row.From, row.Same = host.Printable(row.Locked.Ref), row.Locked.Module == "sha256:"+p.SHA256
		}
		if c.config.Fuel != nil {
			row.Fuel = c.config.Fuel(p.Type)
		}
		view.Plugins = append(view.Plugins, row)
	}
	slices.SortFunc(view.Plugins, func(a, b pluginRow) int { return cmp.Compare(a.Type, b.Type) })
	return view, nil
}
