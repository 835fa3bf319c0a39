package connectors

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
)

// A definition is a connector of the file.
type definition struct {
	member *node
	index  int
	// url is nil if the file's url is invalid.
	url *url.URL
	// permalink is empty if the file's permalink is invalid, or if none can be derived from the name.
	permalink string
	gateway   gateway.Definition
	// auths has the authentications of the member auth, one or a list.
	auths []authentication
	// connected is nil if the connector has problems.
	connected *gateway.Connector
}

// An authentication is an auth type and its configuration, at a path in the connector: auth, or auth[1].
type authentication struct {
	*host.Auth
	path string
	// info describes the auth type. It is the zero value if the host does not have the type.
	info host.PluginInfo
}

// authAt returns the authentication that a path leads into, or an empty one.
func (c *definition) authAt(path string) *authentication {
	for i := range c.auths {
		if strings.HasPrefix(path+".", c.auths[i].path+".") {
			return &c.auths[i]
		}
	}
	return &authentication{Auth: &host.Auth{}}
}

func (c *definition) path() string {
	if c.permalink == "" {
		return fmt.Sprintf("connectors[%d]", c.index)
	}
	return "connectors." + c.permalink
}

// A connectorFile is an item of the member connectors.
type connectorFile struct {
	*gateway.Definition
	// Egress says where this connector may connect to, with its token endpoint and its issuer. A member takes the place of
	// that of the file.
	Egress *egressFile
}

// A pluginFile is an item of the member plugins.
type pluginFile struct {
	// Path is the path of a compiled plugin, from the directory of this file.
	//
	// It is as written in the file, and empty for a plugin from a registry.
	Path string
	// Name is the name of a plugin from a registry. keywright.lock has the plugin under this name.
	Name string
	// Ref is the reference of a plugin in a registry, such as registry.example/acme/hmac:1.2.0. keywright plugin add writes it.
	Ref string
	// SHA256 is the SHA-256 digest that the file of the plugin must have, in hexadecimal.
	SHA256 string `file:"sha256,digest"`
	// Grants are rights of the plugin beyond the default. A plugin with one of them can do more with secrets.
	Grants []*node
	// Limits has limits of this plugin alone. None may be above the limit of the host.
	Limits host.PluginLimits

	member *node
	// itemPath is the path of the item in problems.
	itemPath string
	grants   []string
}

// maxPlugins limits the plugins of a file, because each is read and compiled.
const maxPlugins = 32

// A wholeFile is all of a file. The first paragraph of the comment of each field, here and in the structs below, describes the
// member for authors of files: a test makes members.json of it.
type wholeFile struct {
	// Connectors are the connectors, each an external API with its authentication.
	Connectors []*node
	// Plugins are plugins with further auth types: compiled modules, or plugins from registries.
	Plugins []*node
	// ConnectorsDir is a directory whose files NAME.yaml add connectors, in the order of their names.
	ConnectorsDir string `file:",path"`
	// Gateway has the settings of keywright serve: host names, users, TLS.
	Gateway Settings
	// Secrets are stores of secrets. get_secret asks them in this order. Without them, secrets are environment variables.
	Secrets []*node
	// Identities are tokens that say who the process is, for identity('NAME', 'AUDIENCE'), such as that of the service account of a pod.
	Identities []*node
	// State is the store of tokens and grants beyond the end of the process, which several processes may share. Without it,
	// they are in memory.
	State *node
	// Egress says where all connectors may connect to, with their token endpoints and issuers. Without it, public addresses only.
	Egress *egressFile
	// Limits has the limits that all connectors share.
	Limits limitsFile
}

