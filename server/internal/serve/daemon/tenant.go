package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/tenants"
)

// administrators lets the administrators of tenants do what they may. It implements [gateway.Tenants].
type administrators struct{ d *daemon }

// Tenant implements [gateway.Tenants].
func (a administrators) Tenant(ctx context.Context, admin host.User, cursor string) (view gateway.TenantView, err error) {
	const pageSize = 50
	p := a.d.people
	found, next, err := p.connections.List(ctx, connections.Filter{Tenant: admin.TenantID}, cursor, pageSize)
	view.Next, view.Connections = next, []gateway.TenantConnection{}
	for _, c := range found {
		name := c.Connector
		if connector, err := a.d.current().Find(name); err == nil {
			name = connector.Definition().Name
		}
		view.Connections = append(view.Connections, gateway.TenantConnection{
			ID: c.ID, Connector: name, User: c.User, Account: c.Account, Condition: c.Condition, Since: c.Since, Used: c.Used,
		})
	}
	texts, listErr := p.tenants.List(ctx, admin.TenantID)
	view.Texts = append([]gateway.TenantText{}, texts...)
	if !errors.Is(listErr, tenants.ErrNoStore) {
		err = errors.Join(err, listErr)
	}
	return view, err
}

// End implements [gateway.Tenants].
func (a administrators) End(ctx context.Context, admin host.User, id string) error {
	one, ok, err := a.d.people.connections.Get(ctx, id)
	if err != nil || !ok || one.Tenant != admin.TenantID { // it may have ended since the page was shown
		return err
	}
	err = a.act(ctx, admin, "end", one.Connector+" "+id, func() error { return a.d.people.connections.End(ctx, one) })
	if errors.Is(err, host.ErrNotRevoked) {
		return nil // the page of the user's account at the provider shows it
	}
	return err
}

// Give implements [gateway.Tenants].
func (a administrators) Give(ctx context.Context, admin host.User, kind, name, text string) (problem string, err error) {
	act, do := "set", func() error { return a.d.people.tenants.Set(ctx, admin.TenantID, kind, name, text, admin.ID) }
	if text == "" {
		act, do = "remove", func() error { return a.d.people.tenants.Remove(ctx, admin.TenantID, kind, name, admin.ID) }
	}
	err = a.act(ctx, admin, act, fmt.Sprintf("tenant %s/%s %s", admin.TenantID, kind, host.Printable(name)), do)
	if err == nil || errors.Is(err, acts.ErrUnrecorded) || errors.Is(err, state.ErrUnavailable) {
		return "", err
	}
	return host.Printable(err.Error()), nil
}

// act records what an administrator does.
func (a administrators) act(ctx context.Context, admin host.User, act, target string, do func() error) error {
	return a.d.people.acts.Do(ctx, acts.Act{Who: "tenant " + admin.TenantID + ": " + admin.ID, Act: act, Target: target}, do)
}
