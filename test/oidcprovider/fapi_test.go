package oidcprovider

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// newFAPI returns a server of FAPI 2.0 and a connector for it.
func newFAPI(t *testing.T, pairs ...any) *consents {
	t.Helper()
	secrets := host.MapSecrets{}
	client := object{
		"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_signing_alg": "ES256", "dpop_bound_access_tokens": true,
		"jwks": object{"keys": []object{key(t, secrets, "client")}},
	}
	key(t, secrets, "proofs")
	return newConsentsOf(t, client, secrets, append([]any{
		"profile", "fapi2", "par_url", "ISSUER/request", "client_auth", "private_key_jwt", "client_secret", nil, "algorithm", "ES256",
		"private_key", "{{ get_secret('client') }}", "jwt_headers",
		object{"kid": "k1"},
		"sender", "dpop", "proof_key", "{{ get_secret('proofs') }}",
	}, pairs...)...)
}

// A server of FAPI 2.0 gets requests that are pushed, tokens with proofs of their nonces, and assertions for its issuer. A code is of
// use with the key only whose thumbprint the request had (RFC 9449 section 10). threats.md 470
func TestFAPI(t *testing.T) {
	s := newFAPI(t)
	s.now = s.now.Add(-10 * time.Minute) // what is signed has ended
	target := testworld.Must(url.Parse(s.begin("ann")))(t)
	query := target.Query()
	if !strings.HasPrefix(query.Get("request_uri"), "urn:") || query.Get("client_id") != reservedID || len(query) != 2 {
		t.Errorf("the browser brings %s", target.RawQuery)
	}
	testworld.Check(t, s.finish("ann", s.browse(target.String(), "ann at the provider", "allow")))
	for range 3 {
		if got, err := s.me("ann"); err != nil || got != "ann at the provider" {
			t.Errorf("the API takes ann for %q, %v", got, err)
		}
		s.now = s.now.Add(10 * time.Minute) // the access token ends for the host
	}
	testworld.Check(t, s.connector.Disconnect(s.as("ann")))
	want := []string{ // the first for its time, the others for the nonce that they do not have yet
		"/request invalid_client", "/token use_dpop_nonce", "/token use_dpop_nonce", "/me use_dpop_nonce", "/token use_dpop_nonce", "/token use_dpop_nonce",
	}
	if codes := s.errors(); !slices.Equal(codes, want) {
		t.Errorf("the provider has refused %v", codes)
	}
}

// A browser that brings the request itself is refused, and so is a request_uri that is made up or was used. threats.md 470
func TestFAPIRefusesRequests(t *testing.T) {
	s := newFAPI(t)
	first := s.begin("ann")
	testworld.Check(t, s.finish("ann", s.browse(first, "ann at the provider", "allow")))
	for name, target := range map[string]string{
		"used": first, "made up": strings.Replace(first, "urn%3A", "urn%3Ax", 1),
		"not pushed": s.issuer + "/auth?response_type=code&client_id=" + reservedID + "&redirect_uri=" + url.QueryEscape(callbackURL),
	} {
		browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response := testworld.Must(browser.Get(target))(t)
		_ = response.Body.Close()
		back, _ := response.Location()
		if response.StatusCode < 400 && (back == nil || !back.Query().Has("error")) {
			t.Errorf("a request that is %s: %s, back at %v", name, response.Status, back)
		}
	}
}
