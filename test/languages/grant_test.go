package languages

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

const grantURL = "https://login.test/oauth"

var grantConfig = hosttest.Config{"authorization_url": "https://login.test/authorize", "token_url": grantURL, "client_id": `me "and" you`}

// eachLanguage runs tests with a plugin in C, in AssemblyScript and in Rust.
func eachLanguage(t *testing.T, plugin string, tests map[string]func(*testing.T, *hosttest.Harness)) {
	t.Helper()
	for language, source := range map[string]string{"C": "c/" + plugin + ".c", "AssemblyScript": "assembly/" + plugin + ".ts", "Rust": "rust/" + plugin + ".rs"} {
		t.Run(language, func(t *testing.T) {
			module := compile(t, source)
			for name, test := range tests {
				t.Run(name, func(t *testing.T) { hosttest.Run(t, nil, module, test) })
			}
		})
	}
}

// issue returns the answers of the token endpoint: the nth one issues the nth tokens.
func issue(h *hosttest.Harness) hosttest.Answer {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		n++
		access, refresh := fmt.Sprintf("access-token-%d", n), fmt.Sprintf("refresh-token-%d", n)
		h.Secret("the access token", access)
		h.Secret("the refresh token", refresh)
		return hosttest.JSON(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"expires_in":300}`, access, refresh))(r)
	}
}

// consent has a user give consent, and returns the page that the browser was sent to.
func consent(t *testing.T, h *hosttest.Harness) (page *url.URL) {
	t.Helper()
	h.As(host.User{ID: "ann"})
	testworld.Check(t, h.Consent(grantConfig, func(request *url.URL) url.Values {
		page = request
		return url.Values{"code": {"the-code-of-the-user"}, "iss": {"https://login.test"}}
	}))
	return page
}

// A plugin in any of these languages asks for consent, keeps the refresh token that rotates, and revokes it.
func TestGrant(t *testing.T) {
	eachLanguage(t, "grant", map[string]func(*testing.T, *hosttest.Harness){
		"a grant is kept until it is revoked": testGrantIsKept,
		"the server refuses a grant":          testGrantRefused,
		"an answer without iss is refused":    testConsentWithoutIssuer,
		"a request is pushed":                 testPushedRequest,
	})
}

func testGrantIsKept(t *testing.T, h *hosttest.Harness) {
	h.TokenEndpoint(grantURL, issue(h))
	page := consent(t, h).Query()
	if page.Get("client_id") != grantConfig["client_id"] || page.Get("scope") != `read "all" & é` || page.Get("code_challenge") == "" {
		t.Errorf("the browser was sent to a page with %v", page)
	}
	form := h.Exchanges()[0].Form
	if form.Get("grant_type") != "authorization_code" || form.Get("code") != "the-code-of-the-user" || form.Get("code_verifier") == "" || form.Get("redirect_uri") == "" {
		t.Errorf("the code was exchanged with %v", form)
	}

	for range 2 {
		for range 2 { // the second request has the token of the cache
			h.Authenticate(grantConfig, hosttest.GET("https://api.test/v1"))
		}
		h.Advance(301 * time.Second)
	}
	got := h.Authenticate(grantConfig, hosttest.GET("https://api.test/v1")).Header("Authorization")
	if got != "Bearer access-token-4" {
		t.Errorf("Authorization is %q", got)
	}
	for i, exchange := range h.Exchanges()[1:] {
		if want := fmt.Sprintf("refresh-token-%d", i+1); exchange.Form.Get("refresh_token") != want {
			t.Errorf("exchange %d sent %v, want %s", i+1, exchange.Form, want)
		}
	}

	revoke := grantURL + "/grants/a%2Fb?all=1"
	h.TokenEndpoint(revoke, hosttest.JSON(http.StatusOK, `{"refresh_token":"x-refresh-token","access_token":"x-access-token"}`))
	testworld.Check(t, h.Disconnect(grantConfig))
	last := h.Exchanges()[len(h.Exchanges())-1]
	if last.Method != http.MethodDelete || last.Body != `{"token":"refresh-token-4"}` || last.URL != revoke {
		t.Errorf("the grant was revoked with %s %s %s", last.Method, last.URL, last.Body)
	}
	if err := h.AuthenticateError(grantConfig, hosttest.GET("https://api.test/v1")); !strings.Contains(err.Error(), "connect first") {
		t.Errorf("after the grant is gone, the error is %v", err)
	}
}

func testGrantRefused(t *testing.T, h *hosttest.Harness) {
	h.TokenEndpoint(grantURL, issue(h))
	consent(t, h)
	h.TokenEndpoint(grantURL, hosttest.JSON(http.StatusTooManyRequests, `{"error":"slow_down"}`))
	err := h.AuthenticateError(grantConfig, hosttest.GET("https://api.test/v1"))
	if !strings.Contains(err.Error(), "429") {
		t.Errorf("the error is %v, want one with 429", err)
	}
}

func testConsentWithoutIssuer(t *testing.T, h *hosttest.Harness) {
	h.As(host.User{ID: "ann"})
	for _, answer := range []url.Values{{"code": {"the-code-of-the-user"}}, {"code": {"the-code-of-the-user"}, "iss": {"https://evil.test"}}} {
		if err := h.Consent(grantConfig, func(*url.URL) url.Values { return answer }); err == nil || len(h.Exchanges()) > 0 {
			t.Errorf("after %v the error is %v, and the code was exchanged %d times", answer, err, len(h.Exchanges()))
		}
	}
}

func testPushedRequest(t *testing.T, h *hosttest.Harness) {
	const pushes = "https://login.test/par"
	h.As(host.User{ID: "ann"})
	h.Canary("client")
	h.TokenEndpoint(grantURL, issue(h))
	h.TokenEndpoint(pushes, hosttest.JSON(http.StatusCreated, `{"request_uri":"urn:a"}`))
	config := maps.Clone(grantConfig)
	config["par_url"], config["secret"] = pushes, "{{ get_secret('client') }}"
	testworld.Check(t, h.Consent(config, func(page *url.URL) url.Values {
		if got := page.Query(); got.Get("request_uri") != "urn:a" || got.Get("client_id") != grantConfig["client_id"] || len(got) != 2 {
			t.Errorf("the browser was sent to a page with %v", got)
		}
		return url.Values{"code": {"the-code-of-the-user"}, "iss": {"https://login.test"}, "state": h.Exchanges()[0].Form["state"]}
	}))
	got := h.Exchanges()[0]
	if got.Form.Get("client_secret") == "" || got.Form.Get("scope") != `read "all" & é` || got.Form.Get("code_challenge") == "" || got.Header.Get("X-Version") != "2" {
		t.Errorf("pushed = %v with %v", got.Form, got.Header)
	}
}
