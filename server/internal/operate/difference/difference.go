// Package difference compares two configurations: which members are not the same, and which changes allow more than before.
package difference

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
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
func (d *Document) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed)+len(d.Others) == 0 }

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
	if !from.SameIdentities(to) {
		d.Others = append(d.Others, Member{Path: "identities", Wider: "tokens of the process come from elsewhere, or may go to other hosts"})
	}
	if !from.State.Equal(to.State) {
		d.Others = append(d.Others, Member{Path: "state"})
	}
	slices.SortFunc(d.Others, func(a, b Member) int { return strings.Compare(a.Path, b.Path) })
	return d
}

// Fingerprints returns short digests of the members of each connector by its permalink, and of those outside of connectors by "". An egress
// that connectors have from the set is outside of them.
func Fingerprints(s *connectors.Set) map[string]map[string]string {
	all := map[string]map[string]string{"": settings(s).fingerprints()}
	for _, c := range s.Connectors {
		own := connectorMembers(c, s).fingerprints()
		if c.Definition().Egress == nil {
			maps.DeleteFunc(own, func(path, _ string) bool { return strings.HasPrefix(path, "egress.") })
		}
		all[c.Definition().Permalink] = own
	}
	return all
}

func byPermalink(s *connectors.Set) map[string]*gateway.Connector {
	all := map[string]*gateway.Connector{}
	for _, c := range s.Connectors {
		all[c.Definition().Permalink] = c
	}
	return all
}

