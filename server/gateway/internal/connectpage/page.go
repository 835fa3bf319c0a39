package connectpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"html/template"
	"net/http"
	"time"
)

// Page is the content of a page. It has no script, and nothing that came with a query.
type Page struct {
	// Kind says what the page is about: list, ask, link, end, signin, problem, or the outcome of a consent. It begins the keys of its texts.
	Kind string
	// Problem is the key of the text of a problem.
	Problem string
	// Connector is the name of the connector, and Permalink its permalink.
	Connector, Permalink string
	// User is the user's name, Host that of the server at which users sign in, and ID that of the request.
	User, Host, ID string
	// Scopes has what the user is asked to allow, in words.
	Scopes []string
	// List has the connections of the user, or what there is of a tenant.
	List any
	// Admin reports whether the user is an administrator of a tenant.
	Admin bool
	// Path is that of this page. Back, SignIn and SignOut are URLs of pages of others, or "".
	Path, Back, SignIn, SignOut string

	// Writer is that of the page itself, for pages in List.
	*Writer
}

// view has what the template shows.
type view struct {
	*Page
	now time.Time
}

func (v view) Name() string      { return v.look.Name }
func (v view) HasLogo() bool     { return len(v.look.Logo) > 0 }
func (v view) Heading() string   { return v.Kind + ".title" }
func (view) Style() template.CSS { return template.CSS(pageCSS) } //nolint:gosec // it is part of this program

// T returns a text as HTML, and S as plain text. The names in it have their own direction.
func (p *Page) T(key string) template.HTML { return template.HTML(p.say(key, true, p.values()...)) } //nolint:gosec // say escapes
func (v view) S(key string) string         { return v.say(key, false, v.values()...) }

// WithDate returns a text with a date.
func (v view) WithDate(key string, t time.Time) string {
	return v.say(key, false, "date", v.Date(t, v.now))
}

func (p *Page) values() []string {
	return []string{"connector", p.Connector, "user", p.User, "host", p.Host, "id", p.ID}
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// Element is the script of the element keywright-connections.
//
//go:embed element.js
var Element string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// policy allows the style of the page, the logo, and forms and links to the gateway. No other site may show the page in a frame.
var policy = func() string {
	digest := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// Render returns the page, and sets its headers.
func (w *Writer) Render(header http.Header, p *Page, now time.Time) []byte {
	var b bytes.Buffer
	p.Writer = w
	_ = pageTemplate.Execute(&b, view{p, now}) // into memory, and a test shows all kinds
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	return b.Bytes()
}
