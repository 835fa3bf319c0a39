package console

import (
	"net/http"

	"github.com/keywright/keywright/host"
)

// connectorView is the page of one connector.
type connectorView struct {
	connectorRow
}

// connector returns the view of the connector in the path of a request.
func (c *Console) connector(s *State, r *http.Request) (any, error) {
	permalink := r.PathValue("permalink")
	for _, connector := range s.Set.Connectors {
		if d := connector.Definition(); d.Permalink == permalink {
			return &connectorView{connectorRow{d.Permalink, d.Name, d.Auth.Type}}, nil
		}
	}
	return nil, notFound("there is no connector %q", host.Printable(permalink))
}
