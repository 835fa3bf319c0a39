// Package mcp runs scenarios of the conformance suite of the Model Context Protocol. The suite plays an MCP server and its authorization
// server, and starts a client: this test's program, which gets its tokens from Keywright's host.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
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
	said, err := connected, connect(context.Background(), os.Args[2])
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
	self := testworld.Must(os.Executable())(t)
	forged := string(host.ConsentForged)
	for scenario, want := range map[string]string{
		"iss-supported": connected, "iss-not-advertised": connected,
		"iss-supported-missing": forged, "iss-wrong-issuer": forged, "iss-unexpected": forged, "iss-normalized": forged,
	} {
		t.Run(scenario, func(t *testing.T) {
			said := filepath.Join(t.TempDir(), "said")
			judge := exec.CommandContext(t.Context(), "node", "suite.mjs", "client", "--scenario", "auth/"+scenario, "--command", self+" "+said)
			if verdict, err := judge.CombinedOutput(); err != nil {
				t.Errorf("the suite does not pass it (make deps installs it): %v: %s", err, verdict)
			}
			if got, _ := os.ReadFile(said); string(got) != want {
				t.Errorf("the client says %q, want %q", got, want)
			}
		})
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

	module, err := os.ReadFile("../../plugins/authcode/authcode.wasm")
	if err != nil {
		return err
	}
	kept, err := host.NewState(ctx, host.StateConfig{Store: state.NewMemory(time.Now), Keys: [][]byte{[]byte(strings.Repeat("k", 32))}})
	if err != nil {
		return err
	}
	h, err := host.New(ctx, host.Config{
		BuiltIns: []host.Plugin{{Name: "authcode", Wasm: module}}, State: kept,
		Secrets: host.MapSecrets{"mcp": client.Secret}, Egress: host.Egress{AllowPrivate: true, AllowHTTP: true},
	})
	if err != nil {
		return err
	}
	origin, err := url.Parse(server)
	if err != nil {
		return err
	}
	discover := func(member string) string { return fmt.Sprintf("{{ discover('%s', '%s') }}", issuer, member) }
	connector, err := h.NewConnector(ctx, host.ConnectorConfig{
		Name: "mcp", Origins: []string{"http://" + origin.Host}, Auth: host.Auth{Type: "oauth_authorization_code", Config: object{
			"authorization_url": discover("authorization_endpoint"), "token_url": discover("token_endpoint"),
			"client_id": client.ID, "client_secret": "{{ get_secret('mcp') }}", "resource": server,
		}},
	})
	if err != nil {
		return err
	}
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
	response, err := post(ctx, &http.Client{Transport: connector.Transport(nil)}, server)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if document, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s: %s", response.Status, document)
	}
	return errors.Join(h.Close(ctx), kept.Close(ctx))
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

// post asks an MCP server for its tools, as of the revision of the scenarios.
func post(ctx context.Context, client *http.Client, server string) (*http.Response, error) {
	const revision = "2026-07-28"
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
