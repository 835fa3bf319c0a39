package oidcprovider

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

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
