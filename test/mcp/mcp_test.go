// Package mcp runs scenarios of the conformance suite of the Model Context Protocol. The suite plays an MCP server and its authorization
// server, and starts a client: this test's program, which gets its tokens from Keywright's host.
package mcp

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

func TestMain(m *testing.M) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "" {
		os.Exit(m.Run())
	}
	use := connect
	switch os.Getenv("MCP_CONFORMANCE_SCENARIO") {
	case "auth/enterprise-managed-authorization":
		use = exchangeIDToken
	case "auth/wif-jwt-bearer":
		use = presentIdentity
	}
	said, err := connected, use(context.Background(), os.Args[2])
	var refused *host.ConsentError
	if errors.As(err, &refused) {
		said, err = string(refused.Reason), nil
	}
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(said), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const connected = "connected"

// The host compares iss as the scenarios of the suite want it (SEP-2468 of the protocol, RFC 9207). threats.md 129
func TestIss(t *testing.T) {
	forged := string(host.ConsentForged)
	for scenario, want := range map[string]string{
		"iss-supported": connected, "iss-not-advertised": connected,
		"iss-supported-missing": forged, "iss-wrong-issuer": forged, "iss-unexpected": forged, "iss-normalized": forged,
	} {
		t.Run(scenario, func(t *testing.T) { judge(t, scenario, want) })
	}
}

// Tokens are bound to a key that proofs are signed with, with nonces of both servers; come from an ID token by two servers; or from the
// identity of a workload.
func TestExtensions(t *testing.T) {
	for _, scenario := range []string{"dpop", "dpop-nonce", "enterprise-managed-authorization", "wif-jwt-bearer"} {
		t.Run(scenario, func(t *testing.T) { judge(t, scenario, connected) })
	}
}

// judge runs a scenario, which starts this program as its client, and compares what the client says.
func judge(t *testing.T, scenario, want string) {
	t.Helper()
	self, said := testworld.Must(os.Executable())(t), filepath.Join(t.TempDir(), "said")
	suite := exec.CommandContext(t.Context(), "node", "suite.mjs", "client", "--scenario", "auth/"+scenario, "--command", self+" "+said)
	if verdict, err := suite.CombinedOutput(); err != nil {
		t.Errorf("the suite does not pass it (make deps installs it): %v: %s", err, verdict)
	}
	if got, _ := os.ReadFile(said); string(got) != want {
		t.Errorf("the client says %q, want %q", got, want)
	}
}

type object = map[string]any

const (
	redirectURI = "http://127.0.0.1:4711/connect/mcp/callback"
	cookie      = "the cookie of a browser"
)

// connect is the client: it finds the authorization server of an MCP server, registers, has a user consent, and calls the server.
func connect(ctx context.Context, server string) error {
	issuer, err := authorizationServer(server)
	if err != nil {
		return err
	}
	var metadata struct {
		Registration string `json:"registration_endpoint"`
	}
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := ask(http.MethodGet, issuer+"/.well-known/oauth-authorization-server", object{}, &metadata); err != nil {
		return err
	}
	if err := ask(http.MethodPost, metadata.Registration, object{
		"client_name": "keywright", "redirect_uris": []string{redirectURI}, "application_type": "web",
	}, &client); err != nil {
		return err
	}

	discover := func(member string) string { return fmt.Sprintf("{{ discover('%s', '%s') }}", issuer, member) }
	config := object{
		"authorization_url": discover("authorization_endpoint"), "token_url": discover("token_endpoint"),
		"client_id": client.ID, "client_secret": "{{ get_secret('mcp') }}", "resource": server,
	}
	secrets := host.MapSecrets{"mcp": client.Secret}
	if strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/dpop") {
		if secrets["proofs"], err = newKey(); err != nil {
			return err
		}
		config["sender"], config["proof_key"] = "dpop", "{{ get_secret('proofs') }}"
	}
	h, connector, end, err := newConnector(ctx, "authcode/authcode.wasm", server, "oauth_authorization_code", config, secrets)
	if err != nil {
		return err
	}
	defer end()
	ctx = host.WithUser(ctx, host.User{ID: "ann"})
	target, err := connector.BeginConsent(ctx, host.ConsentRequest{RedirectURI: redirectURI, Binding: cookie})
	if err != nil {
		return err
	}
	back, err := browse(target)
	if err != nil {
		return err
	}
	if _, err := h.Callback(ctx, host.AuthorizationResponse{RedirectURI: redirectURI, Response: back, Binding: cookie},
		func(string) *host.Connector { return connector }); err != nil {
		return err
	}
	return callTools(ctx, connector, server)
}

