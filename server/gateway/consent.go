package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/identity"
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
	// PlainHTTP allows both URLs to be of plain http, inside a network whose members are trusted with what users connect.
	PlainHTTP bool
}

// Check returns all problems, nil if there are none. The path of a problem names a member as in connectors.yaml: url, return_to.
// allowHTTP allows plain http, as PlainHTTP does; without them, http is valid for localhost and loopback addresses only.
func (c Consent) Check(allowHTTP bool) (all []host.Problem) {
	for _, m := range []struct{ path, text, example string }{
		{"url", c.URL, "https://gateway.example.com"},
		{"return_to", c.ReturnTo, "https://app.example.com/settings"},
	} {
		if m.text == "" {
			continue
		}
		u, err := urlcheck.Rule{AllowHTTP: true, Example: m.example}.Parse(m.text)
		switch {
		case err != nil:
			all = append(all, host.Problem{Path: m.path, Message: err.Error()})
		case u.Scheme == "http" && !allowHTTP && !c.PlainHTTP && !isLoopback(withoutPort(u.Host)):
			all = append(all, host.Problem{Path: m.path, Message: "is plain http, with which anybody on the way can take over what users connect: use https, or plain_http: true"})
		case m.path == "url" && u.Scheme+"://"+u.Host != m.text:
			all = append(all, host.Problem{Path: m.path, Message: "is not an origin: scheme and host, without a slash at the end, such as " + m.example})
		}
	}
	return all
}

// consents is a [host.Connector], for the consents of its users. Callback is that of its host, for this connector alone.
type consents interface {
	NeedsConsent() bool
	BeginConsent(ctx context.Context, r host.ConsentRequest) (authorizationURL string, err error)
	Callback(ctx context.Context, back host.AuthorizationResponse) error
	Connection(ctx context.Context) (host.Connection, error)
	Disconnect(ctx context.Context) error
}

type upstreamConsents struct {
	*host.Connector
	connector *Connector
}

func (u upstreamConsents) Callback(ctx context.Context, back host.AuthorizationResponse) error {
	return u.connector.Callback(ctx, back)
}

const (
	// consentTime limits what is done for a request to /connect and below.
	consentTime = time.Minute
	// maxConsents is the maximum number of concurrent requests to /connect and below, and of callbacks.
	maxConsents = 64
	// consentsAtOnce is the number of requests to /connect and below that one user may send at once. One more is allowed
	// every consentEvery, because each consent that begins takes a row of the store for ten minutes.
	consentsAtOnce, consentEvery = 20, 3 * time.Second
)

// consentPath returns the part of a path behind /connect, without the slash, and whether the path is below /connect.
func consentPath(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, "/connect")
	return strings.TrimPrefix(rest, "/"), ok && (rest == "" || rest[0] == '/')
}

// visit handles one request to /connect or below.
type visit struct {
	*call
	generation *generation
	w          http.ResponseWriter
	r          *http.Request
	// use is the use of a credential that the request asks for.
	use Use
}

// serveConsent answers a request to /connect or below. If it returns an error, it has written nothing.
func (g *Gateway) serveConsent(c *call, generation *generation, w http.ResponseWriter, r *http.Request, path string) error {
	v := &visit{call: c, generation: generation, w: w, r: r}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer") // the query of a callback has a code
	c.page = v.accepts("text/html")
	first, second, more := strings.Cut(path, "/")
	switch {
	case path == "":
		c.event.Pattern = "/connect"
		return v.serveMethods("GET, HEAD", v.list)
	case !more && r.Method == http.MethodDelete:
		return v.serveMethods("GET, DELETE", v.connectorHandler("/connect/{permalink}", first, UseDisconnect, v.disconnect))
	case !more:
		return v.serveMethods("GET, DELETE", v.connectorHandler("/connect/{permalink}", first, UseConsent, v.start))
	case second == "disconnect" && r.Method == http.MethodPost:
		return v.serveMethods("POST", v.connectorHandler("/connect/{permalink}/disconnect", first, UseDisconnect, v.disconnect))
	case first == "callback":
		return v.serveMethods("GET", v.connectorHandler("/connect/callback/{permalink}", second, UseCallback, v.callback))
	case second == "disconnect":
		return v.serveMethods("POST", nil)
	}
	return errNoConnector
}

