package console

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/login"
)

type failuresView struct {
	Groups []*activity.Group
	paging
	// Connector is the permalink of the only connector that is shown, or "". Link leads to all times, or to the last minutes alone.
	Connector string
	Link      link
}

func (c *Console) failures(s *State, r *http.Request) (any, error) {
	view := &failuresView{Connector: r.URL.Query().Get("connector"), Link: link{"Only the last 15 minutes", linkTo(r, "show", "now"), false}}
	now := r.URL.Query().Get("show") == "now"
	if now {
		view.Link = link{"All times", linkTo(r, "show", "all"), false}
	}
	all := slices.DeleteFunc(s.view.Groups(), func(g *activity.Group) bool {
		return view.Connector != "" && g.Connector != view.Connector || now && g.Lately() == 0
	})
	view.Groups, view.paging = paged(r, all)
	return view, nil
}

// requestID matches a request id in what an operator pastes, such as a line of a log.
var requestID = regexp.MustCompile(`[0-9a-f]{32}`)

// request returns the view of the failure with the request id in the path.
func (c *Console) request(s *State, r *http.Request) (any, error) {
	id := r.PathValue("id")
	f, err := c.config.Find(r.Context(), id)
	switch {
	case err != nil:
		return nil, &failure{http.StatusServiceUnavailable, "The store cannot be asked", "this process does not have the failure, and the store does not answer: " + host.Printable(err.Error())}
	case f == nil:
		return nil, &failure{http.StatusNotFound, "Not found", activity.NotFound(id, s.note)}
	}
	return f.Hide(login.OperatorOf(r.Context()).Sees), nil
}

// findRequest leads to the page of the request id that a form names.
func findRequest(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimSpace(r.URL.Query().Get("id"))
	if match := requestID.FindString(strings.ToLower(id)); match != "" {
		id = match
	}
	http.Redirect(w, r, "/requests/"+url.PathEscape(cmp.Or(id, "none")), http.StatusSeeOther)
}

func (c *Console) nodes(s *State, _ *http.Request) (any, error) { return s.view, nil }

// clock returns a time of today as hours, minutes and seconds, and another one with its date.
func clock(now, t time.Time) string {
	if now, t = now.UTC(), t.UTC(); now.Sub(t) > 20*time.Hour {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04:05")
}
