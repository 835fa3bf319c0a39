package languages

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

const (
	tokenURL = "https://login.test/token"
	apiURL   = "https://api.test/v1/orders"
)

func tokenConfig(clientID string) hosttest.Config {
	return hosttest.Config{"client_id": clientID, "client_secret": "{{ get_secret('crm') }}", "token_url": tokenURL}
}

// sendWithToken sends a request with a token of the client, and returns its header Authorization.
func sendWithToken(h *hosttest.Harness, clientID string) string {
	return h.Authenticate(tokenConfig(clientID), hosttest.GET(apiURL)).Header("Authorization")
}

// TestASToken runs all tests of the plugin. It compiles the plugin only once, because that takes seconds.
func TestASToken(t *testing.T) {
	module := compile(t, "assembly/token.ts")
	t.Run("module is small and imports nothing beyond the contract", func(t *testing.T) {
		wasm := read(t, module)
		if len(wasm) > 12<<10 {
			t.Errorf("the module has %d bytes, want 12 kB at most", len(wasm))
		}
		checkImports(t, wasm)
	})
	for name, test := range map[string]func(*testing.T, *hosttest.Harness){
		"describe":                            testDescribe,
		"validate":                            testValidate,
		"token is requested, cached and sent": testTokenIsCached,
		"token that is not cached":            testTokenThatIsNotCached,
		"token endpoint refuses":              testTokenEndpointRefuses,
		"token of another type":               testTokenOfAnotherType,
	} {
		t.Run(name, func(t *testing.T) { hosttest.Run(t, nil, module, test) })
	}
}

func testDescribe(t *testing.T, h *hosttest.Harness) {
	got := h.Description()
	if got.Type != "as_token" || len(got.Fields) != 3 {
		t.Errorf("the plugin is %q with %d fields, want as_token with 3", got.Type, len(got.Fields))
	}
	// The summary is not ASCII, so that its length in UTF-16 differs from its length in bytes.
	if want := "A bearer token, by AssemblyScript – not Go."; got.Summary != want {
		t.Errorf("the summary is %q, want %q", got.Summary, want)
	}
}

func testValidate(t *testing.T, h *hosttest.Harness) {
	h.Canary("crm")
	h.Variable("id", "crm")
	for clientID, want := range map[string][]host.Problem{
		"{{ get_variable('id') }}": nil,
		"zoë":                      {{Path: "auth.config.client_id", Message: "only printable ASCII, RFC 6749 A.1"}},
	} {
		if got := h.Problems(tokenConfig(clientID)); !slices.Equal(got, want) {
			t.Errorf("%s: problems = %v, want %v", clientID, got, want)
		}
	}
}

func testTokenIsCached(t *testing.T, h *hosttest.Harness) {
	const clientID = `crm "north" \ 1` // must be escaped in JSON
	secret := h.Canary("crm")
	h.TokenEndpoint(tokenURL, hosttest.Token("the-first-token", 3600), hosttest.Token("the-second-token", 3600))
	for _, step := range []struct {
		pause time.Duration
		want  string
	}{{0, "Bearer the-first-token"}, {3539 * time.Second, "Bearer the-first-token"}, {time.Second, "Bearer the-second-token"}} {
		h.Advance(step.pause)
		if got := sendWithToken(h, clientID); got != step.want {
			t.Errorf("after %v: Authorization = %s, want %s", step.pause, got, step.want)
		}
	}
	want := url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID}, "client_secret": {secret}}
	for _, exchange := range h.Exchanges() {
		if diff := cmp.Diff(want, exchange.Form); diff != "" {
			t.Errorf("what the token endpoint was sent (-want +got):\n%s", diff)
		}
	}
}

func testTokenThatIsNotCached(t *testing.T, h *hosttest.Harness) {
	h.Canary("crm")
	for name, rest := range map[string]string{
		"no expires_in":       ``,
		"expires_in 60":       `,"expires_in":60`,
		"expires_in negative": `,"expires_in":-5`, // threats.md 33
	} {
		token := func(name string) hosttest.Answer {
			return hosttest.JSON(http.StatusOK, fmt.Sprintf(`{"access_token":%q%s}`, name, rest))
		}
		h.TokenEndpoint(tokenURL, token("the-first-token"), token("the-second-token"))
		for _, want := range []string{"Bearer the-first-token", "Bearer the-second-token"} {
			if got := sendWithToken(h, "crm"); got != want {
				t.Errorf("%s: Authorization = %s, want %s", name, got, want)
			}
		}
	}
}

func testTokenEndpointRefuses(t *testing.T, h *hosttest.Harness) {
	secret := h.Canary("crm") // which the endpoint repeats, and which appears nowhere (threats.md 20)
	h.TokenEndpoint(tokenURL, hosttest.JSON(http.StatusUnauthorized, fmt.Sprintf(`{"error":"invalid_client","error_description":%q}`, secret)))
	err := h.AuthenticateError(tokenConfig("crm"), hosttest.GET(apiURL))
	if err.AuthType != "as_token" || err.Stage != host.StageToken {
		t.Errorf("err = %v, want one of type as_token, at stage token", err)
	}
	var answer *host.TokenError
	if !errors.As(err, &answer) || answer.Status != http.StatusUnauthorized || answer.Code != "invalid_client" {
		t.Errorf("err = %v, want a host.TokenError with 401 invalid_client", err)
	}
}

func testTokenOfAnotherType(t *testing.T, h *hosttest.Harness) {
	h.Canary("crm")
	h.TokenEndpoint(tokenURL, hosttest.JSON(http.StatusOK, `{"access_token":"the-access-token","token_type":"mac","expires_in":3600}`))
	err := h.AuthenticateError(tokenConfig("crm"), hosttest.GET(apiURL))
	if want := "the token is of no use as a bearer token"; !strings.Contains(err.Error(), want) {
		t.Errorf("err = %v, want %q", err, want)
	}
}
