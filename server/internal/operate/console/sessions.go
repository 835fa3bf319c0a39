package console

import (
	"net/http"
	"time"

	"github.com/keywright/keywright/server/identity"
)

// sessionsView is the page of the sessions of users.
type sessionsView struct {
	identity.Config
	identity.Keys
	// Ends is the end of the certificate that callers see, or zero.
	Ends time.Time
}

// sessions returns the view of the sessions.
func (c *Console) sessions(s *State, _ *http.Request) (any, error) {
	view := &sessionsView{Config: s.Set.Settings.User, Ends: s.CertificateEnds}
	if s.Sessions != nil {
		view.Keys = s.Sessions.Keys()
	}
	return view, nil
}
