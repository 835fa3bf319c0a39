package main

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	pushes    = "https://login.test/par"
	reference = "urn:ietf:params:oauth:request_uri:of-this-request"
)

// The server gets the whole request from the host, with what authenticates the client, and the browser brings its reference and nothing
// else (RFC 9126 sections 2.1 and 4). The code is redeemed with the verifier of what was pushed (specification.md 3.47). threats.md 470
func TestPushedRequests(t *testing.T) {
	for name, test := range map[string]struct {
		config hosttest.Config
		form   url.Values
		basic  string
	}{
		"post": {config("par_url", pushes), url.Values{"client_id": {"me"}, "client_secret": {"a secret of the client"}, "scope": {"read write"}}, ""},
		"basic, and further parameters": {
			config("par_url", pushes, "client_auth", "client_secret_basic", "scope", nil, "resource", "urn:a urn:b", "authorization_parameters", map[string]any{"prompt": "login"}),
			url.Values{"client_id": {"me"}, "resource": {"urn:a", "urn:b"}, "prompt": {"login"}},
			"bWU6YStzZWNyZXQrb2YrdGhlK2NsaWVudA==",
		},
		"public": {config("par_url", pushes, "client_auth", "none", "client_secret", nil, "scope", nil), url.Values{"client_id": {"me"}}, ""},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", "a secret of the client")
			h.TokenEndpoint(pushes, hosttest.JSON(201, `{"request_uri":"`+reference+`","expires_in":60}`))
			h.TokenEndpoint(endpoint, tokens("access_token", "the-first-access-token"))
			err := h.Consent(test.config, func(u *url.URL) url.Values {
				want := url.Values{"tenant": {"one"}, "client_id": {"me"}, "request_uri": {reference}}
				if u.RawQuery != want.Encode() && u.Query().Encode() != want.Encode() {
					t.Errorf("the browser brings %s", u.RawQuery)
				}
				return url.Values{"code": {"the-code-of-the-user"}, "state": h.Exchanges()[0].Form["state"]}
			})
			if err != nil {
				t.Fatal(err)
			}
			pushed, redeemed := h.Exchanges()[0], h.Exchanges()[1]
			challenge := sha256.Sum256([]byte(redeemed.Form.Get("code_verifier")))
			want := maps.Clone(test.form)
			maps.Copy(want, url.Values{
				"response_type": {"code"}, "redirect_uri": redeemed.Form["redirect_uri"], "state": pushed.Form["state"], "nonce": pushed.Form["nonce"],
				"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
			})
			basic := strings.TrimPrefix(pushed.Header.Get("Authorization"), "Basic ")
			if pushed.URL != pushes || pushed.Form.Encode() != want.Encode() || len(pushed.Form.Get("state")) < 43 || len(pushed.Form.Get("nonce")) < 43 || basic != test.basic {
				t.Errorf("%s gets %s, with %q\nwant %s", pushed.URL, pushed.Form.Encode(), basic, want.Encode())
			}
		})
	}
}

// An answer without a reference that a browser may bring ends the consent, and the browser goes nowhere. threats.md 470
func TestRefusedPushes(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"refused":           {400, `{"error":"invalid_client"}`, "is not pushed (RFC 9126): the endpoint for pushed requests answered 400 (invalid_client)"},
		"redirect":          {302, `{"request_uri":"` + reference + `"}`, "302"},
		"no JSON":           {201, `<p>`, "without a request_uri"},
		"none":              {201, `{}`, "without a request_uri"},
		"no text":           {201, `{"request_uri":["` + reference + `"]}`, "without a request_uri"},
		"a page":            {201, `{"request_uri":"https://evil.test/request"}`, "no URN"},
		"long":              {201, `{"request_uri":"` + reference + strings.Repeat("x", 512) + `"}`, "no URN"},
		"more parameters":   {201, `{"request_uri":"urn:a b"}`, "no URN"},
		"a line break":      {201, `{"request_uri":"urn:a\nb"}`, "no URN"},
		"the client secret": {201, `{"request_uri":"urn:a-canary-of-the-client"}`, "has a secret in it"},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", "a-canary-of-the-client")
			h.TokenEndpoint(pushes, hosttest.JSON(test.status, test.body))
			err := h.Consent(config("par_url", pushes), func(u *url.URL) url.Values {
				t.Errorf("the browser goes to %s", u)
				return grants(u)
			})
			if failure := (*host.Error)(nil); !errors.As(err, &failure) || failure.Stage != host.StageToken || !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v, want %q", err, test.want)
			}
		})
	}
}

// fapi returns a configuration of FAPI 2.0.
func fapi(pairs ...any) hosttest.Config {
	return plugintest.With(config(
		"profile", "fapi2", "par_url", pushes, "issuer", "https://login.test", "client_auth", "private_key_jwt", "client_secret", nil,
		"private_key", "{{ get_secret('crm') }}", "algorithm", "ES256", "sender", "dpop", "proof_key", "{{ get_secret('crm') }}",
	), pairs...)
}

// Fields that are not of FAPI 2.0 are problems with its profile (specification.md 3.48).
func TestProfile(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("crm", "ES256")
		certificate := []any{"client_auth", "tls_client_auth", "private_key", nil, "algorithm", nil}
		for want, pairs := range map[string][]any{
			"":                                  {},
			"par_url":                           {"par_url", nil},
			"issuer":                            {"issuer", nil},
			"pkce":                              {"pkce", "none"},
			"algorithm":                         {"algorithm", nil},
			"proof_algorithm":                   {"proof_algorithm", "ES384"},
			"client_assertion_audience":         {"client_assertion_audience", "https://login.test/token"},
			"sender":                            {"sender", nil, "proof_key", nil},
			"client_auth algorithm":             {"client_auth", "client_secret_post", "client_secret", "{{ get_secret('crm') }}", "private_key", nil, "algorithm", nil},
			"authorization_parameters.dpop_jkt": {"authorization_parameters", map[string]any{"dpop_jkt": "x"}},
		} {
			plugintest.Problems(t, h, fapi(pairs...), want)
		}
		plugintest.Problems(t, h, fapi(append(certificate, "sender", "bearer", "proof_key", nil)...), "")
		plugintest.Problems(t, h, fapi(append(slices.Clone(certificate), "proof_algorithm", "RS256")...), "proof_algorithm")
		// What a browser would see is found when the file is loaded, though made-up keys sign nothing.
		plugintest.Problems(t, h, fapi("scope", "{{ get_secret('crm') }}"), "scope")
	})
}

// With the profile, an answer without iss is refused.
func TestProfileWithoutIss(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("crm", "ES256")
		h.TokenEndpoint(pushes, hosttest.JSON(201, `{"request_uri":"`+reference+`"}`))
		err := h.Consent(fapi(), func(*url.URL) url.Values {
			return url.Values{"code": {"the-code-of-the-user"}, "state": h.Exchanges()[0].Form["state"]}
		})
		if failure := (*host.ConsentError)(nil); !errors.As(err, &failure) || failure.Reason != host.ConsentForged {
			t.Errorf("err = %v, want that the answer is forged", err)
		}
		assertion := h.Exchanges()[0].Form
		if _, claims := h.JWT(assertion.Get("client_assertion")); claims["aud"] != "https://login.test" || len(assertion.Get("dpop_jkt")) != 43 {
			t.Errorf("aud = %v, dpop_jkt = %q", claims["aud"], assertion.Get("dpop_jkt"))
		}
	})
}
