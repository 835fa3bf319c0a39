package console

import (
	"net/http"
	"time"

	"github.com/keywright/keywright/server/internal/difference"
)

// configurationView is the page of the configuration.
type configurationView struct {
	File string
	// Used is the time at which the configuration came into use, and For the time since then.
	Used time.Time
	For  time.Duration
	// Refused is the time at which the file on disk was first refused, or zero.
	Refused  time.Time
	Problems []Problem
	// Waiting says what the file on disk would change, and Changed what the one in use has changed. Both may be nil.
	Waiting, Changed *difference.Document
	// SHA256 is the digest of the file in use.
	SHA256 string
	// Files are the files that the file names.
	Files      []string
	Connectors int
	Plugins    int
	Secrets    int
	Store      bool
	TLS        bool
	AccessLog  bool
	Traces     string
	Hosts      []string
	Origins    []string
}

// configuration returns the view of the configuration.
func (c *Console) configuration(s *State, _ *http.Request) (any, error) {
	settings := s.Set.Settings
	named := map[string]bool{}
	for _, connector := range s.Set.Connectors {
		for _, secret := range connector.Secrets() {
			named[secret] = true
		}
	}
	return &configurationView{
		File: s.File, Used: s.Used, For: c.config.Clock().Sub(s.Used), Refused: s.Refused, Problems: s.Problems, Waiting: s.Waiting, Changed: s.Changed,
		SHA256: s.Set.SHA256, Files: s.Set.Files,
		Connectors: len(s.Set.Connectors), Plugins: len(s.Set.Host.Plugins()), Secrets: len(named), Store: s.Set.State != nil,
		TLS: !s.CertificateEnds.IsZero(), AccessLog: settings.AccessLog, Traces: settings.Traces, Hosts: settings.Hosts, Origins: settings.Origins,
	}, nil
}
