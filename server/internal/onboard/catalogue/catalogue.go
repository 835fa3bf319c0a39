// Package catalogue has the connectors of well-known products, with what a user has to fill in, where the product shows it, and
// the mistakes that people make. Each product is a file of apis, of our own writing, from what the product documents.
package catalogue

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/internal/problem"
)

//go:embed apis/*.yaml
var files embed.FS

var secretName = regexp.MustCompile(`get_secret\('([^']+)'\)`)

// An API is a product of the catalogue.
type API struct {
	// Name is the product's name in the catalogue, which is also the permalink of its connector.
	Name string
	// Title is the product's name for people, and Summary says in a sentence what the connector is for.
	Title, Summary string
	// Docs is the URL of the product's page about authentication.
	Docs string
	// Try is the method and path of a request that changes nothing.
	Try string
	// Body is the body of that request, in JSON. It is empty for most products.
	Body string `yaml:",omitempty"`
	// Connector has the members of the connector, as they stand in a file of connectors.
	Connector string
	// Fill lists what the user has to fill in.
	Fill []Fill
	// Places has the product's environments and regions, such as sandbox and eu, each with texts of the connector, mostly hosts, and
	// what stands there in their place. Shared lists texts with such a host in them, and URLs, that are the same in all places.
	Places map[string]map[string]string `yaml:",omitempty"`
	Shared []string                     `yaml:",omitempty"`
	// Rules lists what the product documents about its requests. The tests hold the connector to it.
	Rules []Rule
	// Mistakes lists what people get wrong.
	Mistakes []Mistake

	parsed parsed
}

// A Fill is a text to replace in the connector, or a secret to store: it has either Replace or Secret.
type Fill struct {
	// Secret is the name of the secret. It is the name of the product, or begins with it and a hyphen.
	Secret string `yaml:",omitempty"`
	// Replace is the text of the connector that the user's own value replaces.
	Replace string `yaml:",omitempty"`
	// What describes the value, Where says where the product shows it, and Example shows its shape. {secret} in Where is the
	// name of the secret, as a file in a command that makes it.
	What, Where, Example string
}

// A Rule has the demands of a page of the product on its requests.
type Rule struct {
	// Page is the URL of the page. If none could be read, Source says in its place where the rule is from, or that none was found.
	Page, Source string `yaml:",omitempty"`
	// Hosts lists the hosts of the API and of token endpoints. An asterisk stands for what users fill in.
	Hosts []string `yaml:",omitempty"`
	// UserAgent is "required" if the page asks for a header User-Agent, or else what that has to begin with.
	UserAgent string `yaml:"user_agent,omitempty"`
	// Accept lists the media types of which a request has to accept one, with asterisks as in Hosts.
	Accept []string `yaml:",omitempty"`
	// Version has the header of the API's version, with the versions that the page has. The header "path" is a part of the path.
	Version map[string][]string `yaml:",omitempty"`
	// ClientAuth lists how a client may authenticate at the token endpoint, in the words of OpenID Connect (Core, 9).
	ClientAuth []string `yaml:"client_auth,omitempty"`
	// Scope is the separator of scopes.
	Scope string `yaml:",omitempty"`
	// Lifetime is the longest lifetime of a JWT, in seconds.
	Lifetime int `yaml:"lifetime_seconds,omitempty"`
	// None lists the members of which the page says nothing that a request can break, or of which nothing is known.
	None []string `yaml:",omitempty"`
}

// A Mistake is something that people get wrong.
type Mistake struct {
	// Do describes the mistake.
	Do string
	// See describes what the user sees then, such as the status and the message of the API.
	See string
}

// parsed has the members of a connector that the catalogue itself needs.
type parsed struct {
	Name, URL string
	Auth      yaml.Node
}

