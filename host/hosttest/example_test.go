package hosttest_test

import (
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/sdk"
)

// plugin replaces the plugin that is tested.
type plugin struct{}

func (plugin) Describe() sdk.Description { return sdk.Description{} }

func (plugin) Authenticate(*sdk.Call) (sdk.Mutation, error) { return sdk.Mutation{}, nil }

// TestAuthenticate would be in main_test.go, beside the plugin.
func Example() {
	TestAuthenticate := func(t *testing.T) {
		hosttest.Run(t, plugin{}, "oauthcc.wasm", func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm") // a secret that must not leak
			h.TokenEndpoint("https://login.test/token", hosttest.Token("first-token", 300), hosttest.Token("second-token", 300))
			config := hosttest.Config{
				"client_id": "me", "client_secret": "{{ get_secret('crm') }}", "token_url": "https://login.test/token",
			}
			for _, step := range []struct {
				pass time.Duration
				want string
			}{
				{0, "Bearer first-token"},
				{239 * time.Second, "Bearer first-token"},
				{time.Second, "Bearer second-token"},
			} {
				h.Advance(step.pass)
				got := h.Authenticate(config, hosttest.GET("https://api.test/v1"))
				if got.Header("Authorization") != step.want {
					t.Errorf("after %s: %s", step.pass, got.Header("Authorization"))
				}
			}
			if n := len(h.Exchanges()); n != 2 {
				t.Errorf("%d exchanges", n)
			}
		})
	}
	_ = TestAuthenticate
}

// AuthenticateError returns the error of a request that must not be sent, and Problems the problems of a configuration.
func ExampleHarness_AuthenticateError() {
	TestErrors := func(t *testing.T) {
		hosttest.Run(t, plugin{}, "oauthcc.wasm", func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.TokenEndpoint("https://login.test/token", hosttest.JSON(401, `{"error":"invalid_client"}`))
			err := h.AuthenticateError(hosttest.Config{
				"client_id": "me", "client_secret": "{{ get_secret('crm') }}", "token_url": "https://login.test/token",
			}, hosttest.GET("https://api.test/v1"))
			if err.Stage != "token" {
				t.Error(err)
			}
			for _, problem := range h.Problems(hosttest.Config{"client_id": "me"}) {
				t.Logf("%s: %s", problem.Path, problem.Message)
			}
		})
	}
	_ = TestErrors
}
