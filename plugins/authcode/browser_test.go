package main

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

// A browser sees no secret: one that it would see is a problem when the connector is loaded (threats.md 127).
func TestTheBrowserSeesNoSecret(t *testing.T) {
	for path, c := range map[string]hosttest.Config{
		"auth.config.client_id":         config("client_id", "{{ get_secret('crm') }}"),
		"auth.config.scope":             config("scope", "read {{ get_secret('crm') }}"),
		"auth.config":                   config("authorization_parameters", map[string]any{"x": []any{"{{ get_secret('crm') }}"}}),
		"auth.config.authorization_url": config("authorization_url", "https://login.test/?a={{ get_secret('crm') }}"),
		"auth.config.issuer":            config("issuer", "https://login.test/{{ get_secret('crm') }}"),
	} {
		run.Case(t, path, func(t *testing.T, h *hosttest.Harness) {
			problems := h.Problems(c)
			if len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Message, "a secret is in the authorization request") {
				t.Errorf("the problems are %+v", problems)
			}
		})
	}
}

// No configuration sets what the host does (threats.md 127).
func TestReservedParameters(t *testing.T) {
	for name, c := range map[string]hosttest.Config{
		"state":    config("authorization_url", "https://login.test/?state=mine"),
		"template": config("authorization_parameters", map[string]any{"x": "y"}, "authorization_url", "{{ get_variable('v') }}"),
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.Variable("v", "https://login.test/?response_type=token")
			err := h.Consent(c, func(u *url.URL) url.Values {
				t.Errorf("the browser goes to %s", u)
				return url.Values{}
			})
			var failure *host.Error
			if !errors.As(err, &failure) || failure.Stage != host.StageConfig {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
