package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
)

// Consent configures the paths /connect and below, at which users connect their accounts. Its zero value is valid. In
// connectors.yaml it is the member consent of gateway.
type Consent struct {
	// URL is the origin at which browsers reach the gateway, such as https://gateway.example.com. Authorization servers send browsers back
	// to /connect/callback/PERMALINK there. Without it, users can connect at localhost and loopback addresses only.
	URL string `file:",url"`
	// ReturnTo is the page to which a browser goes after a consent. Without it, the gateway shows a page of its own. No
	// request can name another one.
	ReturnTo string `file:",url"`
	// PlainHTTP allows all URLs here to be of plain http, inside a network whose members are trusted with what users connect.
	PlainHTTP bool
	// Name is the name of who asks, as users know it, such as Acme. Without it, pages say "This app".
	Name string
	// Logo is the file of a picture of who asks, at most 64 KiB: PNG, or SVG that has no script and loads nothing.
	Logo string `file:",path"`
	// SignIn is the page where users sign in, with {back} in its query for the URL to which they come back, such as
	// https://app.example.com/login?back={back}. Browsers without a session go there.
	SignIn string `file:",url"`
	// SignOut is the page where users sign out. Without it, the pages have no such link.
	SignOut string `file:",url"`
	// Scopes has words for users for each scope that connectors ask for, such as read orders for orders.read.
	Scopes map[string]string
	// Languages is a directory with the texts of the pages in further languages, each in a file such as fr.json. It may change those in
	// English and German, too.
	Languages string `file:",path"`
	// TenantAdmin is the claim of sessions, CLAIM=VALUE such as role=admin, whose users may see and end the connections of their tenant, and
	// give what connectors ask of it, at /connect/tenant. Without it, nobody may.
	TenantAdmin string
	// Links allows links with which users connect an account without a session.
	Links bool `default:"false"`

	look *connectpage.Look
}

// Check reads the files of c, and returns all problems, nil if there are none. The path of a problem names a member as in
// connectors.yaml: url, return_to. allowHTTP allows plain http, as PlainHTTP does; without them, http is valid for localhost and loopback
// addresses only.
func (c *Consent) Check(allowHTTP bool) (all []host.Problem) {
	for _, m := range []struct{ path, text, example string }{
		{"url", c.URL, "https://gateway.example.com"},
		{"return_to", c.ReturnTo, "https://app.example.com/settings"},
		{"sign_in", strings.ReplaceAll(c.SignIn, back, "x"), "https://app.example.com/login?back={back}"},
		{"sign_out", c.SignOut, "https://app.example.com/logout"},
	} {
		if m.text == "" {
			continue
		}
		u, err := urlcheck.Rule{AllowHTTP: true, Example: m.example}.Parse(m.text)
		switch {
		case err != nil:
			all = append(all, host.Problem{Path: m.path, Message: err.Error()})
		case u.Scheme == "http" && !allowHTTP && !c.PlainHTTP && !urlcheck.Loopback(u.Host):
			all = append(all, host.Problem{Path: m.path, Message: "is plain http, with which anybody on the way can take over what users connect: use https, or plain_http: true"})
		case m.path == "url" && u.Scheme+"://"+u.Host != m.text:
			all = append(all, host.Problem{Path: m.path, Message: "is not an origin: scheme and host, without a slash at the end, such as " + m.example})
		}
	}
	if claim, value, _ := strings.Cut(c.TenantAdmin, "="); c.TenantAdmin != "" && (claim == "" || value == "") {
		all = append(all, host.Problem{Path: "tenant_admin", Message: "is not CLAIM=VALUE, such as role=admin"})
	}
	if _, query, _ := strings.Cut(c.SignIn, "?"); c.SignIn != "" && !strings.Contains(query, back) {
		all = append(all, host.Problem{Path: "sign_in", Message: "has no {back} in its query, so that nobody comes back: write it as in https://app.example.com/login?back={back}"})
	}
	var wrong map[string]error
	c.look, wrong = connectpage.NewLook(c.Name, c.Logo, c.Languages)
	for path, err := range wrong {
		all = append(all, host.Problem{Path: path, Message: err.Error()})
	}
	return all
}

// Read returns the paths of the files that Check has read, and says which texts the files of Languages do not have.
func (c *Consent) Read() (files, notices []string) {
	if c.look == nil {
		return nil, nil
	}
	return c.look.Files, c.look.Notices
}

// back stands for the URL to which users come back, in SignIn.
const back = "{back}"

// originOf returns the origin at which the browser reaches the gateway: that of the configuration, or of a request to a loopback
// address. The header Host does not count otherwise, because it does not say whether a proxy has TLS. Then it returns "".
func originOf(c *Consent, r *http.Request) string {
	switch {
	case c.URL != "" || !urlcheck.Loopback(r.Host):
		return c.URL
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

var errNoOrigin = &httpProblem{
	status: http.StatusInternalServerError, kind: "no-consent-url", detail: "this gateway is not configured for connecting accounts",
	cause: errors.New("gateway.consent.url is missing: the URL at which browsers reach the gateway, to which authorization servers send them back"),
}