// limitsFile is the member limits: limits of the host that operators choose by the size of a deployment. Each replaces the field of
// [host.Limits] with the same name.
type limitsFile struct {
	// ConcurrentExchanges limits the calls that ask token endpoints or read issuers' metadata at one time. A quarter as many
	// may replace tokens ahead.
	ConcurrentExchanges int `default:"64"`
	// ConcurrentKeys limits the calls that use a key of the store of keys at one time.
	ConcurrentKeys int `default:"64"`
	// TokensBytes is the memory of tokens, in bytes.
	TokensBytes int `default:"67108864"`
	// MutationsBytes is the memory of what calls of plugins leave for the next request of their user, in bytes.
	MutationsBytes int `default:"67108864"`
	// ScannersBytes is the memory of the tables by which answers are searched for credentials, in bytes.
	ScannersBytes int `default:"67108864"`
}

func (d *definer) document(ctx context.Context, root *node) (connectors []*definition, plugins []pluginFile) {
	if !d.is(root, object, "", "") {
		return nil, nil
	}
	d.decode(root, "", &d.file)
	d.set.Egress = d.options.Host.Egress // that of the options until the connectors are read
	if d.file.Egress != nil {
		d.changeEgress(root.get("egress").value, d.file.Egress, "egress", &d.set.Egress)
	}
	switch m := root.get("connectors"); {
	case m == nil && root.get("connectors_dir") != nil:
	case m == nil && !d.reportedAsTypo(root, "connectors"):
		d.report(root.Place, "", "has no connectors: it needs a list of them, the member connectors")
	case m != nil && m.value.kind == list && len(m.value.items) == 0:
		d.report(m.value.Place, "connectors", "is empty: it needs one connector at least")
	}
	d.directory(ctx, root)
	permalinks := map[string]*definition{}
	for i, n := range d.file.Connectors {
		c := d.connector(n, i)
		if previous := permalinks[c.permalink]; previous != nil && c.permalink != "" {
			source := "permalink"
			if n.get(source) == nil {
				source = "name" // of which the permalink is made
			}
			d.report(n.place(source), c.path(),
				"its permalink is also that of the connector on %s: give one of them another permalink", d.placeText(previous.member.Place, c.member.Place))
		}
		permalinks[c.permalink] = c
		connectors = append(connectors, c)
	}
	return connectors, d.plugins(d.file.Plugins)
}

func (d *definer) plugins(items []*node) (all []pluginFile) {
	lines := map[string]int{} // by name
	for i, n := range d.firstItems(items, maxPlugins, "plugins", "plugins") {
		p := d.plugin(n, fmt.Sprintf("plugins[%d]", i))
		if line := lines[p.Name]; p.Name != "" && line > 0 {
			d.report(n.get("name").value.Place, p.itemPath+".name", "is also that of the plugin on line %d: give one of them another name", line)
			p.Ref = ""
		}
		lines[p.Name] = n.Line
		all = append(all, p)
	}
	return all
}

func (d *definer) connector(n *node, index int) *definition {
	c := &definition{member: n, index: index}
	if !d.is(n, object, c.path(), "connectors[]") {
		return c
	}
	// Paths in problems contain the permalink, so it is read first.
	if text, ok := stringOf(n.get("permalink")); ok && permalinkSyntax.MatchString(text) {
		c.permalink = text
	} else if text, ok := stringOf(n.get("name")); ok && n.get("permalink") == nil {
		c.permalink = gateway.Permalink(text)
	}
	path := c.path()
	d.rename(fmt.Sprintf("connectors[%d]", index), path)
	if m := n.get("auth"); m != nil && m.value.kind == list && len(m.value.items) == 1 { // the same as without a list
		m.value = m.value.items[0]
	}
	file := connectorFile{Definition: &c.gateway}
	d.decode(n, path, &file)
	if file.Egress != nil {
		own := d.set.Egress
		d.changeEgress(n.get("egress").value, file.Egress, path+".egress", &own)
		c.gateway.Egress = &own
	}
	name, permalink := c.gateway.Name, c.gateway.Permalink
	if name != "" && host.Printable(name) != name {
		d.report(n.get("name").value.Place, path+".name", "has more than 1024 bytes, or holds control characters")
	}
	switch {
	case c.permalink != "":
	case permalink != "":
		d.report(n.get("permalink").value.Place, path+".permalink", "may have a to z, 0 to 9 and hyphens, at most 64")
	case name != "" && n.get("permalink") == nil:
		d.report(n.get("name").value.Place, path+".name", "has no letters a to z or digits, of which to make a permalink: add the member permalink")
	}
	d.url(c, path)
	d.auth(c, path)
	for list, all := range map[string][]gateway.Parameter{"headers": c.gateway.Headers, "query": c.gateway.Query} {
		for i := range all {
			if n.get(list).value.items[i].kind != object { // already reported
				all[i].Name = "unknown-" + strconv.Itoa(i)
			}
		}
	}
	return c
}

