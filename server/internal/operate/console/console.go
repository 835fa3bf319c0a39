// Package console shows operators what a gateway does: pages on the administration listener. They are read-only but for the
// operator's test of a connector. All of them can be read without scripts.
package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/klauspost/compress/gzhttp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/difference"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/remedy"
)

// Config configures [New].
type Config struct {
	// Version is the version of the program, for people.
	Version string
	// Started is the time at which the program started.
	Started time.Time
	// Clock returns the time.
	Clock  func() time.Time
	Logger *slog.Logger
	// Gateway serves the callers.
	Gateway *gateway.Gateway
	// View returns the figures of all nodes, and a note if they are of this process alone.
	View func(ctx context.Context) (view *activity.View, note string)
	// Find returns the failure with a request id, or nil if there is none.
	Find func(ctx context.Context, id string) (*activity.Failure, error)
	// Connections has the connections of users, and Acts what operators do.
	Connections *connections.Connections
	Acts        *acts.Log
	// State returns what is in use now. It is called for each page, concurrently.
	State func() State
	// Fuel returns the fuel that the runs of an auth type used. If it is nil, the console does not show it.
	Fuel func(authType string) Fuel
}

// Fuel is the fuel of the runs of a plugin since the program started.
type Fuel struct {
	Runs uint64
	// Median is at least the median, and Worst is the most fuel of a run.
	Median, Worst int64
}

// State holds the configuration in use.
type State struct {
	// File is the path of the file with the connectors.
	File string
	// Set holds the connectors in use. Its host may be closed while a page is made.
	Set *connectors.Set
	// Used is the time at which Set was put in use.
	Used time.Time
	// Changed says what is different from the configuration before, or is nil if there was none.
	Changed *difference.Document
	// Refused is the time at which the file on disk was first refused, or zero if the file is in use. Problems has what is wrong
	// with it, and is not empty then. Waiting says what would be different with it, or is nil if that is not known.
	Refused  time.Time
	Problems []Problem
	Waiting  *difference.Document
	// Unrecorded says why the audit log cannot be written. It is empty if it can be, or if there is none.
	Unrecorded string
	// Sessions finds the users of requests.
	Sessions *identity.Identifier
	// CertificateEnds is the end of the certificate that callers see, or zero for plain HTTP.
	CertificateEnds time.Time

	// view has what the nodes know, and note what they lack.
	view *activity.View
	note string
}

// Console makes the pages. It is safe for concurrent use.
type Console struct {
	config    Config
	templates map[string]*template.Template
	// conditions has the conditions of secrets.
	conditions *lru.Cache[string, found]
}

//go:embed pages
var files embed.FS

// New returns the console.
func New(c Config) *Console {
	conditions, _ := lru.New[string, found](10_000) // the only error is for sizes below one
	console := &Console{config: c, templates: map[string]*template.Template{}, conditions: conditions}
	layout := template.Must(template.New("layout.html").Funcs(functions(c.Clock)).ParseFS(files, "pages/layout.html"))
	for _, p := range slices.Concat(pages, []page{failedPage}) {
		console.templates[p.template] = template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+p.template))
	}
	return console
}

// Routes returns the handlers of the console, by their patterns for [http.ServeMux].
func (c *Console) Routes() map[string]http.Handler {
	routes := map[string]http.Handler{
		"GET /console.css": file("console.css", "text/css; charset=utf-8"),
		"GET /console.js":  file("console.js", "text/javascript; charset=utf-8"),
	}
	for _, p := range pages {
		routes[p.pattern] = protected(c.handler(&p))
	}
	routes["GET /requests"] = protected(http.HandlerFunc(findRequest))
	return routes
}

type failure struct {
	status      int
	title, text string
}

// Title returns the heading of the page.
func (f *failure) Title() string { return cmp.Or(f.title, "This did not work") }

func (f *failure) Error() string { return f.text }

func (c *Console) handler(p *page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := c.config.State()
		state.view, state.note = c.config.View(r.Context())
		o, right := login.OperatorOf(r.Context()), cmp.Or(p.right, login.Read)
		state.view.Hide(o.Sees)
		var view any
		var err error = &failure{http.StatusForbidden, "Not allowed", fmt.Sprintf("the token %s has not the right %s", o.Name, right)}
		if o.Allows(right) {
			view, err = p.view(c, &state, r)
		}
		status, shownPage := http.StatusOK, p
		if err != nil {
			failed, ok := errors.AsType[*failure](err)
			if !ok {
				failed = &failure{http.StatusInternalServerError, "", "the page cannot be shown, and the log says why"}
				c.config.Logger.ErrorContext(r.Context(), "a page of the console cannot be shown", slog.String("page", p.name), slog.Any("error", err))
			}
			status, shownPage, view = failed.status, &failedPage, failed
		}
		c.write(w, status, shownPage, c.layout(&state, r, shownPage, view))
	})
}

func (c *Console) write(w http.ResponseWriter, status int, p *page, data *layout) {
	var b bytes.Buffer
	if err := c.templates[p.template].ExecuteTemplate(&b, "layout.html", data); err != nil {
		c.config.Logger.Error("a page of the console cannot be made", slog.String("page", p.name), slog.Any("error", err))
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// file returns the handler of a file that pages refer to.
func file(name, contentType string) http.Handler {
	return protected(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		http.ServeFileFS(w, r, files, "pages/"+name)
	}))
}

// policy allows a page its own style and script, requests and forms to its own origin, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// protected adds the policy, and refuses requests of other sites' pages that would change something. The listener adds the other headers
// that keep other sites from reading, framing or guessing a page.
func protected(h http.Handler) http.Handler {
	h = gzhttp.GzipHandler(http.NewCrossOriginProtection().Handler(h))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		h.ServeHTTP(w, r)
	})
}

type layout struct {
	// Title is the name of the page.
	Title string
	// Navigation has the links to all pages.
	Navigation []link
	Config     Config
	State      *State
	// View has what the nodes know, and Note what they lack.
	View *activity.View
	Note string
	// Login reports whether the operator has logged in, and can log out.
	Login bool
	// Main is the data of the page.
	Main any
}

type link struct {
	Name, Path string
	// Here reports whether this is the page that is shown.
	Here bool
}

// layout returns what every page shows, with a view of a page.
func (c *Console) layout(s *State, r *http.Request, p *page, view any) *layout {
	l := &layout{Title: p.name, Config: c.config, State: s, View: s.view, Note: s.note, Login: login.HasSession(r), Main: view}
	for _, navPage := range pages {
		if navPage.path != "" {
			l.Navigation = append(l.Navigation, link{navPage.name, navPage.path, navPage.name == p.name})
		}
	}
	return l
}

func functions(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"lasts": remedy.Lasts, "took": activity.Took, "count": count, "minuteBars": minuteBars, "draw": draw,
		"since":   func(t time.Time) time.Duration { return now().Sub(t) },
		"until":   func(t time.Time) time.Duration { return t.Sub(now()) },
		"time":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":   func(t time.Time) string { return clock(now(), t) },
		"seconds": func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) },
		"ceil":    math.Ceil, "join": strings.Join, "printable": host.Printable, "phrase": http.StatusText,
		"first": first[string], "firstChanged": first[difference.Connector], "firstMembers": first[difference.Member],
	}
}

func first[T any](all []T) []T { return all[:min(len(all), 100)] }

// count returns a whole number with a thin space between each three digits.
func count(n any) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u2009')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
