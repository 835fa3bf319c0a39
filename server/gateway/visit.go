package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
)

// origin returns the origin at which the browser reaches the gateway: that of the configuration, or of a request to a loopback
// address. The header Host does not count otherwise, because it does not say whether a proxy has TLS.
func (v *visit) origin() (string, error) {
	if own := v.generation.Consent.URL; own != "" {
		return own, nil
	}
	if !isLoopback(withoutPort(v.r.Host)) {
		return "", &httpProblem{
			status: http.StatusInternalServerError, kind: "no-consent-url", detail: "this gateway is not configured for connecting accounts",
			cause: errors.New("gateway.consent.url is missing: the URL at which browsers reach the gateway, to which authorization servers send them back"),
		}
	}
	if v.r.TLS != nil {
		return "https://" + v.r.Host, nil
	}
	return "http://" + v.r.Host, nil
}

// redirectURI returns the URL to which the authorization server of a connector sends browsers back. Each connector has its own, so
// that one authorization server cannot pass off its answer as that of another (RFC 9700 section 4.4).
func redirectURI(own string, connector *running) string {
	return own + "/connect/callback/" + connector.definition.Permalink
}

// A binding is a secret that only one browser has, in a cookie. A consent counts in the browser in which it began (threats.md
// 132). All consents of a browser have the same one, so that several tabs can be under way.
var bindingSyntax = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// bindingCookie returns the cookie of a binding. Browsers send it with the callback: a link of another site to a page of its own
// counts as SameSite=Lax.
func bindingCookie(own, binding string) *http.Cookie {
	const lifetime = 11 * 60 // seconds; a consent ends after ten minutes
	c := &http.Cookie{Name: "keywright-connect", Value: binding, Path: "/connect", MaxAge: lifetime, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if strings.HasPrefix(own, "https://") { // no other host of the site can set a cookie with this prefix (RFC 6265bis section 4.1.3.2)
		c.Name, c.Path, c.Secure = "__Host-keywright-connect", "/", true
	}
	return c
}

// binding returns the binding of the browser, or "" if the request does not have exactly one.
func (v *visit) binding(own string) string {
	all := v.r.CookiesNamed(bindingCookie(own, "").Name)
	if len(all) != 1 || !bindingSyntax.MatchString(all[0].Value) {
		return ""
	}
	return all[0].Value
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

// page is the content of a page under /connect. It has no script, and nothing that came with the query.
type page struct {
	Style template.CSS
	// User is the user whose connections the page lists, and List has them.
	User string
	List []connection
	// Ask is the name of the connector that the user is asked about, and Path is the link that begins the consent.
	Ask, Path string
	// Done is the name of the connector to which the user has connected.
	Done string
	// Problem says what is wrong. RequestID is the id of the request in the log.
	Problem, RequestID string
	// Back is the URL of the link to which the user can go on.
	Back string
}

type connection struct {
	Connector string         `json:"connector"`
	Name      string         `json:"name"`
	Condition host.Condition `json:"condition"`
	// Age is the time since the grant was renewed, redeemed, sent without an answer, lost or refused last.
	Age int64 `json:"age_seconds"`
}

// Since returns the age in words, or "" if it is less than a minute.
func (c connection) Since() string {
	for _, unit := range []struct {
		name    string
		seconds int64
	}{{"day", 24 * 60 * 60}, {"hour", 60 * 60}, {"minute", 60}} {
		switch n := c.Age / unit.seconds; {
		case n > 1:
			return fmt.Sprintf("%d %ss", n, unit.name)
		case n == 1:
			return "1 " + unit.name
		}
	}
	return ""
}

//go:embed consent.html
var consentHTML string

//go:embed consent.css
var consentCSS string

var consentPage = template.Must(template.New("page").Parse(consentHTML))

// pagePolicy allows the style of the page, and forms and links to the gateway. No other site may show the page in a frame.
var pagePolicy = func() string {
	digest := sha256.Sum256([]byte(consentCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

func (p *page) render(header http.Header) []byte {
	p.Style = template.CSS(consentCSS) //nolint:gosec // it is part of this program
	var b bytes.Buffer
	_ = consentPage.Execute(&b, p) // into memory, and each page has all fields
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Frame-Options", "DENY")
	return b.Bytes()
}

func (v *visit) show(status int, p *page) error {
	v.write(v.w, status, p.render(v.w.Header()))
	return nil
}

func (v *visit) json(document any) error {
	body, _ := json.Marshal(document) // encoding texts and numbers cannot fail
	v.w.Header().Set("Content-Type", "application/json")
	v.write(v.w, http.StatusOK, body)
	return nil
}

func (v *visit) list() error {
	if _, err := v.crossOrigin(v.generation, v.w, v.r); err != nil && !v.navigates() {
		return err
	}
	ctx, user, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	all := []connection{}
	for permalink, connector := range v.generation.connectors {
		if !connector.consents.NeedsConsent() {
			continue
		}
		found, err := connector.consents.Connection(ctx)
		if err != nil {
			return connectionProblem(err)
		}
		all = append(all, connection{permalink, connector.definition.Name, found.Condition, int64(found.Age / time.Second)})
	}
	slices.SortFunc(all, func(a, b connection) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Connector, b.Connector))
	})
	if v.page {
		return v.show(http.StatusOK, &page{User: cmp.Or(user.Email, user.Username, user.ID), List: all, Back: v.generation.Consent.ReturnTo})
	}
	return v.json(map[string][]connection{"connections": all})
}
