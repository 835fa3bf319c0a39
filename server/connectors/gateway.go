package connectors

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// settings checks the member gateway and returns it.
func (d *definer) settings(root *node) Settings {
	m, s := root.get("gateway"), &d.file.Gateway
	if m == nil {
		return *s
	}
	n := m.value
	for i, host := range s.Hosts {
		if strings.ContainsAny(host, "/ @*") {
			d.report(n.item("hosts", i), fmt.Sprintf("gateway.hosts[%d]", i), "%s", texts["host"].wrong())
		}
	}
	for i, origin := range s.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(origin, "*") {
			d.report(n.item("origins", i), fmt.Sprintf("gateway.origins[%d]", i), "%s", texts["origin"].wrong())
		}
	}
	if s.Traces != "" {
		if u, err := (urlcheck.Rule{AllowHTTP: true}).Parse(s.Traces); err != nil || u.Path == "" {
			d.report(n.get("traces").value.Place, "gateway.traces", "%s", texts["collector"].wrong())
		}
	}
	if audit := n.get("audit"); audit != nil && s.Audit != nil {
		switch {
		case s.Audit.Stdout == (s.Audit.File != ""):
			d.report(audit.value.Place, "gateway.audit", "has either file, the path of a file, or stdout: true")
		case s.Audit.OnError != "" && !slices.Contains(rules["gateway.audit.on_error"].values, s.Audit.OnError):
			d.report(audit.value.get("on_error").value.Place, "gateway.audit.on_error", "is neither %s nor %s", AuditRefuse, AuditContinue)
		}
	}
	if s.AccessLogUsers && !s.AccessLog {
		d.report(n.get("access_log_users").value.Place, "gateway.access_log_users", "has no effect without access_log: true")
	}
	if consent := n.get("consent"); consent != nil {
		for _, p := range s.Consent.Check(d.egress.AllowHTTP) {
			d.report(consent.value.get(p.Path).value.Place, "gateway.consent."+p.Path, "%s", p.Message)
		}
		if u, err := url.Parse(s.Consent.URL); err == nil && u.Host != "" && len(s.Hosts) > 0 && !slices.ContainsFunc(s.Hosts, func(name string) bool {
			return strings.EqualFold(name, u.Host) || strings.EqualFold(name, u.Hostname())
		}) {
			d.report(consent.value.get("url").value.Place, "gateway.consent.url", "is at a host that gateway.hosts does not have, so that the gateway would refuse browsers that come back: add %s to hosts", u.Host)
		}
	}
	if user := n.get("user"); user != nil && user.value.kind == object {
		d.identity(user.value)
	}
	return *s
}

// identity sets the defaults of the member gateway.user and checks it.
func (d *definer) identity(n *node) {
	c := &d.file.Gateway.User
	if c.JWT != nil {
		if jwt := n.get("jwt").value; jwt.get("bearer") == nil {
			c.JWT.Bearer = jwt.get("cookie") == nil
		}
	}
	if c.Header != nil && n.get("header").value.get("required") == nil {
		c.Header.Required = true
	}
	for _, p := range c.Check(d.egress.AllowsHTTP) {
		n, where, _ := n.locate(p.Path)
		if len(d.suggestions[n]) == 0 { // otherwise the object may have the missing member under a misspelt name
			d.report(where, "gateway.user."+p.Path, "%s", p.Message)
		}
	}
}

// item returns the place of item i of a member that is a text or a list of texts.
func (n *node) item(name string, i int) problem.Place {
	if v := n.get(name).value; v.kind == list {
		return v.items[i].Place
	}
	return n.get(name).value.Place
}
