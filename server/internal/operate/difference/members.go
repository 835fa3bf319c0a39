package difference

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
)

// members are the members of a connector or of a configuration by their paths. A member that has its zero value is absent.
type members map[string]member

// member is a member, with the text that may be shown of it.
type member struct {
	value any
	text  string
	// elsewhere reports whether this is a URL whose host no text shows, so that each change of it may lead to another one.
	elsewhere bool
}

// connectorMembers returns the members of a connector. Without an egress of its own, a connector has that of the set.
func connectorMembers(c *gateway.Connector, s *connectors.Set) members {
	all, own, d := members{}, c.Definition(), c.Definition()
	if own.Egress == nil {
		own.Egress = &s.Egress
	}
	own.Permalink, own.Patterns = "", nil // the permalink is the same, and the patterns are shared by all connectors
	all.add("", reflect.ValueOf(own))
	if u, err := d.BaseURL(); err == nil {
		all["url"] = member{value: d.URL, text: u.Scheme + "://" + u.Host}
	}
	for path, m := range all {
		if name, ok := strings.CutPrefix(path, "auth.config."); ok && isURL(s, d.Auth.Type, name) {
			m.text = originOf(m.value)
			m.elsewhere = m.text == ""
			all[path] = m
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
	"method", "paths", "auth.type", "response.headers", "tls.for", "gateway.hosts", "gateway.origins", "gateway.user.type",
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
	case *url.URL:
		all[path] = member{value: value.String(), text: value.Scheme + "://" + value.Host}
	case []netip.Prefix:
		texts := make([]string, len(value))
		for i, p := range value {
			texts[i] = p.String()
		}
		all[path] = member{value: texts, text: list(texts)}
	case *tls.Config:
		all[strings.TrimSuffix(path, "tls")+"ca_file"] = member{value: value}
	default:
		return false
	}
	return true
}

// join returns the path of a member of path.
func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// list returns texts for people.
func list(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = cmp.Or(host.Printable(text), `""`)
	}
	return strings.Join(all, ", ")
}

// same reports whether two values of a member are the same.
func same(from, to any) bool {
	was, ok := from.(*tls.Config)
	is, both := to.(*tls.Config)
	if ok || both {
		return authorities(was).Equal(authorities(is)) // the rest has functions, which are never the same
	}
	return reflect.DeepEqual(from, to)
}

// authorities returns the authorities of a TLS configuration, or nil.
func authorities(c *tls.Config) *x509.CertPool {
	if c == nil {
		return nil
	}
	return c.RootCAs
}
