package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/keywright/keywright/host"
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
	view.Next = next
	for _, c := range found {
		name := c.Connector
		if connector := a.d.connector(c.Connector); connector != nil {
			name = connector.Definition().Name
		}
		view.Connections = append(view.Connections, gateway.TenantConnection{
			ID: c.ID, Connector: name, User: c.User, Account: c.Account, Condition: c.Condition, Since: c.Since, Used: c.Used,
		})
	}
	texts, listErr := p.tenants.List(ctx, admin.TenantID)
	for _, t := range texts {
		view.Texts = append(view.Texts, gateway.TenantText(t))
	}
	if !errors.Is(listErr, tenants.ErrNoStore) {
		err = errors.Join(err, listErr)
	}
	return view, err
}

// End implements [gateway.Tenants].
func (a administrators) End(ctx context.Context, admin host.User, id string) error {
	one, ok, err := a.d.people.connections.Get(ctx, id)
	if err != nil || !ok || one.Tenant != admin.TenantID {
		return errors.Join(err, errors.New("the tenant has no such connection"))
	}
	_, err = a.act(ctx, admin, "end", one.Connector+" "+id, func() error {
		if err := a.d.people.connections.End(ctx, one); !errors.Is(err, host.ErrNotRevoked) {
			return err
		}
		return nil // the page of the user's account at the provider shows it
	})
	return err
}

// Give implements [gateway.Tenants].
func (a administrators) Give(ctx context.Context, admin host.User, kind, name, text string) (problem string, err error) {
	target := fmt.Sprintf("tenant %s/%s %s", admin.TenantID, kind, host.Printable(name))
	if text == "" {
		return a.act(ctx, admin, "remove", target, func() error { return a.d.people.tenants.Remove(ctx, admin.TenantID, kind, name, admin.ID) })
	}
	return a.act(ctx, admin, "set", target, func() error { return a.d.people.tenants.Set(ctx, admin.TenantID, kind, name, text, admin.ID) })
}

// act records what an administrator does.
func (a administrators) act(ctx context.Context, admin host.User, act, target string, do func() error) (problem string, err error) {
	end, err := a.d.people.acts.Begin(ctx, acts.Act{Who: "tenant " + admin.TenantID + ": " + admin.ID, Act: act, Target: target})
	if err != nil {
		return "", err
	}
	err = do()
	var tryErr *tenants.TryError
	switch {
	case errors.As(err, &tryErr):
		end("does not work, not kept")
		return tryErr.Error(), nil
	case err != nil:
		end("failed")
		return "", err
	}
	end(acts.Done)
	return "", nil
}
