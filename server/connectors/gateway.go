package connectors

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// members of a connector, in the order in which problems list them.
var members = []string{
	"name", "permalink", "url", "method", "paths", "headers", "query", "auth", "request", "response", "timeout", "limits",
}

// shape reads what a connector says of its requests and answers. What the values may be is for package gateway to say.
func (d *definer) shape(c *definition, path string) {
	n, g := c.member, &c.gateway
	g.Methods = d.texts(n, path, "method")
	g.Paths = d.texts(n, path, "paths")
	g.Headers = d.parameters(n, path, "headers")
	g.Query = d.parameters(n, path, "query")
	g.Request = d.optional(n, path, "request")
	if r := d.object(n, path, "response"); r != nil {
		at := path + ".response"
		d.only(r, at, "filter", "records", "body", "content_type")
		g.Response = gateway.Response{
			Filter: d.optional(r, at, "filter"), Records: d.optional(r, at, "records"), Body: d.optional(r, at, "body"), ContentType: d.optional(r, at, "content_type"),
		}
	}
	g.Timeout = d.duration(n, path, "timeout")
	if l := d.object(n, path, "limits"); l != nil {
		at := path + ".limits"
		d.only(l, at, "per_user", "total", "request_bytes", "response_bytes", "concurrent")
		g.Limits = gateway.Limits{
			PerUser: d.number(l, at, "per_user"), Total: d.number(l, at, "total"), RequestBytes: int64(d.whole(l, at, "request_bytes")),
			ResponseBytes: int64(d.whole(l, at, "response_bytes")), Concurrent: int(d.whole(l, at, "concurrent")),
		}
	}
}

// optional returns a member that has to be text, if it is there.
func (d *definer) optional(n *node, path, name string) string {
	if n.get(name) == nil {
		return ""
	}
	return d.text(n, path, name)
}

// object returns a member that has to be an object, or nil.
func (d *definer) object(n *node, path, name string) *node {
	m := n.get(name)
	if m == nil {
		return nil
	}
	if m.value.kind != object {
		d.at(m.value.Place, problem.Join(path, name), "is %s: an object is wanted", m.value.describe())
		return nil
	}
	return m.value
}

// texts returns a text, or a list of them.
func (d *definer) texts(n *node, path, name string) []string {
	m := n.get(name)
	if m == nil {
		return nil
	}
	if m.value.kind == scalar {
		if text := d.text(n, path, name); text != "" {
			return []string{text}
		}
		return nil
	}
	var all []string
	for i, item := range d.items(n, path, name, "a text, or a list of texts,") {
		text, ok := item.value.(string)
		if !ok {
			d.at(item.Place, fmt.Sprintf("%s.%s[%d]", path, name, i), "is %s, text is wanted", item.describe())
			continue
		}
		all = append(all, text)
	}
	return all
}

func (d *definer) parameters(n *node, path, name string) []gateway.Parameter {
	var all []gateway.Parameter
	for i, item := range d.items(n, path, name, "a list, each of whose items has name and value,") {
		at := fmt.Sprintf("%s.%s[%d]", path, name, i)
		if item.kind != object {
			d.at(item.Place, at, "is %s: an object with name and value is wanted", item.describe())
			all = append(all, gateway.Parameter{Name: "unknown-" + strconv.Itoa(i)}) // so that the others keep their index
			continue
		}
		d.only(item, at, "name", "value", "overridable")
		p := gateway.Parameter{Name: d.text(item, at, "name")}
		if m := item.get("value"); m != nil && m.value.value == "" {
			p.Value = "" // an empty value may be meant
		} else {
			p.Value = d.text(item, at, "value")
		}
		p.Overridable = d.yes(item, at, "overridable", false)
		all = append(all, p)
	}
	return all
}

// number returns a member that has to be a number, if it is there.
func (d *definer) number(n *node, path, name string) float64 {
	m := n.get(name)
	if m == nil {
		return 0
	}
	text, ok := m.value.value.(json.Number)
	value, err := text.Float64()
	if !ok || err != nil || value <= 0 {
		d.at(m.value.Place, problem.Join(path, name), "is not a number above 0")
		return 0
	}
	return value
}

func (d *definer) whole(n *node, path, name string) float64 {
	value := d.number(n, path, name)
	if value != float64(int64(value)) || value > 1<<40 {
		d.at(n.get(name).value.Place, problem.Join(path, name), "is not a whole number, or too large")
		return 0
	}
	return value
}

// duration returns a member such as 15s or 1m30s.
func (d *definer) duration(n *node, path, name string) time.Duration {
	m := n.get(name)
	if m == nil {
		return 0
	}
	text, _ := m.value.value.(string)
	value, err := time.ParseDuration(text)
	if err != nil || value <= 0 || value > time.Hour {
		d.at(m.value.Place, problem.Join(path, name), "is not a time above 0 and up to an hour: write 15s, or 1m30s")
		return 0
	}
	return value
}

