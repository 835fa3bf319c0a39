package console

import "net/http"

// configurationView is the page of the configuration.
type configurationView struct {
	*State
	// Secrets is the number of secrets that connectors name.
	Secrets int
}

// configuration returns the view of the configuration.
func (c *Console) configuration(s *State, _ *http.Request) (any, error) {
	secrets := map[string]bool{}
	for _, connector := range s.Set.Connectors {
		for _, secret := range connector.Secrets() {
			secrets[secret] = true
		}
	}
	return &configurationView{s, len(secrets)}, nil
}