var errNoConnector = &httpProblem{status: http.StatusNotFound, kind: "unknown-connector", detail: "there is no such connector"}

// serveMethods calls handle if the method of the request is one of those in methods. It answers preflights, which ask for any of them.
func (v *visit) serveMethods(methods string, handle func() error) error {
	if v.r.Method == http.MethodOptions {
		if preflight, err := v.crossOrigin(v.generation, v.w, v.r); preflight || err != nil {
			return err
		}
	}
	if !slices.Contains(strings.Split(methods, ", "), v.r.Method) {
		v.w.Header().Set("Allow", methods)
		return &httpProblem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: "this path takes " + methods}
	}
	return handle()
}

// connectorHandler returns a function that calls handle for the connector with a permalink, if users can connect to that. pattern is that of the
// path. use says how handle uses a credential; handle calls uses before that.
func (v *visit) connectorHandler(pattern, permalink string, use Use, handle func(*running) error) func() error {
	return func() error {
		v.event.Pattern, v.use = pattern, use
		connector := v.generation.connectors[permalink]
		if connector == nil {
			return errNoConnector
		}
		v.connector = connector.Connector
		if !connector.consents.NeedsConsent() {
			return &httpProblem{status: http.StatusNotFound, kind: "no-consent", detail: "this connector needs no consent of its users"}
		}
		return handle(connector)
	}
}

// uses notes that a credential is about to be used. It returns an error if the use could not be recorded.
func (v *visit) uses() error {
	if err := v.gateway.recordable(); err != nil {
		return err
	}
	v.event.Use = v.use
	return nil
}

func (v *visit) accepts(kind string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(v.r.Header["Accept"], ","), ","), func(part string) bool {
		name, _, _ := strings.Cut(part, ";")
		return strings.EqualFold(strings.TrimSpace(name), kind)
	})
}

// navigates reports whether the browser opens a page of its own for the request, so that no other page can read the answer. A
// link on a page of another origin does that.
func (v *visit) navigates() bool {
	h := v.r.Header
	return v.r.Method == http.MethodGet && h.Get("Origin") == "" && h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
}

var errNoUser = &httpProblem{
	status: http.StatusUnauthorized, kind: "unauthenticated", detail: "this needs a valid session: connections belong to users",
	cause: errors.New("the request has no user with an id: gateway.user says who the user of a request is"),
}

// user returns a context with the user of the request, and counts the request for that user until release is called.
// Connections belong to users. Without a user, everybody could connect an account for all.
func (v *visit) user() (ctx context.Context, user host.User, release func(), err error) {
	if v.generation.Users == nil {
		return nil, user, nil, errNoUser
	}
	if user, err = v.generation.Users.User(v.r); err != nil {
		return nil, user, nil, err
	}
	v.event.Tenant, v.event.User = user.TenantID, user.ID
	if user.ID == "" { // an email address may be another's tomorrow
		return nil, user, nil, errNoUser
	}
	leave, err := v.gateway.consents.enter(allowanceOf(user))
	if err != nil {
		return nil, user, nil, err
	}
	ctx, cancel := context.WithTimeout(host.WithUser(v.r.Context(), user), consentTime)
	return ctx, user, func() { cancel(); leave() }, nil
}

// start begins a consent of the user, and sends the browser to the authorization server.
func (v *visit) start(connector *running) error {
	switch _, err := v.crossOrigin(v.generation, v.w, v.r); {
	case err != nil && v.navigates():
		// Another site has sent the browser here. A person must want this: the account at the authorization server may be
		// one into which that site has logged the browser (threats.md 133).
		return v.show(http.StatusOK, &page{Ask: connector.definition.Name, Path: "/connect/" + connector.definition.Permalink})
	case err != nil:
		return err
	}
	own, err := v.origin()
	if err != nil {
		return err
	}
	ctx, _, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	if err := v.uses(); err != nil {
		return err
	}
	binding := cmp.Or(v.binding(own), rand.Text())
	to, err := connector.consents.BeginConsent(ctx, host.ConsentRequest{RedirectURI: redirectURI(own, connector), Binding: binding})
	if err != nil {
		return consentProblem(err)
	}
	http.SetCookie(v.w, bindingCookie(own, binding))
	if v.accepts("application/json") && !v.page {
		return v.json(map[string]string{"url": to})
	}
	return v.redirect(http.StatusFound, to)
}

