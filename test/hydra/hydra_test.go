// Package hydra tests refresh tokens with ORY Hydra. It keeps its grants in SQLite, and answers 500 to some of the refreshes that come
// at the same time; what they did is rolled back.
package hydra

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

const (
	callbackURL = "http://127.0.0.1:4711/connect/me/callback"
	cookie      = "the cookie of a browser"
	secret      = "s3cr3t-of-the-client-0123456789"
	// away is the address that Hydra sends browsers to, for login and consent. This test answers for it.
	away = "http://away.test"
)

type object = map[string]any

// A server is a Hydra, behind a proxy that counts what its token endpoint answers.
type server struct {
	t             *testing.T
	public, admin string
	token         string
	mu            sync.Mutex
	now           time.Time
	answers       map[int]int
	bearers       map[string]string // by user
	nodes         []*host.Connector
	hosts         []*host.Host
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "hydra")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-tags=sqlite", "-o", program, "./server").CombinedOutput(); err != nil {
		t.Fatalf("Hydra cannot be compiled: %v: %s", err, said)
	}
	s := &server{t: t, now: time.Now(), answers: map[int]int{}, bearers: map[string]string{}}
	public, admin := port(t), port(t)
	s.public, s.admin = "http://127.0.0.1:"+public, "http://127.0.0.1:"+admin
	hydra := exec.Command(program, "serve", "all", "--dev")
	hydra.Dir = dir
	hydra.Env = []string{
		"HOME=" + dir, "DSN=memory", "SQA_OPT_OUT=true", "SECRETS_SYSTEM=0123456789abcdef0123456789abcdef", "LOG_LEVEL=error",
		"URLS_SELF_ISSUER=" + s.public, "URLS_LOGIN=" + away + "/login", "URLS_CONSENT=" + away + "/consent",
		"SERVE_PUBLIC_HOST=127.0.0.1", "SERVE_PUBLIC_PORT=" + public, "SERVE_ADMIN_HOST=127.0.0.1", "SERVE_ADMIN_PORT=" + admin,
	}
	var said bytes.Buffer
	hydra.Stdout, hydra.Stderr = &said, &said
	testworld.Check(t, hydra.Start())
	ended := make(chan error, 1)
	go func() { ended <- hydra.Wait() }()
	t.Cleanup(func() {
		_ = hydra.Process.Kill()
		<-ended
	})
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if response, err := http.Get(s.public + "/health/ready"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case <-ended:
			ended <- nil
			t.Fatalf("Hydra ends: %s", said.String())
		default:
		}
	}
	s.ask(http.MethodPost, "/admin/clients", object{
		"client_id": "keywright", "client_secret": secret, "token_endpoint_auth_method": "client_secret_post", "scope": "offline_access",
		"grant_types": []string{"authorization_code", "refresh_token"}, "redirect_uris": []string{callbackURL},
	}, &object{})
	target := testworld.Must(url.Parse(s.public))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers[r.StatusCode]++
		return nil
	}
	listener := httptest.NewServer(proxy)
	t.Cleanup(listener.Close)
	s.token = listener.URL + "/oauth2/token"
	return s
}

// port returns a port that is free.
func port(t *testing.T) string {
	t.Helper()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, p, _ := net.SplitHostPort(listener.Addr().String())
	return p
}

// ask sends a document to Hydra's administrator, and decodes the answer.
func (s *server) ask(method, path string, document, answer any) {
	s.t.Helper()
	body := testworld.Must(json.Marshal(document))(s.t)
	r := testworld.Must(http.NewRequestWithContext(s.t.Context(), method, s.admin+path, bytes.NewReader(body)))(s.t)
	r.Header.Set("Content-Type", "application/json")
	s.do(r, answer)
}

func (s *server) do(r *http.Request, answer any) {
	s.t.Helper()
	response := testworld.Must(http.DefaultClient.Do(r))(s.t)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: response.Status = %s text = %s", r.Method, r.URL, response.Status, text)
	}
	testworld.Check(s.t, json.Unmarshal(text, answer))
}

