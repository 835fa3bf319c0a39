package gateway

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
)

// What the page after a consent, or after its end, says. Others are kinds of problems.
const (
	outcomeConnected    = "connected"
	outcomeDenied       = "denied"
	outcomeDisconnected = "disconnected"
	outcomeNotRevoked   = "not-revoked"
)

// outcomeSyntax is that of the cookie for the page /connect/PERMALINK/done: permalink, outcome and request. It is not sealed: it holds no
// secret, and all words are the gateway's. The page looks itself whether the user is connected.
var outcomeSyntax = regexp.MustCompile(`^[a-z0-9-]{1,64}\.[a-z-]{1,32}\.[0-9a-f]{32}$`)

// end sends the browser to the page that says what became of a consent, or of a connection.
func (v *visit) end(own string, connector *running, outcome string) error {
	const lifetime = 60 // seconds
	permalink := connector.definition.Permalink
	http.SetCookie(v.w, cookie(own, "keywright-done", permalink+"."+outcome+"."+v.event.ID, lifetime))
	return v.redirect(http.StatusSeeOther, "/connect/"+permalink+"/done")
}

// endFailed is end after a failure. For operators, the request has failed with the status of the problem, and not been redirected.
func (v *visit) endFailed(own string, connector *running, err error) error {
	p := v.problem(v.r.Context(), err)
	v.report(v.r.Context(), p)
	err = v.end(own, connector, p.kind)
	v.event.Status = p.status
	return err
}

// returnTo returns the page to which a browser goes after a consent, or "" for one of the gateway.
func (v *visit) returnTo(string) string { return v.generation.Consent.ReturnTo }

// done says what became of a consent. Without the cookie, or in another tab after another one, it says what is so now.
func (v *visit) done(connector *running) error {
	own, err := v.origin()
	if err != nil {
		return err
	}
	leave, err := v.gateway.callbacks.enter("")
	if err != nil {
		return err
	}
	defer leave()
	parts := strings.Split(v.cookieValue(own, "keywright-done", outcomeSyntax)+"..", ".")
	outcome, request := parts[1], parts[2]
	if parts[0] != connector.definition.Permalink {
		outcome = ""
	}
	connected, known := false, false
	if user, err := v.identify(); err == nil { // a browser may not send the session with the first request after another site
		found, err := connector.consents.Connection(host.WithUser(v.r.Context(), user))
		connected, known = found.Condition == host.ConditionConnected, err == nil
	}
	p := v.donePage(connector, outcome, connected, known)
	switch {
	case p == nil && !slices.Contains([]string{"", outcomeConnected, outcomeDenied, outcomeDisconnected}, outcome):
		p = v.problemPage(&httpProblem{kind: outcome})
		v.setRequest(p, request)
	case p == nil:
		return v.redirect(http.StatusSeeOther, "/connect")
	}
	return v.show(http.StatusOK, p)
}

// donePage returns the page for an outcome that is no problem, or nil if the connection is not, or no longer, as the outcome says.
func (v *visit) donePage(connector *running, outcome string, connected, known bool) *connectpage.Page {
	name := connector.definition.Name
	say := func(key string) connectpage.Text { return connectpage.Say(key, "connector", name) }
	p := &connectpage.Page{Buttons: v.backButtons()}
	retry := connectpage.Button{Label: connectpage.Say("button.retry"), Path: "/connect/" + connector.definition.Permalink, Main: true}
	switch {
	case outcome == outcomeConnected && !known, (outcome == outcomeConnected || outcome == "") && connected:
		p.Heading, p.Lines, p.Good = say("done.connected.title"), []connectpage.Text{say("done.connected.text")}, true
	case outcome == outcomeDenied && connected:
		p.Heading, p.Lines = say("done.unchanged.title"), []connectpage.Text{say("done.unchanged.text")}
	case outcome == outcomeDenied:
		p.Heading, p.Lines = say("done.denied.title"), []connectpage.Text{say("done.denied.text")}
		p.Buttons = append([]connectpage.Button{retry}, p.Buttons...)
	case outcome == outcomeDisconnected && !connected:
		p.Heading, p.Lines = say("done.disconnected.title"), []connectpage.Text{say("done.disconnected.text")}
	case outcome == outcomeNotRevoked && !connected:
		p.Heading, p.Lines = say("done.disconnected.title"), []connectpage.Text{say("done.disconnected.text"), say("done.not-revoked.text")}
	default:
		return nil
	}
	return p
}

// backButtons are the ways on from a page: the page of the file, if there is one, and the list.
func (v *visit) backButtons() (all []connectpage.Button) {
	if to := v.generation.Consent.ReturnTo; to != "" {
		all = append(all, connectpage.Button{Label: connectpage.Say("button.back"), Path: to})
	}
	return append(all, connectpage.Button{Label: connectpage.Say("button.list"), Path: "/connect"})
}

// ask asks a person whether to begin a consent.
func (v *visit) ask(connector *running) error {
	d := &connector.definition
	p := &connectpage.Page{
		Heading: connectpage.Say("ask.title", "connector", d.Name), Scopes: v.scopeWords(connector, connector.scopes()), Lines: v.askLines(connector),
		Buttons: []connectpage.Button{
			{Label: connectpage.Say("button.continue"), Path: "/connect/" + d.Permalink, Main: true},
			{Label: connectpage.Say("button.not_now"), Path: cmp.Or(v.generation.Consent.ReturnTo, "/connect")},
		},
	}
	return v.show(http.StatusOK, p)
}

