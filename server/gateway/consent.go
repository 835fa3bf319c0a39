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
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
	"github.com/keywright/keywright/server/identity"
)

// consents is a [host.Connector], for the consents of its users. Callback is that of its host, for this connector alone.
type consents interface {
	NeedsConsent() bool
	BeginConsent(ctx context.Context, r host.ConsentRequest) (authorizationURL string, err error)
	Callback(ctx context.Context, back host.AuthorizationResponse) (host.EndedConsent, error)
	Connection(ctx context.Context) (host.Connection, error)
	Disconnect(ctx context.Context) error
	Hold(ctx context.Context, name string, value []byte, ttl time.Duration) error
	Peek(ctx context.Context, name string) ([]byte, error)
	Take(ctx context.Context, name string) (value []byte, ok bool, err error)
}

type upstreamConsents struct {
	*host.Connector
	connector *Connector
}

func (u upstreamConsents) Callback(ctx context.Context, back host.AuthorizationResponse) (host.EndedConsent, error) {
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
	// own is the origin at which the browser reaches the gateway, or "" if that is not known.
	own string
	// words writes pages in the language of the user.
	words *connectpage.Writer
	// use is the use of a credential that the request asks for.
	use Use
}

// serveConsent answers a request to /connect or below. If it returns an error, it has written nothing.
func (g *Gateway) serveConsent(c *call, generation *generation, w http.ResponseWriter, r *http.Request, path string) error {
	v := &visit{call: c, generation: generation, w: w, r: r, own: originOf(&generation.Consent, r)}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer") // the query of a callback has a code
	v.words = generation.Consent.look.For(strings.Join(r.Header["Accept-Language"], ","))
	if v.accepts("text/html") {
		c.page = v
	}
	err := v.route(path)
	if (errors.Is(err, errNoUser) || errors.Is(err, identity.ErrUnauthenticated)) && v.redirectToSignIn() {
		return nil
	}
	return err
}

// route answers a request to a path below /connect.
func (v *visit) route(path string) error {
	const ofConnector, disconnects = "/connect/{permalink}", "/connect/{permalink}/disconnect"
	method := v.r.Method
	first, second, more := strings.Cut(path, "/")
	switch {
	case path == "":
		return v.serve("/connect", "GET, HEAD", v.list)
	case path == "element.js":
		return v.serve("/connect/element.js", "GET, HEAD", func() error { return v.file("text/javascript; charset=utf-8", noPage[0], connectpage.Element) })
	case first == "link" && v.generation.Consent.Links:
		return v.serve("/connect/link/{token}", "GET", func() error { return v.link(strings.Cut(second, "/")) })
	case path == "logo" && v.generation.connectors[path] == nil:
		return v.serve("/connect/logo", "GET, HEAD", v.logo)
	case path == "tenant" && v.generation.connectors[path] == nil:
		return v.serve("/connect/tenant", "GET, POST", v.tenant)
	case !more && method == http.MethodDelete:
		return v.serve(ofConnector, "GET, DELETE", v.connectorHandler(first, UseDisconnect, v.disconnect))
	case !more:
		return v.serve(ofConnector, "GET, DELETE", v.connectorHandler(first, UseConsent, v.start))
	case second == "disconnect" && method == http.MethodPost:
		return v.serve(disconnects, "GET, POST", v.connectorHandler(first, UseDisconnect, v.disconnect))
	case first == "callback":
		return v.serve("/connect/callback/{permalink}", "GET", v.connectorHandler(second, UseCallback, v.callback))
	case second == "disconnect":
		return v.serve(disconnects, "GET, POST", v.connectorHandler(first, "", v.askToDisconnect))
	case second == "done":
		return v.serve("/connect/{permalink}/done", "GET, HEAD", v.connectorHandler(first, "", v.done))
	}
	return errNoConnector
}

var errNoConnector = &httpProblem{status: http.StatusNotFound, kind: "unknown-connector", detail: "there is no such connector"}

