package console

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
)

// Difference says what differs between two configurations. It has the names of members. Of values it has those alone that cannot be a
// credential that somebody has written into the file.
type Difference struct {
	// Added and Removed are the permalinks of connectors that only the second or the first configuration has.
	Added, Removed []string
	Changed        []ChangedConnector
	// Others are the members outside of connectors, and the plugins, that are not the same.
	Others []string
}

// ChangedConnector is a connector with the members in which it differs.
type ChangedConnector struct {
	Permalink string
	Members   []ChangedMember
}

// ChangedMember is a member that differs. Before and After are its values if these may be shown, and both are "" otherwise.
type ChangedMember struct{ Path, Before, After string }

// Empty reports whether nothing differs.
func (d *Difference) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+len(d.Others) == 0
}

// Compare returns the difference between the configurations before and after. Neither has to be open.
func Compare(before, after *connectors.Set) *Difference {
	d := &Difference{Others: others(before, after)}
	was, is := definitions(before), definitions(after)
	for _, permalink := range slices.Sorted(maps.Keys(was)) {
		if is[permalink] == nil {
			d.Removed = append(d.Removed, permalink)
		}
	}
	for _, permalink := range slices.Sorted(maps.Keys(is)) {
		if was[permalink] == nil {
			d.Added = append(d.Added, permalink)
		} else if changed := compareMembers(members(was[permalink]), members(is[permalink])); len(changed) > 0 {
			d.Changed = append(d.Changed, ChangedConnector{permalink, changed})
		}
	}
	return d
}

// definitions returns the definitions of a set by permalink.
func definitions(s *connectors.Set) map[string]*gateway.Definition {
	all := map[string]*gateway.Definition{}
	for _, c := range s.Connectors {
		d := c.Definition()
		all[d.Permalink] = &d
	}
	return all
}

// member is a member of a connector, with the text that may be shown of it.
type member struct {
	value any
	shown string
}

// members returns the members of a definition by their paths.
func members(d *gateway.Definition) map[string]member {
	all := map[string]member{
		"name": {value: d.Name}, "url": {d.URL, origin(d)}, "method": {d.Methods, strings.Join(d.Methods, ", ")}, "paths": {value: d.Paths},
		"auth.type": {d.Auth.Type, d.Auth.Type}, "tls": {value: d.TLS}, "egress": {value: d.Egress}, "request": {value: d.Request},
		"response": {value: d.Response}, "timeout": {d.Timeout, d.Timeout.String()}, "refresh_ahead": {d.RefreshAhead, d.RefreshAhead.String()}, "limits": {value: d.Limits},
	}
	for prefix, parameters := range map[string][]gateway.Parameter{"headers.": d.Headers, "query.": d.Query} {
		for _, p := range parameters {
			all[prefix+host.Printable(p.Name)] = member{value: p}
		}
	}
	for name, value := range d.Auth.Config {
		all["auth.config."+host.Printable(name)] = member{value: value}
	}
	return all
}

// origin returns the scheme and the host of a definition's URL, whose path and query may have a credential.
func origin(d *gateway.Definition) string {
	u, err := d.BaseURL()
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// same reports whether two values of a member are the same.
func same(before, after any) bool {
	was, isEgress := before.(*host.Egress)
	is, _ := after.(*host.Egress)
	if !isEgress || was == nil || is == nil {
		return reflect.DeepEqual(before, after)
	}
	plainWas, plainIs := *was, *is
	plainWas.TLS, plainIs.TLS = nil, nil // they have functions, which are never the same
	return reflect.DeepEqual(plainWas, plainIs) && authorities(was.TLS).Equal(authorities(is.TLS))
}

// authorities returns the authorities of a TLS configuration, or nil.
func authorities(c *tls.Config) *x509.CertPool {
	if c == nil {
		return nil
	}
	return c.RootCAs
}

// compareMembers returns the members that differ, sorted by their paths. Values show if both may.
func compareMembers(was, is map[string]member) (changed []ChangedMember) {
	paths := map[string]bool{}
	for _, all := range []map[string]member{was, is} {
		for path := range all {
			paths[path] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		before, after := was[path], is[path]
		if same(before.value, after.value) {
			continue
		}
		c := ChangedMember{Path: path}
		if before.shown != after.shown {
			c.Before, c.After = before.shown, after.shown
		}
		changed = append(changed, c)
	}
	return changed
}

// others returns the names of what differs outside of connectors.
func others(before, after *connectors.Set) (all []string) {
	was, is := reflect.ValueOf(before.Settings), reflect.ValueOf(after.Settings)
	for i := range was.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			all = append(all, "gateway."+snake(was.Type().Field(i).Name))
		}
	}
	if !same(&before.Egress, &after.Egress) {
		all = append(all, "egress")
	}
	if !before.State.Equal(after.State) {
		all = append(all, "state")
	}
	modules := map[string][2]string{}
	for i, set := range []*connectors.Set{before, after} {
		for _, p := range set.Host.Plugins() {
			if !p.BuiltIn {
				both := modules[p.Name]
				both[i] = p.SHA256
				modules[p.Name] = both
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		if both := modules[name]; both[0] != both[1] {
			all = append(all, "plugin "+host.Printable(name)+", "+short(both[0])+" → "+short(both[1]))
		}
	}
	return all
}

// short returns the beginning of a digest, or "none".
func short(digest string) string {
	return cmp.Or(digest[:min(len(digest), 12)], "none")
}

// snake returns the name of a member for the name of its field.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rune(name[i-1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
