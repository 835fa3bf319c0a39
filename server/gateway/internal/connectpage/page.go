package connectpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"html/template"
	"net/http"
)

// Page is the content of a page. It has no script, and nothing that came with a query.
type Page struct {
	Heading Text
	// Good reports whether the page says that something was done, and Alert whether it says that something failed.
	Good, Alert bool
	// User says who is signed in. The zero Text says nothing. SignOut is the URL at which they sign out, or "".
	User    *Text
	SignOut string
	// Scopes has what the user is asked to allow, in words.
	Scopes []string
	Lines  []Text
	Rows   []Row
	// Buttons are links and forms, in order.
	Buttons []Button
	// Request names the request in the log.
	Request *Text
}

// Row is a connector in a list.
type Row struct {
	Name string
	// State says whether the user has connected an account, and Advice what to do. Mood is good, bad or soft.
	State   Text
	Mood    string
	Advice  *Text
	Account string
	Scopes  []string
	Times   []Text
	Buttons []Button
}

// Button is a link, or a form that is sent with POST.
type Button struct {
	Label Text
	// Of continues the label for those who do not see where the button is.
	Of   string
	Path string
	// Main reports whether most users want this one.
	Main, Post bool
}

// view is a page in a language.
type view struct {
	*Page
	*Writer
	Style template.CSS
}

func (view) Dir() Text          { return Say("dir") }
func (view) May() Text          { return Say("ask.may") }
func (view) RowMay() Text       { return Say("may") }
func (view) SignOutLabel() Text { return Say("button.sign_out") }
func (v view) Logo() bool       { return len(v.look.Logo) > 0 }
func (v view) Name() string     { return v.look.Name }

// With returns the data of the template of a button.
func (v view) With(b Button) any {
	return struct {
		View   view
		Button Button
	}{v, b}
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed element.js
var element []byte

// Element returns the script of the element keywright-connections.
func Element() []byte { return element }

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// policy allows the style of the page, the logo, and forms and links to the gateway. No other site may show the page in a frame.
var policy = func() string {
	digest := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// Render returns the page, and sets its headers.
func (w *Writer) Render(header http.Header, p *Page) []byte {
	var b bytes.Buffer
	_ = pageTemplate.Execute(&b, view{p, w, template.CSS(pageCSS)}) //nolint:gosec // the style is part of this program
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	return b.Bytes()
}
