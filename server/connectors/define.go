package connectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
)

// definition is a connector as the file has it.
type definition struct {
	member    *node
	index     int
	name      string
	permalink string // "" when none can be made
	url       *url.URL
	auth      host.Auth
	gateway   gateway.Definition
}

// path returns the beginning of paths in problems.
func (c *definition) path() string {
	if c.permalink == "" {
		return fmt.Sprintf("connectors[%d]", c.index)
	}
	return "connectors." + c.permalink
}

// pluginFile is a member of plugins.
type pluginFile struct {
	member *node
	at     string // its path in problems
	path   string // as the file has it
	sha256 string
	grants []string
}

// maxPlugins is how many plugins a file may name: each is read and compiled.
const maxPlugins = 32

// definer reads the definitions out of a document.
type definer struct {
	*problems
	allowHTTP bool
	dir       string             // of the file
	meant     map[*node][]string // what unknown members of an object were probably meant to be

	environment bool // a store of the file is the environment
}

func (d *definer) document(root *node) (connectors []*definition, plugins []pluginFile) {
	if root.kind != object {
		d.at(root.Place, "", "is %s: an object with the member connectors is wanted", root.describe())
		return nil, nil
	}
	d.only(root, "", "connectors", "plugins", "gateway", "secrets")
	switch m := root.get("connectors"); {
	case m == nil && !d.misspelt(root, "connectors"):
		d.at(root.Place, "", "has no connectors: it needs a list of them, the member connectors")
	case m != nil && m.value.kind == list && len(m.value.items) == 0:
		d.at(m.value.Place, "connectors", "is empty: it needs one connector at least")
	}
	permalinks := map[string]*definition{}
	for i, n := range d.items(root, "", "connectors", "a list of connectors, each beginning with a hyphen,") {
		c := d.connector(n, i)
		if other := permalinks[c.permalink]; other != nil && c.permalink != "" {
			d.at(c.keyOrPlace("permalink", "name"), c.path(),
				"its permalink is also that of the connector on line %d: give one of them another permalink", other.member.Line)
		}
		permalinks[c.permalink] = c
		connectors = append(connectors, c)
	}
	for i, n := range d.items(root, "", "plugins", "a list of plugins, each beginning with a hyphen,") {
		if i == maxPlugins {
			d.at(n.Place, "plugins", "has more than %d plugins", maxPlugins)
			break
		}
		plugins = append(plugins, d.plugin(n, fmt.Sprintf("plugins[%d]", i)))
	}
	return connectors, plugins
}

func (c *definition) keyOrPlace(names ...string) problem.Place {
	for _, name := range names {
		if m := c.member.get(name); m != nil {
			return m.value.Place
		}
	}
	return c.member.Place
}

func (d *definer) connector(n *node, index int) *definition {
	c := &definition{member: n, index: index}
	if n.kind != object {
		d.at(n.Place, c.path(), "is %s: an object with name, url and auth is wanted", n.describe())
		return c
	}
	// Paths in problems are to have the permalink, so it is found first.
	if text, ok := stringOf(n.get("permalink")); ok && permalinkSyntax.MatchString(text) {
		c.permalink = text
	} else if text, ok := stringOf(n.get("name")); ok && n.get("permalink") == nil {
		c.permalink = Permalink(text)
	}
	path := c.path()
	d.rename(fmt.Sprintf("connectors[%d]", index), path)
	d.only(n, path, members...)
	if c.name = d.text(n, path, "name"); c.name != "" && host.Printable(c.name) != c.name {
		d.at(n.get("name").value.Place, path+".name", "is too long, or holds control characters")
	}
	if n.get("permalink") != nil {
		if given := d.text(n, path, "permalink"); given != "" && c.permalink == "" {
			d.at(n.get("permalink").value.Place, path+".permalink", "may have a to z, 0 to 9 and hyphens, at most %d", maxPermalink)
		}
	} else if c.name != "" && c.permalink == "" {
		d.at(n.get("name").value.Place, path+".name", "has no letters a to z or digits, of which to make a permalink: add the member permalink")
	}
	d.url(c, path)
	d.auth(c, path)
	d.shape(c, path)
	return c
}

func (d *definer) url(c *definition, path string) {
	text := d.text(c.member, path, "url")
	if text == "" {
		return
	}
	c.gateway.URL = text
	u, err := c.gateway.BaseURL()
	if err == nil && u.Scheme == "http" && !d.allowHTTP {
		err = errors.New("is plain http, which sends everything in the open: use https, or --dev while developing")
	}
	if err != nil {
		d.at(c.member.get("url").value.Place, path+".url", "%v", err)
		return
	}
	c.url = u
}

