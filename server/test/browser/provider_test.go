package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
)

// provider is a running oidc-provider, at which users consent.
type provider struct {
	t      *testing.T
	issuer string // http://localhost:port, another site than the gateway's
	stdin  io.WriteCloser
	lines  *bufio.Scanner
}

// newProvider starts a provider, which serves once it has clients.
func newProvider(t *testing.T) *provider {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	node := exec.CommandContext(ctx, "node", "consent.mjs")
	node.Dir = filepath.Join("..", "..", "..", "test", "oidcprovider")
	var stderr strings.Builder
	node.Stderr = &stderr
	stdin := testworld.Must(node.StdinPipe())(t)
	stdout, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		cancel()
		t.Fatalf("node does not run (make deps installs it): %v", err)
	}
	t.Cleanup(func() {
		cancel()
		_ = node.Wait() // killed
	})
	p := &provider{t: t, stdin: stdin, lines: bufio.NewScanner(stdout)}
	if !p.lines.Scan() {
		cancel()
		_ = node.Wait()
		t.Fatalf("the provider does not run (make deps installs it): %s", stderr.String())
	}
	p.issuer = p.lines.Text()
	return p
}

// serve starts to serve, for clients with these redirect URIs: web, native, which is public, and app, the client of pages, which is
// public, too.
func (p *provider) serve(web string, pages ...string) {
	p.t.Helper()
	p.serveAll([]string{web}, pages...)
}

// serveAll is serve for a client web with several redirect URIs.
func (p *provider) serveAll(web []string, pages ...string) {
	p.t.Helper()
	client := func(id, method string, redirectURIs []string, more map[string]any) map[string]any {
		more["client_id"], more["token_endpoint_auth_method"], more["redirect_uris"], more["response_types"] = id, method, redirectURIs, []string{"code"}
		return more
	}
	grants := []string{"authorization_code", "refresh_token"}
	clients := []any{
		client("web", "client_secret_post", web, map[string]any{"client_secret": clientSecret, "grant_types": grants}),
		client("native", "none", []string{"http://127.0.0.1/callback"}, map[string]any{"application_type": "native", "grant_types": grants}),
	}
	if len(pages) > 0 {
		clients = append(clients, client("app", "none", pages, map[string]any{"grant_types": grants[:1]}))
	}
	err := json.NewEncoder(p.stdin).Encode(map[string]any{"clients": clients})
	if err == nil {
		err = p.stdin.Close()
	}
	if err != nil || !p.lines.Scan() {
		p.t.Fatalf("the provider does not serve: %v", err)
	}
}