// settings reads the member gateway.
func (d *definer) settings(root *node) (s Settings) {
	if root.kind != object {
		return s
	}
	n := d.object(root, "", "gateway")
	if n == nil {
		return s
	}
	d.only(n, "gateway", "hosts", "origins", "user", "tls", "traces", "access_log")
	s.Hosts, s.Origins = d.texts(n, "gateway", "hosts"), d.texts(n, "gateway", "origins")
	for i, host := range s.Hosts {
		if strings.ContainsAny(host, "/ @*") {
			d.at(d.item(n, "hosts", i), fmt.Sprintf("gateway.hosts[%d]", i), "is not the name of a host, such as gateway.example.com or localhost:8080")
		}
	}
	for i, origin := range s.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(origin, "*") {
			d.at(d.item(n, "origins", i), fmt.Sprintf("gateway.origins[%d]", i), "is not an origin: scheme and host, without a slash at the end, such as https://app.example.com")
		}
	}
	s.User, s.AccessLog = d.identity(n), d.yes(n, "gateway", "access_log", false)
	if s.Traces = d.optional(n, "gateway", "traces"); s.Traces != "" {
		if u, err := (urlcheck.Rule{AllowHTTP: true}).Parse(s.Traces); err != nil || u.Path == "" {
			d.at(n.get("traces").value.Place, "gateway.traces", "is not the URL of a collector, with its path, such as http://localhost:4318/v1/traces")
		}
	}
	if t := d.object(n, "gateway", "tls"); t != nil {
		d.only(t, "gateway.tls", "cert", "key")
		s.TLS = TLS{Cert: d.file(t, "gateway.tls", "cert"), Key: d.file(t, "gateway.tls", "key")}
	}
	return s
}

// identity reads who the user of a request is. A path of a file begins at this one's directory.
func (d *definer) identity(n *node) (c identity.Config) {
	u := d.object(n, "gateway", "user")
	if u == nil {
		return c
	}
	const path = "gateway.user"
	d.only(u, path, "type", "jwt", "header")
	c.Mode = d.text(u, path, "type")
	if j := d.object(u, path, "jwt"); j != nil {
		at := path + ".jwt"
		d.only(j, at, "bearer", "cookie", "jwks_file", "jwks_url", "issuer", "audiences", "algorithms", "claims")
		c.JWT = &identity.JWT{
			Bearer: d.yes(j, at, "bearer", j.get("cookie") == nil), Cookie: d.optional(j, at, "cookie"), JWKSFile: d.optionalFile(j, at, "jwks_file"),
			JWKSURL: d.optional(j, at, "jwks_url"), Issuer: d.optional(j, at, "issuer"), Audiences: d.texts(j, at, "audiences"), Algorithms: d.texts(j, at, "algorithms"),
		}
		if claims := d.object(j, at, "claims"); claims != nil {
			d.only(claims, at+".claims", fieldsOfUser...)
			c.JWT.Claims = identity.Claims(d.userFields(claims, at+".claims"))
		}
	}
	if h := d.object(u, path, "header"); h != nil {
		at := path + ".header"
		d.only(h, at, slices.Concat([]string{"proxies", "required"}, fieldsOfUser)...)
		fields := d.userFields(h, at)
		c.Header = &identity.Header{
			Proxies: d.texts(h, at, "proxies"), Required: d.yes(h, at, "required", true), ID: fields.ID, Email: fields.Email,
			Username: fields.Username, FirstName: fields.FirstName, LastName: fields.LastName, TenantID: fields.TenantID,
		}
	}
	for _, p := range c.Check(d.allowHTTP) {
		n, where, _ := u.locate(p.Path)
		if len(d.meant[n]) == 0 { // else it is the object that has what is missing under another name
			d.at(where, path+"."+p.Path, "%s", p.Message)
		}
	}
	return c
}

// userFields are names of what becomes the user.
type userFields struct{ ID, Email, Username, FirstName, LastName, TenantID string }

// fieldsOfUser are the members that name them.
var fieldsOfUser = []string{"id", "email", "username", "first_name", "last_name", "tenant_id"}

func (d *definer) userFields(n *node, path string) userFields {
	return userFields{
		d.optional(n, path, "id"), d.optional(n, path, "email"), d.optional(n, path, "username"),
		d.optional(n, path, "first_name"), d.optional(n, path, "last_name"), d.optional(n, path, "tenant_id"),
	}
}

// yes returns a member that is true or false.
func (d *definer) yes(n *node, path, name string, absent bool) bool {
	m := n.get(name)
	if m == nil {
		return absent
	}
	yes, ok := m.value.value.(bool)
	if !ok {
		d.at(m.value.Place, problem.Join(path, name), "is %s: true or false is wanted", m.value.describe())
	}
	return yes
}

// item is the place of an item of a member that texts reads.
func (d *definer) item(n *node, name string, i int) problem.Place {
	if v := n.get(name).value; v.kind == list {
		return v.items[i].Place
	}
	return n.get(name).value.Place
}
