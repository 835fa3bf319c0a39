package console

import (
	"net/http"

	"github.com/keywright/keywright/host"
)

// connectorView is the page of one connector.
type connectorView struct {
	connectorRow
	// Failures are the last failures, the newest first.
	Failures []Failure
}

// connector returns the view of the connector in the path of a request.
func (c *Console) connector(s *State, r *http.Request) (any, error) {
	permalink := r.PathValue("permalink")
	for _, connector := range s.Set.Connectors {
		if connector.Definition().Permalink == permalink {
			return &connectorView{c.row(r.Context(), s, connector), c.config.Recorder.failures(permalink)}, nil
		}
	}
	return nil, notFound("there is no connector %q", host.Printable(permalink))
}