// exchangeIDToken has an ID token exchanged for an assertion, and that for a token of the server.
func exchangeIDToken(ctx context.Context, server string) error {
	var about struct {
		ID       string `json:"client_id"`
		Secret   string `json:"client_secret"`
		IDToken  string `json:"idp_id_token"`
		ClientID string `json:"idp_client_id"`
		TokenURL string `json:"idp_token_endpoint"`
	}
	issuer, err := scenario(server, &about)
	if err != nil {
		return err
	}
	const types = "urn:ietf:params:oauth:token-type:"
	return callWith(ctx, server, "tokenexchange/tokenexchange.wasm", "token_exchange", object{
		"subject_token": "{{ get_secret('id') }}", "subject_token_type": types + "id_token", "requested_token_type": types + "id-jag",
		"token_url": about.TokenURL, "client_id": about.ClientID, "client_auth": "none", "audience": issuer, "resource": server,
		"assertion_url":       fmt.Sprintf("{{ discover('%s', 'token_endpoint') }}", issuer),
		"assertion_client_id": about.ID, "assertion_client_secret": "{{ get_secret('mcp') }}", "assertion_client_auth": "client_secret_basic",
	}, host.MapSecrets{"id": about.IDToken, "mcp": about.Secret})
}

// presentIdentity has the identity of a workload exchanged for a token of the server.
func presentIdentity(ctx context.Context, server string) error {
	var about struct {
		JWT string `json:"valid_jwt"`
	}
	issuer, err := scenario(server, &about)
	if err != nil {
		return err
	}
	return callWith(ctx, server, "jwtbearer/jwtbearer.wasm", "oauth_jwt_bearer", object{
		"token_url": fmt.Sprintf("{{ discover('%s', 'token_endpoint') }}", issuer), "assertion": "{{ get_secret('jwt') }}",
	}, host.MapSecrets{"jwt": about.JWT})
}

// scenario decodes the context of the suite, and returns the issuer of a server.
func scenario(server string, about any) (issuer string, err error) {
	if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), about); err != nil {
		return "", err
	}
	return authorizationServer(server)
}

// newConnector returns a host, and a connector of it for a server.
func newConnector(ctx context.Context, module, server, authType string, config object, secrets host.Secrets) (*host.Host, *host.Connector, func(), error) {
	wasm, err := os.ReadFile("../../plugins/" + module)
	if err != nil {
		return nil, nil, nil, err
	}
	kept, err := host.NewState(ctx, host.StateConfig{Store: state.NewMemory(time.Now), Keys: [][]byte{[]byte(strings.Repeat("k", 32))}})
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := host.New(ctx, host.Config{
		BuiltIns: []host.Plugin{{Name: module, Wasm: wasm}}, State: kept, Secrets: secrets, Egress: host.Egress{AllowPrivate: true, AllowHTTP: true},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	connector, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name: "mcp", Origins: []string{strings.TrimSuffix(server, "/mcp")}, Auth: []host.Auth{{Type: authType, Config: config}},
	})
	return h, connector, func() { _ = errors.Join(h.Close(ctx), kept.Close(ctx)) }, err
}

// callWith calls a server through a connector.
func callWith(ctx context.Context, server, module, authType string, config object, secrets host.Secrets) error {
	_, connector, end, err := newConnector(ctx, module, server, authType, config, secrets)
	if err != nil {
		return err
	}
	defer end()
	return callTools(ctx, connector, server)
}

// callTools asks a server for its tools, with the credential of a connector.
func callTools(ctx context.Context, connector *host.Connector, server string) error {
	response, err := post(ctx, &http.Client{Transport: connector.Transport(nil)}, server)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if document, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s: %s", response.Status, document)
	}
	return nil
}

// newKey returns a new private key for ES256 in PEM.
func newKey() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), err
}

// authorizationServer returns the issuer that the metadata of an MCP server names, which its 401 names (RFC 9728).
func authorizationServer(server string) (string, error) {
	response, err := post(context.Background(), http.DefaultClient, server)
	if err != nil {
		return "", err
	}
	_ = response.Body.Close()
	where := regexp.MustCompile(`resource_metadata="([^"]+)"`).FindStringSubmatch(response.Header.Get("WWW-Authenticate"))
	if where == nil {
		return "", fmt.Errorf("the server answers %s without resource_metadata", response.Status)
	}
	var metadata struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := ask(http.MethodGet, where[1], object{}, &metadata); err != nil {
		return "", err
	}
	return metadata.Servers[0], nil
}

// browse returns the query with which a browser comes back from an authorization endpoint.
func browse(target string) (url.Values, error) {
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := browser.Get(target)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	back, err := response.Location()
	if err != nil {
		return nil, err
	}
	return back.Query(), nil
}

// post asks an MCP server for its tools, as of the revision of the scenario. Those of extensions are of an earlier one.
func post(ctx context.Context, client *http.Client, server string) (*http.Response, error) {
	revision := "2025-11-25"
	if strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/iss-") {
		revision = "2026-07-28"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{
		"_meta":{"io.modelcontextprotocol/protocolVersion":"`+revision+`","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Protocol-Version", revision)
	r.Header.Set("Mcp-Method", "tools/list")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return client.Do(r)
}

// ask sends a document and decodes the answer.
func ask(method, target string, document, answer any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(answer)
}
