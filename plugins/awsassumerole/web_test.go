package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// webConfig returns a configuration with a token of an OpenID provider in place of access keys.
func webConfig(pairs ...any) hosttest.Config {
	return config(append([]any{"access_key_id", nil, "secret_access_key", nil, "web_identity_token", "{{ get_secret('token') }}"}, pairs...)...)
}

// A token of an OpenID provider takes the place of access keys. Its request has no signature, and the answer is XML or JSON
// (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html).
func TestWebIdentity(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		token := h.Canary("token")
		expiration := h.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		const member = "<AccessKeyId>ASIAWEB</AccessKeyId><SecretAccessKey>the/secret</SecretAccessKey><SessionToken>the/token</SessionToken>"
		h.TokenEndpoint(stsURL, answer(http.StatusOK, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>`+
			`<Credentials>`+member+`<Expiration>`+expiration+`</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, h.Now()))
		for range 2 {
			got := h.Authenticate(webConfig("policy", `{"a":1}`), hosttest.GET("https://api.test/v1"))
			if got.Header("X-Amz-Security-Token") != "the/token" || !strings.Contains(got.Header("Authorization"), "Credential=ASIAWEB/20260102/eu-central-1/execute-api/") {
				t.Errorf("headers = %v", got.Request.Header)
			}
		}
		plugintest.Exchanges(t, h, 1)
		sts := h.Exchanges()[0]
		form := sts.Form
		if form.Get("Action") != "AssumeRoleWithWebIdentity" || form.Get("WebIdentityToken") != token || form.Get("RoleArn") != role || form.Get("Policy") != `{"a":1}` ||
			sts.Header.Get("Authorization") != "" {
			t.Errorf("form = %v, headers = %v", form, sts.Header)
		}
	})
}

// There are either access keys or a token.
func TestWebIdentityOrKeys(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		h.Canary("token")
		plugintest.Problems(t, h, webConfig(), "")
		plugintest.Problems(t, h, webConfig("secret_access_key", "{{ get_secret('aws') }}", "external_id", "e"), "secret_access_key external_id")
		plugintest.Problems(t, h, webConfig("web_identity_token", nil), "access_key_id secret_access_key")
	})
}

// The reason of a refusal is in the log.
func TestWebIdentityRefused(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("token")
		h.TokenEndpoint(stsURL, answer(http.StatusBadRequest, `<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>`, h.Now().Add(time.Hour)))
		plugintest.Refuses(t, h, webConfig(), hosttest.GET("https://api.test/v1"), "", "AWS STS answered 400")
		if warnings := strings.Join(h.Warnings(), "\n"); !strings.Contains(warnings, "InvalidIdentityToken") {
			t.Errorf("warnings = %s, want the reason InvalidIdentityToken", warnings)
		}
		plugintest.Exchanges(t, h, 1)
	})
}
