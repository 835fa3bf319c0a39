package gateway

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
)

// outcomeSyntax is that of the cookie for the page /connect/PERMALINK/done: the permalink, what the page says (connected, denied, disconnected, or
// the kind of a problem), and the request. It is not sealed: it holds no secret, and the page looks itself whether the user is connected.
var outcomeSyntax = regexp.MustCompile(`^([a-z0-9-]{1,64})\.([a-z-]{1,32})\.([0-9a-f]{32})$`)

const outcomeCookie, outcomeLifetime = "keywright-done", 60 // seconds

// end sends the browser to the page that says what became of a consent, or of a connection.
func (v *visit) end(connector *running, outcome string) error {
	permalink := connector.definition.Permalink
	v.setCookie(outcomeCookie, permalink+"."+outcome+"."+v.event.ID, outcomeLifetime)
	return v.redirect(http.StatusSeeOther, "/connect/"+permalink+"/done")
}

// endFailed is end after a failure. For operators, the request has failed with the status of the problem, and not been redirected.
func (v *visit) endFailed(connector *running, err error) error {
	p := v.problem(v.r.Context(), err)
	v.report(v.r.Context(), p)
	err = v.end(connector, p.kind)
	v.event.Status = p.status
	return err
}

// done says what became of a consent. Without the cookie, or in another tab after another consent, it says what is so now.
func (v *visit) done(connector *running) error {
	leave, err := v.gateway.callbacks.enter("")
	if err != nil {
		return err
	}
	defer leave()
	outcome, id := "", ""
	if parts := outcomeSyntax.FindStringSubmatch(v.cookie(outcomeCookie)); parts != nil && parts[1] == connector.definition.Permalink {
		outcome, id = parts[2], parts[3]
	}
	connected, certain := false, false
	if user, err := v.identify(); err == nil { // a browser may not send the session with the first request after another site
		found, err := connector.consents.Connection(host.WithUser(v.r.Context(), user))
		connected, certain = found.Condition == host.ConditionConnected, err == nil
	}
	switch {
	case connected && outcome == "":
		outcome = "connected"
	case outcome == "", !connected && certain && outcome == "connected", connected && (outcome == "disconnected" || outcome == "not-revoked"):
		return v.redirect(http.StatusSeeOther, "/connect")
	case connected && outcome == "denied":
		outcome = "unchanged"
	}
	p := v.newPage(outcome)
	if !slices.Contains([]string{"connected", "denied", "unchanged", "disconnected", "not-revoked"}, outcome) {
		p = v.problemPage(&httpProblem{kind: outcome})
		p.ID = id
	}
	return v.show(p)
}

// newPage returns a page of a kind, about the connector of the request if it has one.
func (v *visit) newPage(kind string) *connectpage.Page {
	consent := &v.generation.Consent
	p := &connectpage.Page{Kind: kind, ID: v.event.ID, Path: v.ownPath(), Back: consent.ReturnTo, SignOut: consent.SignOut}
	if p.Writer = v.words; v.connector != nil {
		p.Connector, p.Permalink, p.Host = v.connector.definition.Name, v.connector.definition.Permalink, v.connector.signInHost()
		p.Scopes = v.words.ScopeWords(v.connector.scopes(), consent.Scopes)
	}
	return p
}

// askToDisconnect asks a person whether to end a connection.
func (v *visit) askToDisconnect(*running) error {
	if _, err := v.crossOrigin(v.generation, v.w, v.r); err != nil && !v.navigates() {
		return err
	}
	if _, err := v.identify(); err != nil {
		return err
	}
	return v.show(v.newPage("end"))
}

// signIn returns the URL of the page where users sign in, with the way back to this page, or "" if there is none.
func (v *visit) signIn() string {
	if v.own == "" {
		return ""
	}
	return strings.ReplaceAll(v.generation.Consent.SignIn, back, url.QueryEscape(v.own+v.ownPath()))
}

// redirectToSignIn sends the browser to the page where users sign in, and reports whether it can. One that was there a moment ago is not sent
// again, because that could go on without end.
func (v *visit) redirectToSignIn() bool {
	const name, lifetime = "keywright-signin", 30 // seconds
	to := v.signIn()
	if to == "" || v.page == nil || !v.navigates() || v.cookie(name) != "" {
		return false
	}
	v.setCookie(name, "1", lifetime)
	_ = v.redirect(http.StatusSeeOther, to)
	return true
}

// ownPath returns the path of the page that was asked for, if it can be opened without a form.
func (v *visit) ownPath() string {
	if v.connector == nil || v.r.Method != http.MethodGet || v.use == UseCallback {
		return "/connect"
	}
	return strings.Replace(v.event.Pattern, "{permalink}", v.connector.definition.Permalink, 1)
}

// problemPage returns the page about a problem.
func (v *visit) problemPage(p *httpProblem) *connectpage.Page {
	page := v.newPage("problem")
	if p.status == http.StatusUnauthorized {
		page.Kind, page.SignIn, page.Host = "signin", v.signIn(), ""
		if app, err := url.Parse(page.Back); err == nil {
			page.Host = app.Host
		}
	}
	page.Problem = "problem." + p.kind
	return page
}

// logo answers with the logo, which everybody may see.
func (v *visit) logo() error {
	look := v.generation.Consent.look
	if len(look.Logo) == 0 {
		return errNoConnector
	}
	return v.file(look.LogoType, "default-src 'none'; style-src 'unsafe-inline'; sandbox", string(look.Logo))
}

// file answers with a file that is the same for everybody.
func (v *visit) file(mediaType, policy string, content string) error {
	header := v.w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "public, max-age=300")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	v.write(v.w, http.StatusOK, []byte(content))
	return nil
}