// seen returns the paths of the requests that the provider answered with a status.
func (p *provider) seen(status int) (paths []string) {
	p.t.Helper()
	response := testworld.Must(http.Get(p.issuer + "/seen"))(p.t)
	defer response.Body.Close()
	var all []struct {
		Path   string
		Status int
	}
	testworld.Check(p.t, json.NewDecoder(response.Body).Decode(&all))
	for _, r := range all {
		if r.Status == status {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// accounts is a configuration with a connector for the account of a user, and one for the operator's.
const accounts = `gateway:
  user: {type: jwt, jwt: {cookie: session, bearer: true, jwks_file: sessions.json, issuer: ` + issuer + `, audiences: gateway}}
state: {type: sqlite, path: state.db, keys: "{{ get_secret('state-key') }}"}
connectors:
  - name: Account
    url: PROVIDER/me
    auth:
      type: oauth_authorization_code
      config:
        authorization_url: "{{ discover('PROVIDER', 'authorization_endpoint') }}"
        token_url: PROVIDER/token
        revocation_url: PROVIDER/token/revocation
        issuer: PROVIDER
        client_id: web
        client_secret: "{{ get_secret('client-secret') }}"
        scope: openid
  - name: Operator
    url: PROVIDER/me
    auth:
      type: oauth_authorization_code
      config:
        authorization_url: PROVIDER/auth
        token_url: PROVIDER/token
        revocation_url: PROVIDER/token/revocation
        client_id: native
        client_auth: none
        scope: openid
`

// consentDeployment is a gateway whose users consent at a provider.
type consentDeployment struct {
	*deployment
	provider *provider
	file     string
	stateKey string
	// link makes a link to connect, if the gateway is one of newPagesDeployment.
	link func(context.Context, gateway.LinkRequest) (string, error)
}

func newConsentDeployment(t *testing.T) *consentDeployment {
	t.Helper()
	w := &consentDeployment{
		deployment: bareDeployment(t), provider: newProvider(t),
		stateKey: base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv")),
	}
	w.Hide("the client secret", clientSecret)
	w.Hide("the state key", w.stateKey)
	w.file = w.write(strings.ReplaceAll(accounts, "PROVIDER", w.provider.issuer))
	w.run(w.file, connectors.Options{Host: host.Config{
		Secrets: host.MapSecrets{"client-secret": clientSecret, "state-key": w.stateKey},
		Egress:  host.Egress{AllowHTTP: true, AllowPrivate: true},
	}})
	w.provider.serve(w.gateway + "/connect/callback/account")
	return w
}

// agent is a browser of a user, without a screen. It does not follow redirects by itself.
type agent struct {
	w       *consentDeployment
	client  *http.Client
	session string
}

func (w *consentDeployment) agent(user string) *agent {
	w.t.Helper()
	jar := testworld.Must(cookiejar.New(nil))(w.t)
	a := &agent{w: w, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if user != "" {
		a.session = w.session(user)
	}
	return a
}

// page is an answer to an agent.
type page struct {
	status   int
	location string
	body     string
}

// problem returns the last part of the type of a problem.
func (p page) problem() string {
	found := regexp.MustCompile(`urn:keywright:problem:([a-z-]+)`).FindStringSubmatch(p.body)
	if found == nil {
		return ""
	}
	return found[1]
}

func (a *agent) send(method, target string, form url.Values) page {
	a.w.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(a.w.t.Context(), method, target, strings.NewReader(form.Encode())))(a.w.t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if a.session != "" && strings.HasPrefix(target, a.w.gateway) {
		r.AddCookie(&http.Cookie{Name: "session", Value: a.session})
	}
	response := testworld.Must(a.client.Do(r))(a.w.t)
	defer response.Body.Close()
	body := testworld.Must(io.ReadAll(response.Body))(a.w.t)
	where := ""
	if to, err := response.Location(); err == nil {
		where = to.String()
	}
	return page{response.StatusCode, where, string(body)}
}

func (a *agent) get(target string) page {
	a.w.t.Helper()
	return a.send(http.MethodGet, target, nil)
}

// begin begins a consent, and returns the URL of the authorization server.
func (a *agent) begin() *url.URL {
	a.w.t.Helper()
	got := a.get(a.w.gateway + "/connect/account")
	to, err := url.Parse(got.location)
	if err != nil || got.status != http.StatusFound || !strings.HasPrefix(got.location, a.w.provider.issuer) {
		a.w.t.Fatalf("the gateway answered %+v\n%s", got, a.w.log)
	}
	return to
}

// answer goes to the authorization server, signs in and answers, and returns the URL to which it sends the browser back.
func (a *agent) answer(to, account, answer string) *url.URL {
	a.w.t.Helper()
	for range 8 {
		switch {
		case !strings.HasPrefix(to, a.w.provider.issuer):
			return testworld.Must(url.Parse(to))(a.w.t)
		case strings.Contains(to, "/interaction/"):
			to = a.send(http.MethodPost, to, url.Values{"account": {account}, "answer": {answer}}).location
		default:
			to = a.get(to).location
		}
	}
	a.w.t.Fatal("the provider does not send the browser back")
	return nil
}

// connect connects an account.
func (a *agent) connect(account string) {
	a.w.t.Helper()
	if got := a.get(a.answer(a.begin().String(), account, "allow").String()); got.location != a.w.gateway+"/connect/account/done" {
		a.w.t.Fatalf("the gateway answered %+v\n%s", got, a.w.log)
	}
}

// account returns the account with which the API answers, or the type of the problem.
func (a *agent) account() string {
	a.w.t.Helper()
	got := a.get(a.w.gateway + "/connectors/account")
	var who struct{ Sub string }
	if json.Unmarshal([]byte(got.body), &who) == nil && who.Sub != "" {
		return who.Sub
	}
	return got.problem()
}