func (s *server) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *server) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// start starts two hosts with one store.
func (s *server) start() {
	t := s.t
	t.Helper()
	wasm, err := os.ReadFile("../../plugins/authcode/authcode.wasm")
	if err != nil {
		t.Fatalf("the plugin is not compiled (make plugins): %v", err)
	}
	store := state.NewMemory(s.clock)
	for range 2 {
		kept := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: [][]byte{[]byte(strings.Repeat("k", 32))}, Clock: s.clock}))(t)
		h := testworld.Must(host.New(t.Context(), host.Config{
			BuiltIns: []host.Plugin{{Name: "authcode", Wasm: wasm}}, State: kept, Clock: s.clock,
			Secrets: host.MapSecrets{"hydra": secret}, Egress: host.Egress{AllowPrivate: true, AllowHTTP: true},
		}))(t)
		t.Cleanup(func() {
			testworld.Check(t, errors.Join(h.Close(context.Background()), kept.Close(context.Background())))
		})
		connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{
			Name: "me", Origins: []string{"https://api.test"}, Auth: []host.Auth{{Type: "oauth_authorization_code", Config: object{
				"authorization_url": s.public + "/oauth2/auth", "token_url": s.token, "issuer": s.public,
				"client_id": "keywright", "client_secret": "{{ get_secret('hydra') }}", "scope": "offline_access",
			}}},
		}))(t)
		s.nodes, s.hosts = append(s.nodes, connector), append(s.hosts, h)
	}
}

// consent has a user grant access.
func (s *server) consent(user string) {
	s.t.Helper()
	ctx := host.WithUser(s.t.Context(), host.User{ID: user})
	for query := url.Values(nil); query == nil; {
		target := testworld.Must(s.nodes[0].BeginConsent(ctx, host.ConsentRequest{RedirectURI: callbackURL, Binding: cookie}))(s.t)
		if query = s.browse(target, user); query != nil {
			testworld.Must(s.hosts[0].Callback(ctx, host.AuthorizationResponse{RedirectURI: callbackURL, Response: query, Binding: cookie},
				func(string) *host.Connector { return s.nodes[0] }))(s.t)
		}
	}
}

// browse returns the query with which a browser comes back, after login and consent. It returns nil if Hydra hangs up, as it does when an
// answer takes it ten seconds.
func (s *server) browse(target, user string) url.Values {
	s.t.Helper()
	jar := testworld.Must(cookiejar.New(nil))(s.t)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for {
		response, err := browser.Get(target)
		if errors.Is(err, io.EOF) {
			return nil
		}
		testworld.Check(s.t, err)
		_ = response.Body.Close()
		to, err := response.Location()
		if err != nil {
			s.t.Fatalf("the browser gets %s from %s", response.Status, target)
		}
		target = to.String()
		if strings.HasPrefix(target, callbackURL) {
			return to.Query()
		}
		if strings.HasPrefix(target, away) {
			kind := strings.TrimPrefix(to.Path, "/")
			var accepted struct {
				RedirectTo string `json:"redirect_to"`
			}
			s.ask(http.MethodPut, "/admin/oauth2/auth/requests/"+kind+"/accept?"+to.RawQuery,
				object{"login": object{"subject": user}, "consent": object{"grant_scope": []string{"offline_access"}}}[kind], &accepted)
			target = accepted.RedirectTo
		}
	}
}

// call sends a request of a user through a host. The API keeps the token.
func (s *server) call(node *host.Connector, user string) error {
	r, err := http.NewRequestWithContext(host.WithUser(s.t.Context(), host.User{ID: user}), http.MethodGet, "https://api.test/me", nil)
	if err != nil {
		return err
	}
	response, err := node.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bearers[user] = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	})).RoundTrip(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Users of two hosts need new tokens at the same time, five times, and up to twenty times until Hydra has answered some of the
// refreshes with 500; some others get 400 invalid_request. Hydra may answer none with 500: the log has its answers. No grant is lost: a
// later request of the user sends the token again, and has a token that Hydra knows the user by. threats.md 124
func TestRefreshesAtTheSameTime(t *testing.T) {
	s := newServer(t)
	s.start()
	var users []string
	for i := range 6 {
		users = append(users, fmt.Sprintf("user-%d", i))
		s.consent(users[i])
	}
	for round := 0; round < 5 || round < 20 && s.answers[http.StatusInternalServerError] == 0; round++ {
		s.advance(2 * time.Hour)
		failed := make([]error, len(users))
		var all sync.WaitGroup
		for i, user := range users {
			all.Go(func() { failed[i] = s.call(s.nodes[i%2], user) })
		}
		all.Wait()
		for i, user := range users {
			for try := 0; failed[i] != nil; try++ {
				var grant *host.GrantError
				if errors.As(failed[i], &grant) && grant.Condition != host.ConditionUncertain || try == 5 {
					t.Fatalf("round %d, %s: %v", round, user, failed[i])
				}
				s.advance(5 * time.Minute)
				failed[i] = s.call(s.nodes[(i+1)%2], user)
			}
			var known struct {
				Active bool
				Sub    string
			}
			r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, s.admin+"/admin/oauth2/introspect",
				strings.NewReader(url.Values{"token": {s.bearers[user]}}.Encode())))(t)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if s.do(r, &known); !known.Active || known.Sub != user {
				t.Errorf("round %d: Hydra knows the token of %s as %+v", round, user, known)
			}
		}
	}
	t.Logf("Hydra's answers by their status: %v", s.answers)
}