func (d *definer) url(c *definition, path string) {
	if c.gateway.URL == "" {
		return // already reported
	}
	u, err := c.gateway.BaseURL()
	e := d.set.Egress
	if c.gateway.Egress != nil {
		e = *c.gateway.Egress
	}
	if err == nil && u.Scheme == "http" && !e.AllowsHTTP(u) {
		err = errors.New("is plain http, which sends everything in the open: use https" + orName)
	}
	if err != nil {
		d.report(c.member.get("url").value.Place, path+".url", "%v", err)
		return
	}
	c.url = u
}

func (d *definer) auth(c *definition, path string) {
	if len(c.gateway.Auth) == 0 {
		c.gateway.Auth = host.Auths{{}}
	}
	for i := range c.gateway.Auth {
		a := authentication{Auth: &c.gateway.Auth[i], path: "auth"}
		if len(c.gateway.Auth) > 1 {
			a.path = fmt.Sprintf("auth[%d]", i)
		}
		c.auths = append(c.auths, a)
		n, _, found := c.member.locate(a.path)
		if found && n.kind == object && n.get("type") == nil && !d.reportedAsTypo(n, "type") {
			d.report(n.Place, path+"."+a.path+".type", "is missing")
		}
		if config := n.get("config"); found && config != nil && config.value.kind != object && !config.value.isNull() {
			a.Type = "" // otherwise the host would report a missing configuration
		}
	}
	switch m := c.member.get("auth"); {
	case m == nil && !d.reportedAsTypo(c.member, "auth"):
		d.report(c.member.Place, path+".auth", "is missing: it says how the API is authenticated to; type: none is for one that asks nothing")
	case m != nil && m.value.kind == list && len(m.value.items) == 0:
		d.report(m.value.Place, path+".auth", "is an empty list: type: none is for an API that asks nothing")
	}
}

func (d *definer) plugin(n *node, path string) pluginFile {
	p := pluginFile{member: n, itemPath: path}
	if !d.is(n, object, path, "plugins[]") {
		return p
	}
	d.decode(n, path, &p)
	d.pluginSource(n, &p)
	if p.SHA256 != "" && !digestSyntax.MatchString(p.SHA256) {
		d.report(n.get("sha256").value.Place, path+".sha256", "%s", texts["digest"].wrong())
		p.Path, p.Ref = "", "" // the intended digest is unknown, so the file is not loaded
	}
	for i, item := range p.Grants {
		grant, ok := item.value.(string)
		switch grantPath := fmt.Sprintf("%s.grants[%d]", path, i); {
		case !ok:
			d.report(item.Place, grantPath, "is %s; there are %s", item.describe(), strings.Join(contract.Grants, ", "))
		case !slices.Contains(contract.Grants, grant):
			d.report(item.Place, grantPath, "there is no grant %q%s", grant, problem.DidYouMean(grant, contract.Grants))
		default:
			p.grants = append(p.grants, grant)
		}
	}
	return p
}

func stringOf(m *member) (string, bool) {
	if m == nil {
		return "", false
	}
	text, ok := m.value.value.(string)
	return text, ok
}

var permalinkSyntax, digestSyntax = regexp.MustCompile(texts["permalink"].pattern), regexp.MustCompile(texts["digest"].pattern)
