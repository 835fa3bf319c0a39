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
const bindingCookie, consentLifetime = "keywright-connect", 11 * 60 // seconds; a consent ends after ten minutes

var bindingSyntax = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// binding returns the binding of the browser, or "" if the request does not have exactly one.
func (v *visit) binding() string { return bindingSyntax.FindString(v.cookie(bindingCookie)) }

// cookieName returns the name in browsers of a cookie of the gateway.
func cookieName(own, name string) string {
	if strings.HasPrefix(own, "https://") { // no other host of the site can set a cookie with this prefix (RFC 6265bis section 4.1.3.2)
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie of the gateway alone. Browsers send it with the callback: a link of another site to a page of its own counts
// as SameSite=Lax.
func (v *visit) setCookie(name, value string, seconds int) {
	c := &http.Cookie{Name: cookieName(v.own, name), Value: value, Path: "/connect", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if c.Name != name {
		c.Path, c.Secure = "/", true
	}
	http.SetCookie(v.w, c)
}

// cookie returns the value of a cookie of the gateway, or "" if the request does not have exactly one.
func (v *visit) cookie(name string) string {
	if all := v.r.CookiesNamed(cookieName(v.own, name)); len(all) == 1 {
		return all[0].Value
	}
	return ""
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
