package console

import (
	"net/http"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/identity"
)

// sessionsView is the page of the sessions of users.
type sessionsView struct {
	identity.Config
	identity.Keys
	// ReadAgo is the time since the keys were read, and Problem the error of the last attempt.
	ReadAgo time.Duration
	Problem string
	Rows    []keyRow
	// Ends is the end of the certificate that callers see, or zero.
	Ends     time.Time
	EndsIn   time.Duration
	Ended    bool
	EndsSoon bool
}

// keyRow is a key that verifies tokens.
type keyRow struct {
	identity.Key
	Age time.Duration
}

// soon is the time before the end of a certificate from which the page warns.
const soon = 14 * 24 * time.Hour

// sessions returns the view of the sessions.
func (c *Console) sessions(s *State, _ *http.Request) (any, error) {
	now := c.config.Clock()
	view := &sessionsView{Config: s.Set.Settings.User, Ends: s.CertificateEnds}
	if !view.Ends.IsZero() {
		view.EndsIn = view.Ends.Sub(now)
		view.Ended, view.EndsSoon = view.EndsIn <= 0, view.EndsIn < soon
	}
	if s.Sessions == nil {
		return view, nil
	}
	view.Keys = s.Sessions.Keys()
	view.ReadAgo = now.Sub(view.Read)
	if view.Err != nil {
		view.Problem = host.Printable(view.Err.Error())
	}
	for _, k := range view.List {
		view.Rows = append(view.Rows, keyRow{k, now.Sub(k.First)})
	}
	return view, nil
}
