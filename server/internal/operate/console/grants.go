package console

import (
	"net/http"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/reach"
)

// grantsView is the page of the grants. The IDs of users are personal data, so that it shows the one only that was asked for.
type grantsView struct {
	Connectors []grantRow
	paging
	// User and Tenant are those that were asked for.
	User, Tenant string
	// Asked reports whether Connectors have the conditions of User.
	Asked bool
}

type grantRow struct {
	Permalink, Name string
	// Consents reports whether users give their consent to it. Otherwise its grant begins with a secret.
	Consents bool
	// Seeds are the secrets with which its grant begins.
	Seeds []string
	// Users counts the users whose requests this process has seen.
	Users activity.UserCounts
	// Condition is that of the user who was asked for, or empty.
	Condition host.Condition
	// Age is the time since the grant changed last.
	Age string
	// Problem says why there is no condition.
	Problem string
}

// Good reports whether requests can be authenticated.
func (g *grantRow) Good() bool { return g.Condition == host.ConditionConnected }

// Ended reports whether the grant has to be renewed.
func (g *grantRow) Ended() bool {
	return g.Condition == host.ConditionLost || g.Condition == host.ConditionRefused
}

// maxID limits the ID of a user that is asked for, in bytes.
const maxID = 256

// grants returns the view of the grants, with the conditions of a user for a form that names one.
func (c *Console) grants(s *State, r *http.Request) (any, error) {
	view := &grantsView{}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(nil, r.Body, 4*maxID)
		if err := r.ParseForm(); err != nil {
			return nil, &failure{http.StatusBadRequest, "", "the form cannot be read"}
		}
		view.User, view.Tenant = strings.TrimSpace(r.PostForm.Get("user")), strings.TrimSpace(r.PostForm.Get("tenant"))
		if len(view.User) > maxID || len(view.Tenant) > maxID {
			return nil, &failure{http.StatusBadRequest, "", "the ID is too long"}
		}
		view.Asked = view.User != ""
	}
	ctx := host.WithUser(r.Context(), host.User{ID: view.User, TenantID: view.Tenant})
	for _, connector := range s.Set.Connectors {
		d := connector.Definition()
		consents := connector.Upstream().NeedsConsent()
		row := grantRow{Permalink: d.Permalink, Name: d.Name, Consents: consents, Users: c.config.Recorder.Users(d.Permalink)}
		states := 0
		for i, auth := range d.Auth {
			p, _ := s.Set.Host.Plugin(auth.Type)
			states += len(p.State)
			for _, state := range p.State {
				row.Seeds = append(row.Seeds, connector.FieldSecrets()[reach.Field(d.Auth, i, state.Seed)]...)
			}
		}
		if !consents && states == 0 {
			continue
		}
		if consents && view.Asked {
			if found, err := connector.Upstream().Connection(ctx); err != nil {
				row.Problem = host.Printable(err.Error())
			} else if row.Condition = found.Condition; found.Condition != host.ConditionNotConnected {
				row.Age = lasts(found.Age)
			}
		}
		view.Connectors = append(view.Connectors, row)
	}
	view.Connectors, view.paging = paged(r, view.Connectors)
	return view, nil
}
