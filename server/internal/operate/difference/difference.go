// Package difference compares two configurations: which members are not the same, and which changes allow more than before.
package difference

import (
	"maps"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// Document describes the difference between two configurations: the JSON of `keywright explain --diff`, without its requests. It has
// the names of members. Of values it has those alone that cannot be a credential that somebody has written into the file.
type Document struct {
	// Added and Removed are the permalinks of connectors that only the second or the first configuration has, sorted. One that was
	// added allows more than before.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	// Changed has the connectors of both that differ, by permalink.
	Changed []Connector `json:"changed"`
	// Others are the members outside of connectors that differ, sorted by their paths.
	Others []Member `json:"others"`
}

// Connector is a connector that differs.
type Connector struct {
	Permalink string   `json:"permalink"`
	Members   []Member `json:"members"`
}

// Member is a member that differs. Before and After are its values if these may be shown, and both are "" otherwise.
type Member struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Wider says what is allowed now that was not before. It is "" if nothing is.
	Wider string `json:"wider,omitempty"`
}

// Only leaves out the connectors for which keep returns false, and what is outside of connectors.
func (d *Document) Only(keep func(permalink string) bool) {
	drop := func(permalink string) bool { return !keep(permalink) }
	d.Added, d.Removed = slices.DeleteFunc(d.Added, drop), slices.DeleteFunc(d.Removed, drop)
	d.Changed = slices.DeleteFunc(d.Changed, func(c Connector) bool { return drop(c.Permalink) })
	d.Others = []Member{}
}

// Empty reports whether nothing differs.
func (d *Document) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+len(d.Others) == 0
}

// Wider reports whether some change allows more than before.
func (d *Document) Wider() bool {
	wider := func(m Member) bool { return m.Wider != "" }
	return len(d.Added) > 0 || slices.ContainsFunc(d.Others, wider) ||
		slices.ContainsFunc(d.Changed, func(c Connector) bool { return slices.ContainsFunc(c.Members, wider) })
}

// Of returns the difference between the configurations from and to. Neither has to be open.
func Of(from, to *connectors.Set) *Document {
	d := &Document{Added: []string{}, Removed: []string{}, Changed: []Connector{}}
	was, is := byPermalink(from), byPermalink(to)
	for _, permalink := range slices.Sorted(maps.Keys(was)) {
		if is[permalink] == nil {
			d.Removed = append(d.Removed, permalink)
		}
	}
	for _, permalink := range slices.Sorted(maps.Keys(is)) {
		if was[permalink] == nil {
			d.Added = append(d.Added, permalink)
		} else if changed := changes(was[permalink], is[permalink], from, to); len(changed) > 0 {
			d.Changed = append(d.Changed, Connector{permalink, changed})
		}
	}
	d.Others = append(compare(settings(from), settings(to)), plugins(from, to)...)
	if !from.SameStores(to) {
		d.Others = append(d.Others, Member{Path: "secrets", Wider: "secrets come from other stores"})
	}
	if !from.State.Equal(to.State) {
		d.Others = append(d.Others, Member{Path: "state"})
	}
	slices.SortFunc(d.Others, func(a, b Member) int { return strings.Compare(a.Path, b.Path) })
	return d
}

// byPermalink returns the connectors of a set by permalink.
func byPermalink(s *connectors.Set) map[string]*gateway.Connector {
	all := map[string]*gateway.Connector{}
	for _, c := range s.Connectors {
		all[c.Definition().Permalink] = c
	}
	return all
}

// changes returns the members of a connector that differ, sorted by their paths. One that reads a secret that it did not read before
// allows more.
func changes(was, is *gateway.Connector, from, to *connectors.Set) []Member {
	all := compare(connectorMembers(was, from), connectorMembers(is, to))
	read := was.FieldSecrets()
	for field, secrets := range is.FieldSecrets() {
		wider := more("the secret %s is read", equal)(member{value: read[field]}, member{value: secrets})
		switch _, isTLS := strings.CutPrefix(field, "tls."); {
		case wider == "":
			continue
		case strings.HasPrefix(field, "headers."), strings.HasPrefix(field, "query."):
			field += ".value"
		case !isTLS:
			field = "auth.config." + field
		}
		i := slices.IndexFunc(all, func(m Member) bool { return m.Path == field })
		if i < 0 { // written under another name
			all, i = append(all, Member{Path: field}), len(all)
		}
		all[i].Wider = strings.TrimPrefix(all[i].Wider+"; "+wider, "; ")
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// compare returns the members that differ, sorted by their paths.
func compare(was, is members) []Member {
	changed := []Member{}
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		from, to := was[path], is[path]
		if same(from.value, to.value) {
			continue
		}
		m := Member{Path: path, Wider: wider(path, from, to)}
		if from.text != to.text {
			m.Before, m.After = from.text, to.text
		}
		changed = append(changed, m)
	}
	return changed
}

// plugins returns the plugins of files that differ, and what a changed one may do that it could not before.
func plugins(from, to *connectors.Set) (all []Member) {
	modules := map[string][2]*host.PluginInfo{}
	for i, set := range []*connectors.Set{from, to} {
		for _, p := range set.Host.Plugins() {
			if !p.BuiltIn {
				both := modules[p.Name]
				both[i] = &p
				modules[p.Name] = both
			}
		}
	}
	for name, both := range modules {
		path := "plugins." + host.Printable(name)
		was, is := both[0], both[1]
		switch {
		case was == nil:
			all = append(all, Member{path, "", digest(is), "a plugin more gets references to credentials"})
		case is == nil:
			all = append(all, Member{Path: path, Before: digest(was)})
		default:
			if was.SHA256 != is.SHA256 {
				var rights []string
				for _, c := range lock.Refused(lock.Compare(lock.Describe(*was), lock.Describe(*is))) {
					rights = append(rights, host.Printable(c.What+" ("+c.Why+")"))
				}
				all = append(all, Member{path, digest(was), digest(is), strings.Join(rights, ", ")})
			}
			all = append(all, compare(pluginMembers(path, was), pluginMembers(path, is))...)
		}
	}
	return all
}

// digest returns the beginning of the digest of a module.
func digest(p *host.PluginInfo) string { return "sha256:" + p.SHA256[:min(len(p.SHA256), 12)] + "…" }
