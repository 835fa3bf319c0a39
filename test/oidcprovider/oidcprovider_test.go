// Package oidcprovider tests Keywright against oidc-provider, an authorization server in JavaScript.
package oidcprovider

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

const (
	// reservedID and reservedSecret have characters that Basic credentials need encoded (RFC 6749 section 2.3.1).
	reservedID     = "crm:%2B+ 1"
	reservedSecret = `p:%a+s s/w=&~"%3A-0123456789`
)

// The provider accepts the client's credentials in each way in which the client authenticates, and issues a token with the
// scope and for the resource that were asked for.
func TestClientCredentials(t *testing.T) {
	secrets := host.MapSecrets{"crm": reservedSecret}
	public := key(t, secrets, "key")
	w := newProvider(t, []object{
		{"client_id": reservedID, "client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_basic"},
		{"client_id": "post", "client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_post"},
		{"client_id": "hmac", "client_secret": reservedSecret + reservedSecret, "token_endpoint_auth_method": "client_secret_jwt", "token_endpoint_auth_signing_alg": "HS256"},
		{"client_id": "signs", "jwks": object{"keys": []object{public}}, "token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_signing_alg": "ES256"},
		{
			"client_id": "tls", "token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_san_dns": clientHost,
			"tls_client_certificate_bound_access_tokens": true,
		},
	})
	w.secrets = secrets
	for _, c := range []object{
		{"client_id": reservedID, "client_auth": "client_secret_basic", "client_secret": "{{ get_secret('crm') }}"},
		{"client_id": "post", "client_secret": "{{ get_secret('crm') }}"},
		{"client_id": "hmac", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('crm') + get_secret('crm') }}", "algorithm": "HS256"},
		{"client_id": "signs", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('key') }}", "algorithm": "ES256", "jwt_headers": object{"kid": "k1"}},
		{
			"client_id": "signs", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('key') }}", "algorithm": "ES256",
			"client_assertion_audience": w.issuer, "certificate": w.certificate,
		},
		{"client_id": "tls", "client_auth": "tls_client_auth"},
	} {
		id := c["client_id"].(string)
		t.Run(id, func(t *testing.T) {
			w.t = t
			c["scope"], c["resource"], c["parameters"] = "read", "urn:api", object{"login_hint": "nobody"}
			var purposes []string
			if id == "tls" {
				purposes = forBoth
			}
			client := w.connect("oauth_client_credentials", c, purposes...)
			for range 2 { // the second has the cached token
				got, status, err := w.get(client, "/api", host.User{})
				if err != nil || status != http.StatusOK || got["client"] != id || got["scope"] != "read" || got["audience"] != "urn:api" || got["bound"] != (id == "tls") {
					t.Errorf("the API answers %d: %v, %v", status, got, err)
				}
			}
		})
	}
	w.t = t
	if n := len(slices.DeleteFunc(w.seen(), func(r request) bool { return r.Path != "/token" })); n != 6 {
		t.Errorf("there were %d token requests, want one for each client", n)
	}
}

// A token that is bound to the client certificate (RFC 8705 section 3) is worth nothing to an API that does not see it.
func TestBoundToken(t *testing.T) {
	w := newProvider(t, []object{{
		"client_id": "tls", "token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_san_dns": clientHost,
		"tls_client_certificate_bound_access_tokens": true,
	}})
	client := w.connect("oauth_client_credentials", object{"client_id": "tls", "client_auth": "tls_client_auth"}, host.TLSForToken)
	if got, status, err := w.get(client, "/api", host.User{}); err != nil || status != http.StatusUnauthorized || got["bound"] != true {
		t.Errorf("the API answers %d: %v, %v", status, got, err)
	}
}

