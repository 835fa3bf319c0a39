package console

import "net/http"

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
