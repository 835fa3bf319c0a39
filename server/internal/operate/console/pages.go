package console

import (
	"net/http"
	"time"

	"github.com/keywright/keywright/server/identity"
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
	// view returns what the page shows, without secrets. It may return a failure.
	view func(c *Console, s *State, r *http.Request) (any, error)
}

// pages has all pages, in the order of the navigation.
var pages = []page{
	{pattern: "GET /{$}", name: "Connectors", path: "/", template: "connectors.html", view: (*Console).connectors},
	{pattern: "GET /connectors/{permalink}", name: "Connectors", template: "connector.html", view: (*Console).connector},
	{pattern: "POST /connectors/{permalink}", name: "Connectors", template: "connector.html", view: (*Console).test},
	{pattern: "GET /plugins", name: "Plugins", path: "/plugins", template: "plugins.html", view: (*Console).plugins},
	{pattern: "GET /secrets", name: "Secrets", path: "/secrets", template: "secrets.html", view: (*Console).secrets},
	{pattern: "GET /grants", name: "Grants", path: "/grants", template: "grants.html", view: (*Console).grants},
	{pattern: "POST /grants", name: "Grants", template: "grants.html", view: (*Console).grants},
	{pattern: "GET /configuration", name: "Configuration", path: "/configuration", template: "configuration.html", view: (*Console).configuration},
	{pattern: "GET /sessions", name: "Sessions", path: "/sessions", template: "sessions.html", view: (*Console).sessions},
}

// failedPage shows the text of a failure.
var failedPage = page{name: "Error", template: "failed.html"}

// names returns the templates of all pages.
func names() (all []string) {
	for _, p := range pages {
		all = append(all, p.template)
	}
	return all
}

// configurationView is the page of the configuration.
type configurationView struct {
	*State
	// Secrets is the number of secrets that connectors name.
	Secrets int
}

// configuration returns the view of the configuration.
func (c *Console) configuration(s *State, _ *http.Request) (any, error) {
	secrets := map[string]bool{}
	for _, connector := range s.Set.Connectors {
		for _, secret := range connector.Secrets() {
			secrets[secret] = true
		}
	}
	return &configurationView{s, len(secrets)}, nil
}

// sessionsView is the page of the sessions of users.
type sessionsView struct {
	identity.Config
	identity.Keys
	// Ends is the end of the certificate that callers see, or zero.
	Ends time.Time
}

// sessions returns the view of the sessions.
func (c *Console) sessions(s *State, _ *http.Request) (any, error) {
	view := &sessionsView{Config: s.Set.Settings.User, Ends: s.CertificateEnds}
	if s.Sessions != nil {
		view.Keys = s.Sessions.Keys()
	}
	return view, nil
}