// AuthType returns the auth type of the connector, the first of several.
func (a *API) AuthType() string {
	n, auth := &a.parsed.Auth, struct{ Type string }{}
	if n.Kind == yaml.SequenceNode {
		n = n.Content[0]
	}
	_ = n.Decode(&auth) // the connector has been checked
	return auth.Type
}

// Request returns the method and the path of Try.
func (a *API) Request() (method, path string) {
	method, path, _ = strings.Cut(a.Try, " ")
	return method, path
}

// All returns the products, by their names. The caller may not change them.
func All() ([]*API, error) { return all() }

var all = sync.OnceValues(func() ([]*API, error) { return read(files) })

// Find returns a product by its name. The error for an unknown name has the one that was probably meant.
func Find(name string) (*API, error) {
	apis, err := All()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(apis))
	for i, a := range apis {
		if names[i] = a.Name; a.Name == name {
			return a, nil
		}
	}
	if suggestion, ok := problem.Nearest(name, names); ok {
		return nil, fmt.Errorf("the catalogue has no API %s: did you mean %q?", problem.Quote(name), suggestion)
	}
	if like := containing(apis, name); len(like) > 0 {
		return nil, fmt.Errorf("the catalogue has no API %s: there is %s", problem.Quote(name), strings.Join(like, ", "))
	}
	return nil, fmt.Errorf("the catalogue has no API %s: `keywright connector list` lists those that it has, and docs/auth-types.md has an example of each auth type for any other API",
		problem.Quote(name))
}

// At returns the first product whose API has the host of a URL, or nil.
func At(text string) *API {
	apis, err := All()
	u, wrong := url.Parse(text)
	if err != nil || wrong != nil {
		return nil
	}
	for _, a := range apis {
		if apiURL, err := url.Parse(a.parsed.URL); err == nil && apiURL.Host != "" && apiURL.Host == u.Host {
			return a
		}
	}
	return nil
}

func containing(apis []*API, text string) (names []string) {
	text = strings.ToLower(text)
	for _, a := range apis {
		if len(text) > 1 && (strings.Contains(a.Name, text) || strings.Contains(strings.ToLower(a.Title), text)) {
			names = append(names, a.Name)
		}
	}
	return names
}

// read reads the files of a catalogue. The tests find what is missing in one.
func read(files fs.FS) ([]*API, error) {
	names, err := fs.Glob(files, "apis/*.yaml")
	if err != nil {
		return nil, err
	}
	var apis []*API
	var errs []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		a := &API{}
		if err := yaml.Load(text, a, yaml.WithKnownFields()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err := yaml.Load([]byte(a.Connector), &a.parsed); err != nil {
			errs = append(errs, fmt.Errorf("%s: connector: %w", name, err))
		}
		apis = append(apis, a)
	}
	slices.SortFunc(apis, func(a, b *API) int { return cmp.Compare(a.Name, b.Name) })
	return apis, errors.Join(errs...)
}

// OfCallers returns the path of Try if callers of the gateway may use it as the connector is, and otherwise "".
func (a *API) OfCallers() string {
	method, path := a.Request()
	if method != "GET" || a.Body != "" || strings.ContainsAny(path, "{?") || strings.Contains(a.Connector, "\npaths:") {
		return ""
	}
	return path
}

// NeedsState reports whether the connector needs a store of state, because it has tokens that may be used once.
func (a *API) NeedsState() bool {
	return a.AuthType() == "oauth_refresh_token" || a.AuthType() == "oauth_authorization_code"
}

// Arguments returns the arguments of keywright request that send the request of Try, as a shell takes them.
func (a *API) Arguments() string {
	method, path := a.Request()
	arguments := a.Name + " " + path
	if strings.ContainsAny(path, "?&{}$") {
		arguments = a.Name + " '" + path + "'"
	}
	if a.Body != "" {
		arguments += " -H 'Content-Type: application/json' -d '" + a.Body + "'"
	} else if method != "GET" {
		arguments += " -X " + method
	}
	return arguments
}
