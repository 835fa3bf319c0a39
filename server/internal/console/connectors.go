package console

import "net/http"

// connectorsView is the page of all connectors.
type connectorsView struct {
	Connectors []connectorRow
}

// connectorRow is a connector in the list.
type connectorRow struct {
	Permalink, Name, Type string
}

// connectors returns the view of all connectors.
func (c *Console) connectors(s *State, _ *http.Request) (any, error) {
	view := &connectorsView{}
	for _, connector := range s.Set.Connectors {
		d := connector.Definition()
		view.Connectors = append(view.Connectors, connectorRow{d.Permalink, d.Name, d.Auth.Type})
	}
	return view, nil
}