// What the provider refuses is an error with its status and code.
func TestRefusedClients(t *testing.T) {
	secrets := host.MapSecrets{"crm": "another secret than the registered"}
	public := key(t, secrets, "other")
	key(t, secrets, "key")
	w := newProvider(t, []object{
		{"client_id": "crm", "client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_basic"},
		{"client_id": "signs", "jwks": object{"keys": []object{public}}, "token_endpoint_auth_method": "private_key_jwt"},
		{"client_id": "tls", "token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_san_dns": clientHost},
	})
	w.secrets = secrets
	for name, c := range map[string]object{
		"another secret":    {"client_id": "crm", "client_auth": "client_secret_basic", "client_secret": "{{ get_secret('crm') }}"},
		"another key":       {"client_id": "signs", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('key') }}", "algorithm": "ES256"},
		"no certificate":    {"client_id": "tls", "client_auth": "tls_client_auth"},
		"not as registered": {"client_id": "crm", "client_auth": "tls_client_auth"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			_, _, err := w.get(w.connect("oauth_client_credentials", c), "/api", host.User{})
			var answer *host.TokenError
			if !errors.As(err, &answer) || answer.Status != http.StatusUnauthorized || answer.Code != "invalid_client" {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for name, secret := range secrets {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log holds the secret %q", name)
		}
	}
}

// The provider requires its nonces in proofs, at the token endpoint and at its userinfo endpoint. Only the first request of
// each is repeated. The token is bound to the key of the proofs, since userinfo accepts both together only.
func TestDPoP(t *testing.T) {
	for _, proof := range []object{{}, {"proof_algorithm": "EdDSA"}, {"proof_key": "{{ get_secret('proof') }}"}} {
		secrets := host.MapSecrets{"crm": reservedSecret}
		public := key(t, secrets, "key")
		key(t, secrets, "proof")
		w := newProvider(t, []object{{"client_id": reservedID, "client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_basic"}}, public)
		w.secrets = secrets
		config := object{
			"grant_type": "jwt_bearer", "client_id": reservedID, "client_auth": "client_secret_basic", "client_secret": "{{ get_secret('crm') }}",
			"private_key": "{{ get_secret('key') }}", "algorithm": "ES256", "assertion_audience": w.issuer, "assertion_subject": "{{ user.id }}",
		}
		for name, value := range proof {
			config[name] = value
		}
		client := w.connect("dpop", config)
		for range 3 {
			got, status, err := w.get(client, "/me", host.User{ID: "ann"})
			if err != nil || status != http.StatusOK || got["sub"] != "ann" {
				t.Errorf("%v: the API answers %d: %v, %v", proof, status, got, err)
			}
		}
		want := []request{
			{"/token", 400, "use_dpop_nonce"},
			{"/token", 200, ""},
			{"/me", 401, "use_dpop_nonce"},
			{"/me", 200, ""},
			{"/me", 200, ""},
			{"/me", 200, ""},
		}
		if got := w.seen(); !slices.Equal(got, want) {
			t.Errorf("%v: the provider has seen %v, want %v", proof, got, want)
		}
	}
}

// With the client credentials grant, a client signs a new assertion for the request with the nonce, because the provider
// accepts none twice.
func TestDPoPWithPrivateKeyJWT(t *testing.T) {
	secrets := host.MapSecrets{}
	public := key(t, secrets, "key")
	w := newProvider(t, []object{{
		"client_id": "signs", "jwks": object{"keys": []object{public}}, "token_endpoint_auth_method": "private_key_jwt", "dpop_bound_access_tokens": true,
	}})
	w.secrets = secrets
	client := w.connect("dpop", object{
		"client_id": "signs", "client_auth": "private_key_jwt", "private_key": "{{ get_secret('key') }}", "algorithm": "ES256", "scope": "read",
	})
	if _, _, err := w.get(client, "/api", host.User{}); err != nil { // which takes bearer tokens only
		t.Error(err)
	}
	if got := w.seen()[:2]; !slices.Equal(got, []request{{"/token", 400, "use_dpop_nonce"}, {"/token", 200, ""}}) {
		t.Errorf("the provider has seen %v", got)
	}
}

// A connector that has the issuer alone finds the endpoint. The provider has the document of OpenID Connect, and none of RFC 8414.
func TestDiscovery(t *testing.T) {
	w := newProvider(t, []object{
		{"client_id": reservedID, "client_secret": reservedSecret, "token_endpoint_auth_method": "client_secret_basic"},
		{"client_id": "tls", "token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_san_dns": clientHost},
	})
	w.secrets["crm"] = reservedSecret
	discovered := "{{ discover('" + w.issuer + "', 'token_endpoint') }}"
	for _, c := range []struct {
		client *http.Client
		id     string
	}{
		{w.connect("oauth_client_credentials", object{
			"client_id": reservedID, "client_auth": "client_secret_basic", "client_secret": "{{ get_secret('crm') }}", "token_url": discovered,
			"scope": "read", "resource": "urn:api",
		}), reservedID},
		{w.connect("oauth_client_credentials", object{
			"client_id": "tls", "client_auth": "tls_client_auth", "token_url": discovered, "scope": "read", "resource": "urn:api",
		}, forBoth...), "tls"},
	} {
		for range 2 { // the second has the cached token
			if got, status, err := w.get(c.client, "/api", host.User{}); err != nil || status != http.StatusOK || got["client"] != c.id {
				t.Errorf("the API answers %d: %v, %v", status, got, err)
			}
		}
	}
	var paths []string
	for _, r := range w.seen() {
		paths = append(paths, r.Path)
	}
	metadata := []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/token", "/api", "/api"}
	if want := slices.Concat(metadata, metadata); !slices.Equal(paths, want) { // one host each
		t.Errorf("the provider has seen %q, want %q", paths, want)
	}
}

// An issuer with a slash that the provider does not write is another one, and the error says so.
func TestForeignDiscovery(t *testing.T) {
	w := newProvider(t, []object{{"client_id": "crm", "client_secret": reservedSecret}})
	w.secrets["crm"] = reservedSecret
	client := w.connect("oauth_client_credentials", object{
		"client_id": "crm", "client_secret": "{{ get_secret('crm') }}", "token_url": "{{ discover('" + w.issuer + "/', 'token_endpoint') }}",
	})
	_, _, err := w.get(client, "/api", host.User{})
	var metadata *host.DiscoveryError
	if !errors.As(err, &metadata) || !strings.Contains(err.Error(), "has this issuer without the slash at its end: write the issuer without it") {
		t.Errorf("the error is %v", err)
	}
	if seen := w.seen(); slices.ContainsFunc(seen, func(r request) bool { return r.Path == "/token" }) {
		t.Errorf("the provider has seen %v", seen)
	}
}