// callback ends a consent. The browser comes from the authorization server, which is another site, so that a cookie with
// SameSite=Strict is missing. Then the binding alone shows whose consent it is.
func (v *visit) callback(connector *running) error {
	if mode := v.r.Header.Get("Sec-Fetch-Mode"); mode != "" && !v.navigates() {
		return &httpProblem{status: http.StatusForbidden, kind: "cross-origin", detail: "a page cannot request this: the authorization server sends the browser here"}
	}
	values, err := callbackValues(v.r.URL.RawQuery)
	if err != nil {
		return err
	}
	own, err := v.origin()
	if err != nil {
		return err
	}
	if v.generation.Users == nil {
		return errNoUser
	}
	ctx := v.r.Context()
	switch user, err := v.generation.Users.User(v.r); {
	case err == nil && user != (host.User{}):
		v.event.Tenant, v.event.User = user.TenantID, user.ID
		ctx = host.WithUser(ctx, user)
	case err != nil && !errors.Is(err, identity.ErrUnauthenticated):
		return err
	}
	binding := v.binding(own)
	if binding == "" {
		return consentProblem(&host.ConsentError{Reason: host.ConsentOther, Text: "the browser has no cookie of a consent: another browser has begun it, or it is too old"})
	}
	release, err := v.gateway.callbacks.enter("")
	if err != nil {
		return err
	}
	defer release()
	if err := v.uses(); err != nil {
		return err
	}
	// A browser that is closed now must not end the token request: the code works once.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), consentTime)
	defer cancel()
	if err := connector.consents.Callback(ctx, host.AuthorizationResponse{RedirectURI: redirectURI(own, connector), Response: values, Binding: binding}); err != nil {
		return consentProblem(err)
	}
	if to := v.generation.Consent.ReturnTo; to != "" {
		return v.redirect(http.StatusSeeOther, to)
	}
	return v.show(http.StatusOK, &page{Done: connector.definition.Name})
}

// callbackValues parses the query of a callback. A parameter that is there twice is an error (RFC 6749 section 3.1).
func callbackValues(query string) (url.Values, error) {
	const maxCallback = 16 << 10 // bytes. Some authorization servers have codes of several KiB
	values, err := url.ParseQuery(query)
	if len(query) > maxCallback || err != nil {
		return nil, &httpProblem{status: http.StatusBadRequest, kind: "bad-request", detail: "the query is too long, or not well formed"}
	}
	for _, all := range values {
		if len(all) > 1 {
			return nil, &httpProblem{status: http.StatusBadRequest, kind: "bad-request", detail: "a parameter of the query is there twice"}
		}
	}
	return values, nil
}

func (v *visit) disconnect(connector *running) error {
	if _, err := v.crossOrigin(v.generation, v.w, v.r); err != nil {
		return err
	}
	ctx, _, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	if err := v.uses(); err != nil {
		return err
	}
	switch err := connector.consents.Disconnect(ctx); {
	case errors.Is(err, host.ErrNotRevoked):
		return &httpProblem{status: http.StatusBadGateway, kind: "not-revoked", detail: "the connection is forgotten here, but the authorization server may still accept it: revoke it there", cause: err}
	case err != nil:
		return connectionProblem(err)
	}
	if v.r.Method == http.MethodPost && v.page {
		return v.redirect(http.StatusSeeOther, "/connect")
	}
	v.write(v.w, http.StatusNoContent, nil)
	return nil
}

func (v *visit) redirect(status int, to string) error {
	v.w.Header().Set("Location", to)
	v.write(v.w, status, nil)
	return nil
}