// serve calls handle if the method of the request is one of those in methods. It answers preflights, which ask for any of them. pattern is
// that of the path.
func (v *visit) serve(pattern, methods string, handle func() error) error {
	v.event.Pattern = pattern
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

// connectorHandler returns a function that calls handle for the connector with a permalink, if users can connect to that. use says how handle
// uses a credential; handle calls uses before that.
func (v *visit) connectorHandler(permalink string, use Use, handle func(*running) error) func() error {
	return func() error {
		v.use = use
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

// identify returns the user of the request. Connections belong to users. Without a user, everybody could connect an account for all.
func (v *visit) identify() (user host.User, err error) {
	if v.generation.Users == nil {
		return user, errNoUser
	}
	if user, err = v.generation.Users.User(v.r); err != nil {
		return user, err
	}
	v.event.Tenant, v.event.User = user.TenantID, user.ID
	if user.ID == "" { // an email address may be another's tomorrow
		return user, errNoUser
	}
	return user, nil
}

// user returns a context with the user of the request, and counts the request for that user until release is called.
func (v *visit) user() (ctx context.Context, user host.User, release func(), err error) {
	if user, err = v.identify(); err != nil {
		return nil, user, nil, err
	}
	leave, err := v.gateway.consents.enter(allowanceOf(user))
	if err != nil {
		return nil, user, nil, err
	}
	ctx, cancel := context.WithTimeout(host.WithUser(v.r.Context(), user), consentTime)
	return ctx, user, func() { cancel(); leave() }, nil
}

// viewer is like user, for a page that shows something: the browser may come to it from a page of another site.
func viewer(v *visit) (ctx context.Context, user host.User, release func(), err error) {
	if _, err := v.crossOrigin(v.generation, v.w, v.r); err != nil && !v.navigates() {
		return nil, user, nil, err
	}
	return v.user()
}

// start begins a consent of the user, and sends the browser to the authorization server. A browser that does not come from a page of the
// gateway gets one that asks.
func (v *visit) start(connector *running) error {
	_, err := v.crossOrigin(v.generation, v.w, v.r)
	if site := v.r.Header.Get("Sec-Fetch-Site"); v.navigates() && v.page != nil && site != "same-origin" {
		if _, err := v.identify(); err != nil && site == "none" { // with a link of another site, a browser may not send the session
			return err
		}
		// A person must want this: the account at the authorization server may be one into which another site has logged the browser
		// (threats.md 133).
		return v.show(v.newPage("ask"))
	}
	if err != nil {
		return err
	}
	ctx, _, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	to, err := v.begin(ctx, connector)
	if err != nil {
		return err
	}
	if v.accepts("application/json") && v.page == nil {
		return v.json(map[string]string{"url": to})
	}
	return v.redirect(http.StatusFound, to)
}

// begin begins a consent of the context's user, and returns the URL of the authorization server.
func (v *visit) begin(ctx context.Context, connector *running) (to string, err error) {
	if v.own == "" {
		return "", errNoOrigin
	}
	if err := v.uses(); err != nil {
		return "", err
	}
	binding := cmp.Or(v.binding(), rand.Text())
	to, err = connector.consents.BeginConsent(ctx, host.ConsentRequest{RedirectURI: redirectURI(v.own, connector), Binding: binding})
	if err != nil {
		return "", consentProblem(err)
	}
	v.setCookie(bindingCookie, binding, consentLifetime)
	return to, nil
}

// callback ends a consent, and sends a browser on, so that neither its address nor its history has the code.
func (v *visit) callback(connector *running) error {
	if mode := v.r.Header.Get("Sec-Fetch-Mode"); mode != "" && !v.navigates() {
		return &httpProblem{status: http.StatusForbidden, kind: "cross-origin", detail: "a page cannot request this: the authorization server sends the browser here"}
	}
	if v.own == "" {
		return errNoOrigin
	}
	err := v.redeem(connector)
	switch to := cmp.Or(v.linkBack(), v.generation.Consent.ReturnTo); {
	case err == nil && to != "":
		return v.redirect(http.StatusSeeOther, to)
	case err == nil:
		return v.end(connector, "connected")
	case v.page == nil:
		return err
	case problemOf(err).kind == refusedConsents[host.ConsentDenied].kind: // the user wanted that
		return v.end(connector, "denied")
	}
	return v.endFailed(connector, err)
}

// redeem ends a consent. The browser comes from the authorization server, which is another site, so that a cookie with
// SameSite=Strict is missing. Then the binding alone shows whose consent it is.
func (v *visit) redeem(connector *running) error {
	values, err := callbackValues(v.r.URL.RawQuery)
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
	binding := v.binding()
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
	consent, err := connector.consents.Callback(ctx, host.AuthorizationResponse{RedirectURI: redirectURI(v.own, connector), Response: values, Binding: binding})
	if err != nil {
		return consentProblem(err)
	}
	if consent.User != nil {
		v.connected(ctx, connector, *consent.User)
	}
	return nil
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
	ctx, user, release, err := v.user()
	if err != nil {
		return err
	}
	defer release()
	if err := v.uses(); err != nil {
		return err
	}
	err = connector.consents.Disconnect(ctx)
	notRevoked := errors.Is(err, host.ErrNotRevoked)
	if all := v.gateway.config.Connections; all != nil && (err == nil || notRevoked) {
		v.logUnkept(ctx, all.Disconnected(ctx, user, connector.definition.Permalink))
	}
	switch {
	case notRevoked:
		err = &httpProblem{status: http.StatusBadGateway, kind: "not-revoked", detail: "the connection is forgotten here, but the authorization server may still accept it: revoke it there", cause: err}
	case err != nil:
		err = connectionProblem(err)
	}
	if v.r.Method != http.MethodPost || v.page == nil {
		if err == nil {
			v.write(v.w, http.StatusNoContent, nil)
		}
		return err
	}
	if err != nil {
		return v.endFailed(connector, err)
	}
	return v.end(connector, "disconnected")
}

func (v *visit) redirect(status int, to string) error {
	v.w.Header().Set("Location", to)
	v.write(v.w, status, nil)
	return nil
}