func (d *definer) auth(c *definition, path string) {
	m := c.member.get("auth")
	if m == nil {
		if d.misspelt(c.member, "auth") {
			return
		}
		d.at(c.member.Place, path+".auth", "is missing: it says how the API is authenticated to; type: none is for one that asks nothing")
		return
	}
	path += ".auth"
	if m.value.kind != object {
		d.at(m.value.Place, path, "is %s: an object with type and config is wanted", m.value.describe())
		return
	}
	d.only(m.value, path, "type", "config")
	c.auth.Type = d.text(m.value, path, "type")
	config := m.value.get("config")
	if config == nil || config.value.kind == scalar && config.value.value == nil {
		return
	}
	if config.value.kind != object {
		d.at(config.value.Place, path+".config", "is %s: an object is wanted", config.value.describe())
		c.auth.Type = "" // what the host says of a configuration that is missing would be wrong
		return
	}
	c.auth.Config, _ = config.value.decoded().(map[string]any)
}

func (d *definer) plugin(n *node, path string) pluginFile {
	p := pluginFile{member: n, at: path}
	if n.kind != object {
		d.at(n.Place, path, "is %s: an object with path, sha256 and grants is wanted", n.describe())
		return p
	}
	d.only(n, path, "path", "sha256", "grants")
	p.path = d.text(n, path, "path")
	if n.get("sha256") != nil {
		p.sha256 = d.text(n, path, "sha256")
		if p.sha256 != "" && !digestSyntax.MatchString(p.sha256) {
			d.at(n.get("sha256").value.Place, path+".sha256", "is not 64 hexadecimal digits")
			p.path = "" // no digest that was meant is checked, so the file is not loaded
		}
	}
	for i, item := range d.items(n, path, "grants", "a list") {
		grant, ok := item.value.(string)
		at := fmt.Sprintf("%s.grants[%d]", path, i)
		switch {
		case !ok:
			d.at(item.Place, at, "is %s; there are %s", item.describe(), strings.Join(abi.Grants, ", "))
		case !slices.Contains(abi.Grants, grant):
			d.at(item.Place, at, "there is no grant %q; there are %s", grant, strings.Join(abi.Grants, ", "))
		default:
			p.grants = append(p.grants, grant)
		}
	}
	return p
}

// only complains of members that an object does not have.
func (d *definer) only(n *node, path string, known ...string) {
	for _, m := range n.members {
		if slices.Contains(known, m.name) {
			continue
		}
		if d.Skip() {
			continue
		}
		if meant, ok := problem.Nearest(m.name, known); ok {
			d.at(m.key, problem.Join(path, m.name), "is not known here; did you mean %q?", meant)
			d.meant[n] = append(d.meant[n], meant)
			continue
		}
		d.at(m.key, problem.Join(path, m.name), "is not known here; there are %s", strings.Join(known, ", "))
	}
}

// misspelt reports whether a member that is missing was complained of already, under the name that it was given.
func (d *definer) misspelt(n *node, name string) bool { return slices.Contains(d.meant[n], name) }

func (d *definer) items(n *node, path, name, wanted string) []*node {
	m := n.get(name)
	if m == nil {
		return nil
	}
	if m.value.kind != list {
		d.at(m.value.Place, problem.Join(path, name), "is %s: %s is wanted", m.value.describe(), wanted)
	}
	return m.value.items
}

// text returns a member that has to be text and not empty.
func (d *definer) text(n *node, path, name string) string {
	m := n.get(name)
	if m == nil {
		if !d.misspelt(n, name) {
			d.at(n.Place, problem.Join(path, name), "is missing")
		}
		return ""
	}
	text, ok := m.value.value.(string)
	switch _, number := m.value.value.(json.Number); {
	case number:
		d.at(m.value.Place, problem.Join(path, name), "is a number, text is wanted: put it in quotes")
	case !ok:
		d.at(m.value.Place, problem.Join(path, name), "is %s, text is wanted", m.value.describe())
	case strings.TrimSpace(text) == "":
		d.at(m.value.Place, problem.Join(path, name), "is empty")
		return ""
	}
	return text
}

func stringOf(m *member) (string, bool) {
	if m == nil {
		return "", false
	}
	text, ok := m.value.value.(string)
	return text, ok
}

const maxPermalink = 64

var (
	permalinkSyntax = regexp.MustCompile(fmt.Sprintf(`^[a-z0-9][a-z0-9-]{0,%d}$`, maxPermalink-1))
	digestSyntax    = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
)

// Permalink makes a permalink of a connector's name: lower case, without accents, with a hyphen for each run of other
// characters. It is empty for a name without any letter a to z or digit.
func Permalink(name string) string {
	var b strings.Builder
	hyphen := false
	const longest = 4096 // of a name that is too long to be one, the beginning
	for _, r := range norm.NFKD.String(name[:min(len(name), longest)]) {
		r = unicode.ToLower(r)
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			if hyphen && b.Len() > 0 {
				b.WriteByte('-')
			}
			hyphen = false
			b.WriteRune(r)
		case !unicode.Is(unicode.Mn, r):
			hyphen = true
		}
	}
	permalink := b.String()
	return strings.TrimRight(permalink[:min(len(permalink), maxPermalink)], "-")
}
