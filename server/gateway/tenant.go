package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
	"github.com/keywright/keywright/server/identity"
)

// Tenants lets the administrators of tenants act, see [Consent].TenantAdmin. An administrator has a TenantID. The methods are called
// concurrently.
type Tenants interface {
	// Tenant returns what there is of the administrator's tenant. cursor is that of a view before, or "".
	Tenant(ctx context.Context, admin host.User, cursor string) (TenantView, error)
	// End ends a connection of the tenant.
	End(ctx context.Context, admin host.User, id string) error
	// Give keeps a text that connectors ask of the tenant, or removes it if it is "". If a connector does not work with it, Give keeps
	// nothing, and problem says why, in words for the administrator.
	Give(ctx context.Context, admin host.User, kind, name, text string) (problem string, err error)
}

// TenantView has the connections of a tenant's users, and the texts that it has given. It has no secret.
type TenantView struct {
	Connections []TenantConnection `json:"connections"`
	// Next is the cursor of the next page of Connections, or "".
	Next  string       `json:"next,omitempty"`
	Texts []TenantText `json:"texts"`
}

// TenantConnection is a connection of a user of a tenant.
type TenantConnection struct {
	ID        string         `json:"id"`
	Connector string         `json:"connector"`
	User      string         `json:"user"`
	Account   string         `json:"account,omitempty"`
	Condition host.Condition `json:"condition"`
	Since     time.Time      `json:"since,omitzero"`
	Used      time.Time      `json:"used,omitzero"`
}

// TenantText is a secret or a variable that connectors ask of a tenant.
type TenantText struct {
	// Kind is secret or variable.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Connectors are those that ask for it. Label says what it is, and Obtain where it is found. Each may be "".
	Connectors []string `json:"connectors"`
	Label      string   `json:"label,omitempty"`
	Obtain     string   `json:"obtain,omitempty"`
	// Fingerprint is that of what the tenant has given, or "". Author is who gave or removed it last, and Changed is when.
	Fingerprint string    `json:"fingerprint,omitempty"`
	Author      string    `json:"author,omitempty"`
	Changed     time.Time `json:"changed,omitzero"`
}

var errNotAdmin = &httpProblem{status: http.StatusForbidden, kind: "not-admin", detail: "this page is for the administrators of a tenant"}

// isAdmin returns nil if the session of the request is one of an administrator of the user's tenant.
func isAdmin(v *visit, user host.User) error {
	claim, value, _ := strings.Cut(v.generation.Consent.TenantAdmin, "=")
	sessions, ok := v.generation.Users.(interface {
		Claims(r *http.Request) (map[string]any, error)
	})
	if claim == "" || !ok || v.gateway.config.Tenants == nil {
		return errNoConnector
	}
	claims, err := sessions.Claims(v.r)
	if err == nil && (user.TenantID == "" || !identity.HasClaim(claims, claim, value)) {
		err = errNotAdmin
	}
	return err
}

// tenant shows the administrator of a tenant what there is of it, and changes what a form asks for.
func (v *visit) tenant() error {
	ctx, user, release, err := viewer(v)
	if err != nil {
		return err
	}
	defer release()
	if err := isAdmin(v, user); err != nil {
		return err
	}
	status, problem := http.StatusOK, ""
	if v.r.Method == http.MethodPost {
		if problem, err = changeTenant(ctx, v, user); err != nil {
			return err
		}
		if problem == "" {
			return v.redirect(http.StatusSeeOther, "/connect/tenant")
		}
		status = http.StatusUnprocessableEntity
	}
	view, err := v.gateway.config.Tenants.Tenant(ctx, user, v.r.URL.Query().Get("after"))
	if err != nil {
		return connectionProblem(err)
	}
	if v.page == nil {
		return v.json(view)
	}
	for i := range view.Connections {
		c := &view.Connections[i]
		c.User, c.Account = connectpage.Printable(c.User), connectpage.Printable(c.Account)
	}
	p := v.newPage("tenant")
	p.Connector, p.User, p.List, p.Problem = user.TenantID, nameOf(user), view, problem
	v.write(v.w, status, v.words.Render(v.w.Header(), p, v.gateway.config.Clock()))
	return nil
}

// changeTenant does what a form asks for.
func changeTenant(ctx context.Context, v *visit, admin host.User) (problem string, err error) {
	const maxForm = 64 << 10
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return "", &httpProblem{status: http.StatusBadRequest, kind: "bad-request", detail: "the form cannot be read: it has at most 64 KiB"}
	}
	form := v.r.PostForm
	switch form.Get("do") {
	case "end":
		err = v.gateway.config.Tenants.End(ctx, admin, form.Get("id"))
	case "give":
		if text := strings.TrimSpace(form.Get("text")); text != "" {
			problem, err = v.gateway.config.Tenants.Give(ctx, admin, form.Get("kind"), form.Get("name"), text)
		}
	case "remove":
		_, err = v.gateway.config.Tenants.Give(ctx, admin, form.Get("kind"), form.Get("name"), "")
	}
	if err != nil {
		err = connectionProblem(err)
	}
	return problem, err
}
