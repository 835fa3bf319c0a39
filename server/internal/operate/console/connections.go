package console

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/reach"
)

// connectionsView is the page of the connections of users. IDs of users are personal data, so that a form asks for them: they are in no
// address.
type connectionsView struct {
	// Counts has the connectors that users connect to.
	Counts []connectionCount
	// Seeds has the connectors whose grant begins with secrets of the operator, with the names of these.
	Seeds map[string][]string
	// Shared reports whether there is a store of state, and Problem says why it cannot be read, or is "".
	Shared  bool
	Problem string
	// Conditions are those that a filter can name.
	Conditions []host.Condition
	connections.Filter
	// HasResult reports whether Found has what the form asked for, and Cursor is that of the next page, or "".
	HasResult bool
	Found     []connections.Connection
	Cursor    string
	// MayAct reports whether the operator may end connections. Done says what was done, or is "".
	MayAct bool
	Done   string
}

// connectionCount has the numbers of connections to a connector, by their conditions.
type connectionCount struct {
	Permalink                            string
	Connected, Uncertain, Lost, Refusals int
}

// maxID limits the ID of a user that is asked for, in bytes.
const maxID = 256

// connections returns the view of the connections, with those that a form asks for.
func (c *Console) connections(s *State, r *http.Request) (any, error) {
	view := &connectionsView{Seeds: map[string][]string{}, Shared: c.config.Connections != nil && s.Set.State != nil, Conditions: connections.Conditions}
	operator := login.OperatorOf(r.Context())
	view.MayAct = operator.Allows(login.Act)
	if r.Method == http.MethodPost {
		if err := c.ask(view, operator, r); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, connector := range s.Set.Connectors {
		d := connector.Definition()
		if connector.Upstream().NeedsConsent() {
			names = append(names, d.Permalink)
			continue
		}
		for i, auth := range d.Auth {
			p, _ := s.Set.Host.Plugin(auth.Type)
			for _, state := range p.State {
				view.Seeds[d.Permalink] = append(view.Seeds[d.Permalink], connector.FieldSecrets()[reach.Field(d.Auth, i, state.Seed)]...)
			}
		}
	}
	if !view.Shared {
		return view, nil
	}
	counts, err := c.config.Connections.Counts(r.Context(), names...)
	if err != nil {
		view.Problem = host.Printable(err.Error())
	}
	for _, name := range names {
		n := counts[name]
		view.Counts = append(view.Counts, connectionCount{name, n[host.ConditionConnected], n[host.ConditionUncertain], n[host.ConditionLost], n[host.ConditionRefused]})
	}
	slices.SortStableFunc(view.Counts, func(a, b connectionCount) int { return b.Refusals + b.Lost - a.Refusals - a.Lost })
	return view, nil
}

// ask sets what a form asks for, and ends the connection that it names.
func (c *Console) ask(view *connectionsView, operator *login.Operator, r *http.Request) error {
	r.Body = http.MaxBytesReader(nil, r.Body, 8*maxID)
	if err := r.ParseForm(); err != nil {
		return &failure{http.StatusBadRequest, "", "the form cannot be read"}
	}
	value := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	view.Filter = connections.Filter{
		User: value("user"), Email: value("email"), Tenant: value("tenant"), Connector: value("connector"), Condition: host.Condition(value("condition")),
	}
	if !view.Shared {
		return &failure{http.StatusConflict, "", "there is no store of state, and so there are no connections"}
	}
	if operator.Tenant != "" {
		view.Tenant = operator.Tenant
	}
	view.HasResult = true
	if id := value("end"); id != "" {
		done, err := c.end(operator, r, id)
		if err != nil {
			return err
		}
		view.Done = done
	}
	err := c.config.Acts.Do(r.Context(), acts.FromRequest(r, "look", "connections"), func() (err error) {
		view.Found, view.Cursor, err = c.config.Connections.List(r.Context(), view.Filter, value("after"), pageSize)
		return err
	})
	if errors.Is(err, acts.ErrUnrecorded) {
		return away(err)
	}
	if err != nil {
		view.Problem = host.Printable(err.Error())
	}
	return nil
}

// away returns the page for a store that does not answer.
func away(err error) error {
	return &failure{http.StatusServiceUnavailable, "", host.Printable(err.Error())}
}

// end ends the connection with an ID, and says what was done.
func (c *Console) end(operator *login.Operator, r *http.Request, id string) (string, error) {
	one, ok, err := c.config.Connections.Get(r.Context(), id)
	switch {
	case err != nil:
		return "", away(err)
	case !ok || !operator.AllowsIn(login.Act, one.Tenant):
		return "", &failure{http.StatusNotFound, "", "there is no such connection, or this operator may not end it"}
	}
	err = c.config.Acts.Do(r.Context(), acts.FromRequest(r, "end", one.Connector+" "+id), func() error { return c.config.Connections.End(r.Context(), one) })
	done := fmt.Sprintf("The connection of %s to %s has ended.", one.User, one.Connector)
	switch {
	case errors.Is(err, acts.ErrUnrecorded):
		return "", away(err)
	case errors.Is(err, host.ErrNotRevoked):
		return done + " The authorization server may still hold it: revoke it there.", nil
	case err != nil:
		return "", &failure{http.StatusBadGateway, "The connection goes on", host.Printable(err.Error())}
	}
	return done, nil
}

type actsView struct {
	Acts []acts.Act
	acts.Filter
	// Kinds are the acts that a filter can name.
	Kinds []string
	// Next is the link to the next page, or "".
	Next    string
	Problem string
}

func (c *Console) acts(_ *State, r *http.Request) (any, error) {
	query := r.URL.Query()
	view := &actsView{
		Filter: acts.Filter{Who: query.Get("who"), Act: query.Get("act"), Target: query.Get("target")},
		Kinds:  []string{"login", "logout", "test", "look", "end", "set", "remove", "link", "check", "reload"},
	}
	all, next, err := c.config.Acts.ListFor(r.Context(), login.OperatorOf(r.Context()), view.Filter, query.Get("after"), pageSize)
	if err != nil {
		view.Problem = host.Printable(err.Error())
	}
	if view.Acts = all; next != "" {
		view.Next = linkTo(r, "after", next)
	}
	return view, nil
}
