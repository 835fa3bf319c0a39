package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
)

// redirectURI returns the URL to which the authorization server of a connector sends browsers back. Each connector has its own, so
// that one authorization server cannot pass off its answer as that of another (RFC 9700 section 4.4).
func redirectURI(own string, connector *running) string {
	return own + "/connect/callback/" + connector.definition.Permalink
}

// A binding is a secret that only one browser has, in a cookie. A consent counts in the browser in which it began (threats.md
// 132). All consents of a browser have the same one, so that several tabs can be under way.
var bindingSyntax = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// cookie returns a cookie of the gateway alone. Browsers send it with the callback: a link of another site to a page of its own
// counts as SameSite=Lax.
func cookie(own, name, value string, seconds int) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/connect", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if strings.HasPrefix(own, "https://") { // no other host of the site can set a cookie with this prefix (RFC 6265bis section 4.1.3.2)
		c.Name, c.Path, c.Secure = "__Host-"+name, "/", true
	}
	return c
}

// bindingCookie returns the cookie of a binding.
func bindingCookie(own, binding string) *http.Cookie {
	const lifetime = 11 * 60 // seconds; a consent ends after ten minutes
	return cookie(own, "keywright-connect", binding, lifetime)
}

// cookieValue returns the value of a cookie of the gateway if it has the syntax, or "" if the request does not have exactly one.
func (v *visit) cookieValue(own, name string, syntax *regexp.Regexp) string {
	all := v.r.CookiesNamed(cookie(own, name, "", 0).Name)
	if len(all) != 1 || !syntax.MatchString(all[0].Value) {
		return ""
	}
	return all[0].Value
}

// binding returns the binding of the browser, or "" if the request does not have exactly one.
func (v *visit) binding(own string) string {
	return v.cookieValue(own, "keywright-connect", bindingSyntax)
}

// refusedConsents maps the reason of a consent that does not count to the answer.
var refusedConsents = map[host.ConsentReason]httpProblem{
	host.ConsentUnknown: {status: http.StatusBadRequest, kind: "consent-unknown", detail: "this consent is over, or it is too old: begin again"},
	host.ConsentOther:   {status: http.StatusForbidden, kind: "consent-other", detail: "this consent was begun by another user, or in another browser: begin again, and finish in the same browser"},
	host.ConsentDenied:  {status: http.StatusForbidden, kind: "consent-denied", detail: "nothing was connected, because the access was not allowed"},
	host.ConsentFailed:  {status: http.StatusBadGateway, kind: "consent-failed", detail: "nothing was connected, because the authorization server answered with an error"},
	host.ConsentForged:  {status: http.StatusBadRequest, kind: "consent-forged", detail: "nothing was connected, because the answer is not one of the authorization server"},
}

// consentProblem returns the problem for an error of a consent. It has nothing that came with the request.
func consentProblem(err error) error {
	if consentErr, ok := errors.AsType[*host.ConsentError](err); ok {
		p, ok := refusedConsents[consentErr.Reason]
		if !ok {
			p = refusedConsents[host.ConsentFailed]
		}
		p.cause = err
		return &p
	}
	switch {
	case errors.Is(err, host.ErrBusy):
		return problemOf(err)
	case errors.Is(err, state.ErrUnavailable):
		return connectionProblem(err)
	}
	p := &httpProblem{
		status: http.StatusBadGateway, kind: "consent-failed", cause: err,
		detail: "nothing was connected, because the authorization server could not be asked, or its answer cannot be used",
	}
	if failed, ok := errors.AsType[*host.Error](err); ok {
		p.stage, p.retry = string(failed.Stage), retryAfter(err)
	}
	return p
}

// connectionProblem returns the problem for a connection that cannot be read, begun or ended.
func connectionProblem(err error) error {
	return &httpProblem{status: http.StatusServiceUnavailable, kind: "connections-unavailable", detail: "connections are not available at the moment", retry: 5, cause: err}
}

func (v *visit) show(p *connectpage.Page) error {
	v.write(v.w, http.StatusOK, v.words.Render(v.w.Header(), p, v.gateway.config.Clock()))
	return nil
}

func (v *visit) json(document any) error {
	body, _ := json.Marshal(document) // encoding texts and numbers cannot fail
	v.w.Header().Set("Content-Type", "application/json")
	v.write(v.w, http.StatusOK, body)
	return nil
}
