package connectors

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

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

// pluginNames reports names that two plugins have.
func (d *definer) pluginNames(all []pluginFile) {
	lines := map[string]int{}
	for i := range all {
		p := &all[i]
		if line := lines[p.Name]; p.Name != "" && line > 0 {
			d.report(p.member.get("name").value.Place, p.itemPath+".name", "is also that of the plugin on line %d: give one of them another name", line)
			p.Ref = ""
		}
		lines[p.Name] = p.member.Line
	}
}

// fromRegistry returns a plugin that came from a registry, by its entry in keywright.lock and its bytes on this machine. It asks no
// registry. If the plugin cannot be used, it reports that.
func (l *loader) fromRegistry(f pluginFile, room int) (candidate, bool) {
	if l.locked == nil && l.lockError == nil {
		l.locked, l.lockError = lock.Read(l.dir)
		l.set.Files = append(l.set.Files, filepath.Join(l.dir, lock.Name))
	}
	where, refPath := f.member.get("ref").value.Place, f.itemPath+".ref"
	if l.lockError != nil {
		l.pluginsMissing = true
		l.report(where, refPath, "%v", l.lockError)
		return candidate{}, false
	}
	p := l.locked.Find(f.Name)
	switch {
	case p == nil:
		l.report(where, refPath, "is not in %s: run `keywright plugin add` with this reference", lock.Name)
	case p.Ref != f.Ref:
		l.report(where, refPath, "is not that of %s, which has %s: run `keywright plugin update`, which shows what is different", lock.Name, p.Ref)
	default:
		wasm, files, err := p.Open(lock.PlacesOf(l.dir, l.options.PluginCache), min(room, l.options.Host.Limits.WithDefaults().ModuleBytes))
		l.set.Files = append(l.set.Files, files...)
		if err == nil {
			return candidate{f, host.Plugin{Name: f.Name, Wasm: wasm, SHA256: lock.Hex(p.Module), Grants: f.grants, Limits: f.Limits}, p}, true
		}
		advice := ""
		if errors.Is(err, lock.ErrMissing) {
			advice = ": run `keywright plugin vendor` where the registry can be reached"
		}
		l.report(where, refPath, "%v%s", err, advice)
	}
	l.pluginsMissing = true
	return candidate{}, false
}

// checkLocks reports the loaded plugins that are not as keywright.lock says.
func (l *loader) checkLocks(candidates []candidate) {
	infos := l.set.Host.Plugins()
	infos = infos[len(infos)-len(candidates):] // in this order, after all others
	for i, c := range candidates {
		l.matchesLock(c, infos[i])
	}
}

// matchesLock reports whether a plugin is as keywright.lock says: nobody has edited the lock, and describe says what it said when the
// operator accepted it.
func (l *loader) matchesLock(c candidate, info host.PluginInfo) bool {
	if c.locked == nil {
		return true
	}
	changes := c.locked.Differs(info)
	for _, change := range changes {
		l.report(c.member.get("ref").value.Place, c.itemPath+".ref", "its %s is %q in %s, and %q in the module: the lock was edited, or the module describes itself differently now; run `keywright plugin verify`",
			change.What, strings.Join(change.Before, ", "), lock.Name, strings.Join(change.Now, ", "))
	}
	l.pluginsMissing = l.pluginsMissing || len(changes) > 0
	return len(changes) == 0
}
