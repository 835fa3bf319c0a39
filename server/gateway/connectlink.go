package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
)

// LinkRequest describes a link with which a user connects an account without a session.
type LinkRequest struct {
	// User is whose connection it becomes. The user needs an ID.
	User host.User
	// Connectors are the permalinks of the connectors from which the user may choose one.
	Connectors []string
	// Back is the URL to which the browser goes after the consent. Its origin is that of return_to, or one of origins. Without it, return_to.
	Back string
}

// ConnectLink returns a URL for one consent, in one browser, within 15 minutes. Give it to the user alone: who opens it connects an account
// that then serves the user. The page says so, and for whom.
func (g *Gateway) ConnectLink(ctx context.Context, r LinkRequest) (string, error) {
	const lifetime = 15 * time.Minute
	generation := g.enter()
	defer generation.inFlight.Done()
	own := generation.Consent.URL
	switch {
	case !generation.Consent.Links || own == "":
		return "", errors.New("there are no links to connect: set links and url of gateway.consent")
	case r.User.ID == "" || len(r.Connectors) == 0:
		return "", errors.New("a link to connect needs a user with an id, and a connector")
	case r.Back != "" && !generation.allowsBack(r.Back):
		return "", errors.New("back is at another origin than return_to and those of gateway.origins")
	}
	for _, permalink := range r.Connectors {
		if c := generation.connectors[permalink]; c == nil || !c.consents.NeedsConsent() {
			return "", fmt.Errorf("there is no connector %.80q to which users connect", permalink)
		}
	}
	token := rand.Text()
	text, err := json.Marshal(r) // without the user's token
	if err == nil {
		err = generation.connectors[r.Connectors[0]].consents.Hold(ctx, token, text, lifetime)
	}
	return own + "/connect/link/" + token, err
}

// allowsBack reports whether browsers may go to a URL after a consent.
func (g *generation) allowsBack(text string) bool {
	u, err := url.Parse(text)
	to, _ := url.Parse(g.Consent.ReturnTo)
	return err == nil && u.Host != "" && u.User == nil && (slices.Contains(g.Origins, u.Scheme+"://"+u.Host) || to != nil && to.Scheme == u.Scheme && to.Host == u.Host)
}

// link asks a person who has a link whether to connect an account for its user. The page has links that begin the consent: a form would not get to
// another origin, because the policy of the page holds for redirects, too.
func (v *visit) link(token, permalink string, choice bool) error {
	if !v.navigates() {
		return linkProblem(nil)
	}
	leave, err := v.gateway.callbacks.enter("")
	if err != nil {
		return err
	}
	defer leave()
	r, store, err := v.readLink(token)
	if err != nil {
		return err
	}
	if connector := v.generation.connectors[permalink]; choice && v.r.Header.Get("Sec-Fetch-Site") == "same-origin" && connector != nil && slices.Contains(r.Connectors, permalink) {
		v.connector, v.use = connector.Connector, UseConsent
		if _, ok, err := store.Take(v.r.Context(), token); err != nil || !ok {
			return linkProblem(err)
		}
		to, err := v.begin(host.WithUser(v.r.Context(), r.User), connector)
		if err != nil {
			return err
		}
		v.setCookie(backCookie, url.QueryEscape(r.Back), consentLifetime)
		return v.redirect(http.StatusFound, to)
	}
	p, choices := v.newPage("link"), []*connectpage.Page{}
	p.User, p.Path = nameOf(r.User), "/connect/link/"+token
	for _, permalink := range r.Connectors {
		if connector := v.generation.connectors[permalink]; connector != nil {
			v.connector = connector.Connector
			choices = append(choices, v.newPage("link"))
			choices[len(choices)-1].User = p.User
		}
	}
	p.List, v.connector = choices, nil
	return v.show(p)
}

// readLink returns the request for a link, and where it is held. It returns an error for somebody who is signed in as another user.
func (v *visit) readLink(token string) (r LinkRequest, store consents, err error) {
	for _, c := range v.generation.connectors {
		if c.consents.NeedsConsent() {
			store = c.consents
		}
	}
	if !bindingSyntax.MatchString(token) || store == nil {
		return r, nil, linkProblem(nil)
	}
	text, err := store.Peek(v.r.Context(), token)
	if err != nil || json.Unmarshal(text, &r) != nil {
		return r, nil, linkProblem(err)
	}
	if user, err := v.identify(); err == nil && (user.ID != r.User.ID || user.TenantID != r.User.TenantID) {
		return r, nil, &httpProblem{status: http.StatusForbidden, kind: "link-other", detail: "this link is for another user"}
	}
	v.event.Tenant, v.event.User = r.User.TenantID, r.User.ID
	return r, store, nil
}

// linkProblem returns the problem for a link that is not there, or that the store did not return.
func linkProblem(err error) error {
	if err != nil {
		return connectionProblem(err)
	}
	return &httpProblem{status: http.StatusNotFound, kind: "link-unknown", detail: "this link was used before, or is too old: ask for another one"}
}

const backCookie = "keywright-back"

// linkBack returns the URL to which a browser goes after the consent of a link, or "". It is checked again, because a cookie may be another's.
func (v *visit) linkBack() string {
	to, err := url.QueryUnescape(v.cookie(backCookie))
	if err != nil || !v.generation.allowsBack(to) {
		return ""
	}
	v.setCookie(backCookie, "", -1)
	return to
}