// changes returns the members of a connector that differ, sorted by their paths. One that reads another secret than before allows more.
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
		case strings.HasPrefix(field, "auth["):
			field = strings.NewReplacer("[", ".", "]", ".config").Replace(field)
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
		switch was, is := both[0], both[1]; {
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

// members are the members of a connector or of a configuration by their paths. A member that has its zero value is absent.
type members map[string]member

// member is a member, with the text that may be shown of it.
type member struct {
	value any
	text  string
	// elsewhere reports whether this is a URL whose host no text shows, so that each change of it may lead to another one.
	elsewhere bool
}

// fingerprints returns the beginning of a digest of each member. It is too short to guess a value by.
func (all members) fingerprints() map[string]string {
	short := map[string]string{}
	for path, m := range all {
		if pool, ok := m.value.(*x509.CertPool); ok {
			m.value = pool.Subjects() //nolint:staticcheck // it has all but those of the system, of which there are none in a file
		}
		value, _ := json.Marshal(m.value) // one that JSON cannot have differs nowhere
		sum := sha256.Sum256(value)
		short[path] = hex.EncodeToString(sum[:3])
	}
	return short
}

// connectorMembers returns the members of a connector. Without an egress of its own, a connector has that of the set.
func connectorMembers(c *gateway.Connector, s *connectors.Set) members {
	all, own, d := members{}, c.Definition(), c.Definition()
	own.Egress = cmp.Or(own.Egress, &s.Egress)
	own.Permalink, own.Patterns = "", nil // the permalink is the same, and the patterns are shared by all connectors
	all.add("", reflect.ValueOf(own))
	if u, err := d.BaseURL(); err == nil {
		all["url"] = member{value: d.URL, text: u.Scheme + "://" + u.Host}
	}
	for i, auth := range d.Auth {
		config := "auth.config."
		if len(d.Auth) > 1 {
			config = fmt.Sprintf("auth.%d.config.", i)
		}
		for path, m := range all {
			if name, ok := strings.CutPrefix(path, config); ok && isURL(s, auth.Type, name) {
				m.text = originOf(m.value)
				m.elsewhere = m.text == ""
				all[path] = m
			}
		}
	}
	return all
}

func isURL(s *connectors.Set, authType, name string) bool {
	p, _ := s.Host.Plugin(authType)
	return slices.ContainsFunc(p.Fields, func(f abi.Field) bool {
		return f.Kind == abi.KindURL && (f.Name == name || slices.Contains(f.Aliases, name))
	})
}

// originOf returns the scheme and the host of a URL, whose path and query may have a credential, or "" if it has a template there.
func originOf(value any) string {
	text, _ := value.(string)
	literal, _, _ := strings.Cut(text, "{{")
	u, err := url.Parse(literal)
	if err != nil || u.Host == "" || u.User != nil || u.Path == "" && literal != text {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// settings returns the members outside of connectors, without plugins and stores.
func settings(s *connectors.Set) members {
	all := members{}
	all.add("gateway", reflect.ValueOf(s.Settings))
	all.add("egress", reflect.ValueOf(s.Egress))
	all.add("limits", reflect.ValueOf(s.Limits.WithDefaults()))
	return all
}

// pluginMembers returns what an operator has set for a plugin.
func pluginMembers(path string, p *host.PluginInfo) members {
	all := members{}
	all.add(path+".grants", reflect.ValueOf(p.Grants))
	all.add(path+".limits", reflect.ValueOf(p.Limits))
	return all
}

// shownTexts are the members whose texts cannot be credentials: names, hosts and addresses, and what callers know.
var shownTexts = []string{
	"method", "paths", "hosts", "auth.type", "auth.0.type", "auth.1.type", "auth.2.type", "auth.3.type", "response.headers", "tls.for", "gateway.hosts", "gateway.origins", "gateway.user.type",
	"gateway.user.jwt.audiences", "gateway.user.jwt.algorithms", "gateway.user.jwt.token_hosts", "gateway.user.jwt.issuer",
	"gateway.user.header.proxies", "gateway.audit.on_error",
}

// add adds a value and what is in it.
func (all members) add(path string, v reflect.Value) {
	if !v.IsValid() || v.IsZero() || all.addLeaf(path, v.Interface()) {
		return
	}
	printable := slices.Contains(shownTexts, path) || strings.HasSuffix(path, ".grants")
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		all.add(path, v.Elem())
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() && !f.Anonymous {
				all.add(join(path, connectors.MemberName(f)), v.FieldByIndex(f.Index))
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			all[join(path, host.Printable(key.String()))] = member{value: v.MapIndex(key).Interface()}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			texts := make([]string, v.Len())
			for i := range texts {
				texts[i] = v.Index(i).String()
			}
			all[path] = member{value: texts, text: when(printable, list(texts))}
			return
		}
		for i := range v.Len() {
			name := strconv.Itoa(i)
			if p, ok := v.Index(i).Interface().(gateway.Parameter); ok {
				name = host.Printable(p.Name)
			}
			all.add(join(path, name), v.Index(i))
		}
	case reflect.String:
		all[path] = member{value: v.Interface(), text: when(printable, host.Printable(v.String()))}
	default:
		all[path] = member{value: v.Interface(), text: fmt.Sprint(v)}
	}
}

// addLeaf adds a value of a type whose texts are not those of its parts, and reports whether it is one.
func (all members) addLeaf(path string, value any) bool {
	switch value := value.(type) {
	case time.Duration:
		all[path] = member{value: value, text: value.String()}
	case host.Auths:
		if len(value) > 1 {
			return false
		}
		all.add(path, reflect.ValueOf(value[0]))
	case *url.URL:
		all[path] = member{value: value.String(), text: value.Scheme + "://" + value.Host}
	case []netip.Prefix:
		texts := make([]string, len(value))
		for i, p := range value {
			texts[i] = p.String()
		}
		all[path] = member{value: texts, text: list(texts)}
	case *tls.Config:
		all[strings.TrimSuffix(path, "tls")+"ca_file"] = member{value: value.RootCAs} // the rest has functions, which are never the same
	default:
		return false
	}
	return true
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// list returns texts for people.
func list(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = cmp.Or(host.Printable(text), `""`)
	}
	return strings.Join(all, ", ")
}

func same(from, to any) bool {
	was, ok := from.(*x509.CertPool)
	if is, both := to.(*x509.CertPool); ok || both {
		return was.Equal(is)
	}
	return reflect.DeepEqual(from, to)
}