// askLines says where users sign in.
func (v *visit) askLines(connector *running) []connectpage.Text {
	where := connectpage.Say("ask.connector", "connector", connector.definition.Name)
	if server := connector.signInHost(); server != "" {
		where = connectpage.Say("ask.host", "host", server)
	}
	return []connectpage.Text{where, connectpage.Say("ask.check"), connectpage.Say("ask.end")}
}

// askToDisconnect asks a person whether to end a connection.
func (v *visit) askToDisconnect(connector *running) error {
	if _, err := v.crossOrigin(v.generation, v.w, v.r); err != nil && !v.navigates() {
		return err
	}
	if _, err := v.identify(); err != nil {
		return err
	}
	name, path := connector.definition.Name, "/connect/"+connector.definition.Permalink+"/disconnect"
	return v.show(http.StatusOK, &connectpage.Page{
		Heading: connectpage.Say("end.title", "connector", name), Lines: []connectpage.Text{connectpage.Say("end.text", "connector", name)},
		Buttons: []connectpage.Button{
			{Label: connectpage.Say("button.disconnect"), Of: name, Path: path, Main: true, Post: true},
			{Label: connectpage.Say("button.keep"), Of: name, Path: "/connect"},
		},
	})
}

// canSignIn reports whether the browser can be sent to the page where users sign in. One that was there a moment ago is not sent again,
// because that could go on without end.
func (v *visit) canSignIn() bool {
	own, err := v.origin()
	return err == nil && v.page != nil && v.navigates() && v.generation.Consent.SignIn != "" && v.cookieValue(own, signInCookie, signInSyntax) == ""
}

const signInCookie = "keywright-signin"

var signInSyntax = regexp.MustCompile("^1$")

// signIn sends the browser to the page where users sign in, with the way back.
func (v *visit) signIn() error {
	const lifetime = 30 // seconds
	own, err := v.origin()
	if err != nil {
		return err
	}
	http.SetCookie(v.w, cookie(own, signInCookie, "1", lifetime))
	return v.redirect(http.StatusSeeOther, v.generation.Consent.signIn(own+v.ownPath()))
}

// ownPath returns the path of the page that was asked for, if it can be opened without a form.
func (v *visit) ownPath() string {
	if v.connector == nil || v.r.Method != http.MethodGet || v.use == UseCallback {
		return "/connect"
	}
	return strings.Replace(v.event.Pattern, "{permalink}", v.connector.definition.Permalink, 1)
}

// problemPage returns the page that tells a person of a problem.
func (v *visit) problemPage(p *httpProblem) *connectpage.Page {
	if p.status == http.StatusUnauthorized {
		return v.signInPage()
	}
	page := &connectpage.Page{Heading: connectpage.Say("problem.title"), Alert: true, Buttons: v.backButtons()}
	key, name := "problem."+p.kind, ""
	if v.connector != nil {
		name = v.connector.definition.Name
		page.Buttons = append([]connectpage.Button{{Label: connectpage.Say("button.retry"), Path: "/connect/" + v.connector.definition.Permalink, Main: true}}, page.Buttons...)
	}
	if !connectpage.Has(key) || strings.HasPrefix(p.kind, "consent-") && name == "" {
		key = "problem.other"
	}
	page.Lines = []connectpage.Text{connectpage.Say(key, "connector", name)}
	v.setRequest(page, v.event.ID)
	return page
}

func (v *visit) setRequest(p *connectpage.Page, id string) {
	request := connectpage.Say("problem.request", "id", id)
	p.Request = &request
}

// signInPage tells a person without a session where to sign in.
func (v *visit) signInPage() *connectpage.Page {
	p := &connectpage.Page{Heading: connectpage.Say("signin.title"), Lines: []connectpage.Text{connectpage.Say("signin.app")}}
	if app := v.generation.Consent.hostOfApp(); app != "" {
		p.Lines[0] = connectpage.Say("signin.text", "host", app)
	}
	if own, err := v.origin(); err == nil && v.generation.Consent.SignIn != "" {
		p.Buttons = append(p.Buttons, connectpage.Button{Label: connectpage.Say("button.sign_in"), Path: v.generation.Consent.signIn(own + v.ownPath()), Main: true})
	}
	p.Buttons = append(p.Buttons, connectpage.Button{Label: connectpage.Say("button.signed_in"), Path: v.ownPath()})
	return p
}

// logo answers with the logo, which everybody may see.
func (v *visit) logo() error {
	look := v.generation.Consent.look
	if len(look.Logo) == 0 {
		return errNoConnector
	}
	return v.file(look.LogoType, "default-src 'none'; style-src 'unsafe-inline'; sandbox", look.Logo)
}

// file answers with a file that is the same for everybody.
func (v *visit) file(mediaType, policy string, content []byte) error {
	header := v.w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "public, max-age=300")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	v.write(v.w, http.StatusOK, content)
	return nil
}
