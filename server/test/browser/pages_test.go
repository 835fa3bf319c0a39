package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	devpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// visible is a configuration whose users see who asks.
const visible = `gateway:
  origins: [SITE]
  user: {type: jwt, jwt: {cookie: session, bearer: true, jwks_file: sessions.json, issuer: ` + issuer + `, audiences: gateway}}
  consent:
    name: Acme
    logo: logo.svg
    sign_in: SITE/page?html=the+page+where+users+sign+in&back={back}
    scopes: {openid: know which account it is, orders.read: read orders}
MORE
state: {type: sqlite, path: state.db, keys: "{{ get_secret('state-key') }}"}
connectors:
`

const consenting = `  - name: NAME
    permalink: PERMALINK
    url: PROVIDER/me
    consent: {account: {name: response.body.sub + '@orders.test'}}
    auth:
      type: oauth_authorization_code
      config: {authorization_url: PROVIDER/auth, token_url: PROVIDER/token, revocation_url: PROVIDER/token/revocation, issuer: PROVIDER, client_id: web, client_secret: "{{ get_secret('client-secret') }}", scope: openid}
`

const logo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 32"><rect width="32" height="32" rx="8" fill="#1f5fbf"/><path d="M16 6 26 26H6z" fill="#fff"/><circle cx="60" cy="16" r="9" fill="#1f5fbf"/></svg>`

// accountsInMemory are the accounts that users have connected.
type accountsInMemory struct {
	mu  sync.Mutex
	all map[string]gateway.Account
}

func (a *accountsInMemory) Connected(_ context.Context, user host.User, connector string, account gateway.Account) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	account.Used = account.Since
	a.all[user.ID+" "+connector] = account
	return nil
}

func (a *accountsInMemory) Disconnected(_ context.Context, user host.User, connector string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, user.ID+" "+connector)
	return nil
}

func (a *accountsInMemory) Account(_ context.Context, user host.User, connector string) (gateway.Account, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account, ok := a.all[user.ID+" "+connector]
	return account, ok, nil
}

// newPagesDeployment returns a gateway with two connectors, Orders and one with a long name. more has further members of consent, and files
// are beside the configuration.
func newPagesDeployment(t *testing.T, more string, files map[string]string) *consentDeployment {
	t.Helper()
	w := &consentDeployment{
		deployment: bareDeployment(t), provider: newProvider(t), stateKey: base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv")),
	}
	w.Hide("the client secret", clientSecret)
	text := visible
	for permalink, name := range map[string]string{"orders": "Orders", "long": "Customer-Relationship-Management of Contoso"} {
		text += strings.NewReplacer("NAME", name, "PERMALINK", permalink).Replace(consenting)
	}
	w.file = w.write(strings.NewReplacer("PROVIDER", w.provider.issuer, "SITE", w.app, "MORE", more).Replace(text))
	for name, content := range files {
		testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(w.file), name), []byte(content), 0o600))
	}
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(w.file), "logo.svg"), []byte(logo), 0o600))
	set := testworld.Must(connectors.Load(t.Context(), w.file, connectors.Options{OpenState: func(ctx context.Context, s *connectors.State, c *host.Config) (err error) {
		opened, err := statestore.Open(ctx, s, statestore.Options{})
		if err == nil {
			c.State = opened.State
			t.Cleanup(func() { _ = opened.Close(context.Background()) })
		}
		return err
	}, Host: host.Config{
		Secrets: host.MapSecrets{"client-secret": clientSecret, "state-key": w.stateKey}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true},
	}}))(t)
	t.Cleanup(func() { _ = set.Close(context.Background()) })
	users := testworld.Must(identity.New(t.Context(), set.Settings.User, identity.Options{}))(t)
	t.Cleanup(func() { _ = users.Close() })
	g := gateway.New(gateway.Config{Logger: w.log.Logger(), Connections: &accountsInMemory{all: map[string]gateway.Account{}}})
	g.Use(gateway.Setup{Connectors: set.Connectors, Origins: set.Settings.Origins, Users: users, Consent: set.Settings.Consent})
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	w.gateway = server.URL
	w.provider.serveAll([]string{w.gateway + "/connect/callback/orders", w.gateway + "/connect/callback/long"})
	return w
}

// language sets the languages that the user prefers.
func (b *tab) language(accept string) {
	b.t.Helper()
	text := testworld.Must(json.Marshal(accept))(b.t)
	testworld.Must(chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": accept}}))(b.t)
	_ = text
}

// look sets the width of the window, and the colours that the user prefers.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	testworld.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params))(b.t)
	testworld.Check(b.t, chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)))
}

// picture writes what the page looks like.
func (b *tab) picture(name string) {
	b.t.Helper()
	height := evaluate[int64](b, "document.documentElement.scrollHeight")
	got := testworld.Must(chromedp.Call(b.ctx, devpage.CaptureScreenshot, devpage.CaptureScreenshotParams{}))(b.t)
	_ = height
	testworld.Check(b.t, os.WriteFile(name, got.Data, 0o644))
}

var _ = fmt.Sprint
var _ = time.Now
