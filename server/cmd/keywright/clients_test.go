package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/content/client"
	"github.com/keywright/keywright/server/content/embed"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// switching is a server that answers each request with 101 and then says nothing. It fails the test if a client does not close the
// connection.
func switching(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the client waits for what comes after the 101")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

const switchedConnectors = `
connectors:
  - name: api
    url: $SERVER
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
  - name: token
    url: $SERVER
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: $SERVER/token}}
  - name: login
    url: $SERVER
    auth: {type: login, config: {login_url: $SERVER/login, login_body: {password: "{{ get_secret('key') }}"}, token_from: "json:/token", key: Authorization}}
  - name: metadata
    url: $SERVER
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: "{{ discover('$SERVER', 'token_endpoint') }}"}}
`

// No client of the product waits for what a server sends after a 101 that nobody has asked for (threats.md 320): its body is the
// connection, and ends with no context. A new client is a row here, and TestEachClientRefusesA101 has the lines that send.
func TestClientsDuringSwitch_threats_320(t *testing.T) {
	ctx := t.Context()
	server := switching(t)
	token := testworld.File(t, "token", "hvs.token")
	set, err := connectors.Read(ctx, "connectors.yaml", []byte(strings.ReplaceAll(switchedConnectors, "$SERVER", server.URL)), connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"key": "hunter2hunter2"}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}},
	})
	testworld.Check(t, err)
	t.Cleanup(func() { _ = set.Close(context.WithoutCancel(ctx)) })
	ask := func(connector string, guarded bool) func(*testing.T) error {
		return func(t *testing.T) error {
			c := testworld.Must(set.Find(connector))(t)
			transport := c.Upstream().Transport(nil)
			if guarded {
				transport = c.Upstream().GuardedTransport(nil)
			}
			r := testworld.Must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil))(t)
			_, err := transport.RoundTrip(r) //nolint:bodyclose // there is none
			return err
		}
	}
	for name, use := range map[string]func(*testing.T) error{
		"API":            ask("api", false),
		"API, guarded":   ask("api", true),
		"token endpoint": ask("token", false), // with that of refreshes, codes and revocations
		"login":          ask("login", false),
		"metadata":       ask("metadata", false),
		"keys": func(t *testing.T) error {
			users := testworld.Must(identity.New(ctx, identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{
				Bearer: true, JWKSURL: server.URL, Issuer: "https://issuer.example", Audiences: []string{"me"},
			}}, identity.Options{Transport: http.DefaultTransport, HTTP: host.Egress{AllowHTTP: true}.AllowsHTTP}))(t)
			defer users.Close()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhIn0.AAAA")
			return testworld.ErrorOf(users.User(r))
		},
		"Vault": func(t *testing.T) error {
			config := secretstore.VaultConfig{Address: server.URL, HTTP: host.Egress{AllowHTTP: true}.AllowsHTTP, TokenFile: token, Clock: time.Now}
			return testworld.ErrorOf(testworld.Must(secretstore.Vault(config))(t).Secret(ctx, "a"))
		},
		"registry": func(t *testing.T) error {
			t.Setenv("DOCKER_CONFIG", t.TempDir())
			c := testworld.Must(registry.New(registry.Options{ModuleBytes: 1}))(t)
			ref := testworld.Must(registry.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/acme/hmac:1.0.0"))(t)
			return testworld.ErrorOf(c.Resolve(ctx, ref))
		},
		"content": func(t *testing.T) error {
			return testworld.ErrorOf(testworld.Must(client.New(server.URL, nil))(t).Articles(ctx, 0, 0))
		},
		"providers of embeds": func(t *testing.T) error {
			const page = "https://provider.example/page"
			resolver := testworld.Must(embed.New(embed.Config{
				Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
				}},
				Providers: []byte(`[{"provider_name":"P","provider_url":"http://provider.example","endpoints":[{"schemes":["https://provider.example/*"],"url":"http://provider.example/oembed"}]}]`),
			}))(t)
			if got := resolver.Resolve(ctx, "<p>"+page+"</p>"); strings.Contains(got, "<iframe") {
				return nil
			}
			return errors.New("nothing is embedded")
		},
		"keywright test": func(*testing.T) error {
			if code, _, errs := keywright(ctx, "test", "--admin", server.URL, "a"); code != exitOK {
				return errors.New(errs)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := use(t); err == nil {
				t.Error("it takes the 101 for an answer")
			}
		})
	}
}

// Each line that sends a request has the rule of internal/answers, but for transports that pass an answer on to one that has it.
func TestEachClientRefusesA101_threats_320(t *testing.T) {
	sends := regexp.MustCompile(`= .*\.(RoundTrip|Do)\((r|request)\)`)
	passing := "host/internal/send/identity.go server/gateway/proxy.go server/internal/demo/tour/tour.go"
	root, read := filepath.Join("..", "..", ".."), 0
	for _, dir := range []string{"host", "server"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains([]string{"bench", "test", "testdata", "node_modules", "hosttest"}, entry.Name()):
				return fs.SkipDir
			case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(passing, name):
				return nil
			}
			text, err := os.ReadFile(path)
			read++
			for line := range strings.Lines(string(text)) {
				if sends.MatchString(line) && !strings.Contains(line, "answers.Final(") {
					t.Errorf("%s sends with %q: pass the result through answers.Final", name, strings.TrimSpace(line))
				}
			}
			return err
		})
		testworld.Check(t, err)
	}
	if read < 100 {
		t.Errorf("only %d files were read", read)
	}
}
