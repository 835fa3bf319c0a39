package console

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// A page is a page of the console. To add one, write a view and a template, and add both to pages.
type page struct {
	// pattern is the pattern of its requests for [http.ServeMux].
	pattern string
	// name is the page's name in the navigation, and path is its link. A page without a path is not in the navigation: it
	// belongs to the page with its name.
	name, path string
	// template is the file in the directory pages that defines main. Its data is the result of view.
	template string
	// right is the right that an operator needs for it. It is read if it is "".
	right login.Right
	// view returns what the page shows, without secrets. It may return a failure.
	view func(c *Console, s *State, r *http.Request) (any, error)
}

// pages has all pages, in the order of the navigation.
var pages = []page{
	{pattern: "GET /{$}", name: "Connectors", path: "/", template: "connectors.html", view: (*Console).connectors},
	{pattern: "GET /connectors/{permalink}", name: "Connectors", template: "connector.html", view: (*Console).connector},
	{pattern: "POST /connectors/{permalink}", name: "Connectors", template: "connector.html", right: login.Test, view: (*Console).test},
	{pattern: "GET /failures", name: "Failures", path: "/failures", template: "failures.html", view: (*Console).failures},
	{pattern: "GET /requests/{id}", name: "Failures", template: "request.html", view: (*Console).request},
	{pattern: "GET /connections", name: "Connections", path: "/connections", template: "connections.html", view: (*Console).connections},
	{pattern: "POST /connections", name: "Connections", template: "connections.html", right: login.People, view: (*Console).connections},
	{pattern: "GET /secrets", name: "Secrets", path: "/secrets", template: "secrets.html", view: (*Console).secrets},
	{pattern: "GET /plugins", name: "Plugins", path: "/plugins", template: "plugins.html", view: (*Console).plugins},
	{pattern: "GET /nodes", name: "Nodes", path: "/nodes", template: "nodes.html", view: (*Console).nodes},
	{pattern: "GET /configuration", name: "Configuration", path: "/configuration", template: "configuration.html", view: (*Console).configuration},
	{pattern: "GET /acts", name: "Acts", path: "/acts", template: "acts.html", view: (*Console).acts},
	{pattern: "GET /sessions", name: "Sessions", path: "/sessions", template: "sessions.html", view: (*Console).sessions},
}

var failedPage = page{name: "Error", template: "failed.html"}

type configurationView struct {
	*State
	// Secrets is the number of secrets that connectors name.
	Secrets int
}

func (c *Console) configuration(s *State, _ *http.Request) (any, error) {
	secrets := map[string]bool{}
	for _, connector := range s.Set.Connectors {
		for _, secret := range connector.Secrets() {
			secrets[secret] = true
		}
	}
	return &configurationView{s, len(secrets)}, nil
}

type sessionsView struct {
	identity.Config
	identity.Keys
	// Ends is the end of the certificate that callers see, or zero.
	Ends time.Time
}

func (c *Console) sessions(s *State, _ *http.Request) (any, error) {
	view := &sessionsView{Config: s.Set.Settings.User, Ends: s.CertificateEnds}
	if s.Sessions != nil {
		view.Keys = s.Sessions.Keys()
	}
	return view, nil
}

type pluginsView struct {
	Plugins []pluginRow
	// LockError says why keywright.lock cannot be read. It is empty if it can.
	LockError string
}

type pluginRow struct {
	host.PluginInfo
	// From says where the module comes from.
	From string
	// Locked is the entry of the plugin in keywright.lock, or nil.
	Locked *lock.Plugin
	// Same reports whether the module is the one of Locked.
	Same bool
	// Connectors has the permalinks of the first connectors with the type, and More is the number of others.
	Connectors []string
	More       int
	// Rights has its rights, by the things that it may use. The name of its type is no right.
	Rights lock.Capabilities
	Fuel   Fuel
}

// Limited reports whether the operator has given the plugin limits of its own.
func (p *pluginRow) Limited() bool { return p.Limits != host.PluginLimits{} }

func (c *Console) plugins(s *State, _ *http.Request) (any, error) {
	view := &pluginsView{}
	locked, err := lock.Read(filepath.Dir(s.File))
	if err != nil {
		view.LockError, locked = host.Printable(err.Error()), &lock.Lock{}
	}
	used := map[string][]string{}
	for _, connector := range s.Set.Connectors {
		d := connector.Definition()
		for _, auth := range d.Auth {
			if !slices.Contains(used[auth.Type], d.Permalink) {
				used[auth.Type] = append(used[auth.Type], d.Permalink)
			}
		}
	}
	for _, p := range s.Set.Host.Plugins() {
		row := pluginRow{PluginInfo: p, From: "a file", Rights: lock.Of(p)}
		delete(row.Rights, "type")
		delete(row.Rights, "aliases")
		for _, name := range append([]string{p.Type}, p.Aliases...) {
			row.Connectors = append(row.Connectors, used[name]...)
		}
		const maxNames = 20 // the maximum number of connectors that are named
		row.More = max(0, len(row.Connectors)-maxNames)
		row.Connectors = row.Connectors[:len(row.Connectors)-row.More]
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

// Problem is something that is wrong with a file.
type Problem struct {
	// Text has the place and the message.
	Text string
	// Line is the line of the file, in which an ellipsis stands for each value, because a value may be a credential. Indent has as many
	// blanks as there are characters before the place. Both are "" if there is no line to show.
	Line, Indent string
}

// ProblemsOf returns the problems of the file with a name for the page, with its lines as they are now.
func ProblemsOf(name string, all []connectors.Problem) (problems []Problem) {
	lines := map[string][]string{}
	for _, p := range all {
		found := Problem{Text: strings.TrimSpace(p.String())}
		file := cmp.Or(p.File, name)
		if _, ok := lines[file]; !ok {
			text, _ := os.ReadFile(file) // without it, there is no line
			lines[file] = strings.Split(string(text), "\n")
		}
		if p.Line >= 1 && p.Line <= len(lines[file]) && p.Column >= 1 {
			line, offset := problem.WithoutValues(lines[file][p.Line-1], p.Column-1)
			found.Line, found.Indent = host.Printable(line), strings.Repeat(" ", offset)
		}
		problems = append(problems, found)
	}
	return problems
}
