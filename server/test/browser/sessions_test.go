package browser

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

const orderKey = "order/key+Lm5wQzt8=~Xa"

// recipe returns the blocks of docs/sessions.md with a marker, by language.
func recipe(t *testing.T, marker string) map[string]string {
	t.Helper()
	text := testworld.Must(os.ReadFile(filepath.Join("..", "..", "..", "docs", "sessions.md")))(t)
	blocks := map[string]string{}
	for _, found := range regexp.MustCompile("(?ms)^<!-- "+marker+" -->\n```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks[found[1]] = found[2]
	}
	if len(blocks) != 2 {
		t.Fatalf("docs/sessions.md has %d blocks of %q", len(blocks), marker)
	}
	return blocks
}

// orders starts the API of the recipes, which answers with the user that the gateway names.
func orders(t *testing.T) string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+orderKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Total-Count", "12")
		w.Header().Set("X-Account", "internal")
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"user":%q,"email":%q}`, r.Header.Get("X-User"), r.Header.Get("X-Email"))
	}))
	t.Cleanup(api.Close)
	return api.URL
}

// recipeDeployment returns a deployment whose gateway runs from the YAML of a recipe, with changes for the names in it.
func recipeDeployment(t *testing.T, yaml string, changes ...string) *deployment {
	t.Helper()
	w := bareDeployment(t)
	w.Hide("the key of orders", orderKey)
	changes = append(changes, "https://api.example.com", orders(t), "hosts: [gateway.example.com]", "hosts: [127.0.0.1, gateway.example.com]", "https://app.example.com", w.app)
	w.run(w.write(strings.NewReplacer(changes...).Replace(yaml)), connectors.Options{Host: host.Config{
		Secrets: host.MapSecrets{"orders": orderKey}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true},
	}})
	return w
}

// docs/sessions.md: a page of another origin signs its user in at oidc-provider, and calls a connector with the access token. The file of
// the gateway names the issuer only.
func TestASinglePageApplication(t *testing.T) {
	page, provider := recipe(t, "page"), newProvider(t)
	w := recipeDeployment(t, page["yaml"], "https://id.example.com", provider.issuer)
	w.script = strings.NewReplacer(`issuer = "https://id.example.com"`, fmt.Sprintf("issuer = %q", provider.issuer), `gateway = "https://gateway.example.com"`, fmt.Sprintf("gateway = %q", w.gateway)).Replace(page["js"])
	provider.serve(w.gateway+"/unused", w.app+"/app")
	b := open(w)
	testworld.Check(t, b.navigate(w.app+"/app"))
	b.leave(`signIn()`)
	if shown := b.shown(); !strings.Contains(shown, "app wants connectors") {
		t.Fatalf("the browser shows %s", shown)
	}
	b.leave(`document.querySelector("input").value = "ann"; document.querySelector("button").click()`)
	token := evaluate[string](b, `signedIn()`)
	type called struct {
		Status int
		Total  string
		Body   struct{ User string }
	}
	if got := evaluate[called](b, fmt.Sprintf("orders(%q)", token)); got.Status != http.StatusOK || got.Body.User != "ann" || got.Total != "12" {
		t.Errorf("the page gets %+v\n%s", got, w.log)
	}
	if got := evaluate[string](b, "location.search + document.cookie"); got != "" {
		t.Errorf("the page has %s in its address or its cookies", got)
	}
	if got := evaluate[called](b, fmt.Sprintf("orders(%q)", token[:len(token)-4]+"AAAA")); got.Status != http.StatusUnauthorized {
		t.Errorf("with a token that is changed, the page gets %+v", got)
	}
	for _, sent := range b.requests(3) { // there is one preflight for both calls
		if sent.Get("Cookie") != "" || isPreflight(sent) == (sent.Get("Authorization") != "") {
			t.Errorf("the browser sent %v", sent)
		}
	}
	// Another page with the token can send nothing and read nothing.
	b.visit("http://app.localhost:"+w.port, "")
	if got := b.fetch(w.gateway+"/connectors/orders", map[string]any{"headers": map[string]string{"Authorization": "Bearer " + token}}); got.Failed == "" {
		t.Errorf("a page of another origin gets %+v", got)
	}
	w.Out("what the browser got", b.everything())
}

// leave runs a script that leaves the page, after requests of its own.
func (b *tab) leave(script string) {
	b.t.Helper()
	b.bodies()
	testworld.Must(chromedp.RunResponse(b.ctx, chromedp.Evaluate[chromedp.Void](script)))(b.t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = nil // the bodies of the page that is gone
}

// people are the sessions of the stand-in for oauth2-proxy, by the value of its cookie: the headers that it documents.
var people = map[string]map[string]string{
	"ann":     {"User": "u-1", "Email": ann, "Preferred-Username": "ann"},
	"nomail":  {"User": "u-2"},
	"unnamed": {},
}

// signedInAs returns the headers of the session of a request, and whether there is one.
func signedInAs(r *http.Request) (map[string]string, bool) {
	cookie, err := r.Cookie("_oauth2_proxy")
	if err != nil {
		return nil, false
	}
	person, ok := people[cookie.Value]
	return person, ok
}

// forged are headers with which a browser says who it is.
var forged = []http.Header{
	{},
	{"X-Auth-Request-Email": {"eve@example.com"}, "X-Auth-Request-User": {"eve"}},
	{"x-auth-request-email": {"eve@example.com"}, "X_Auth_Request_User": {"eve"}, "X_AUTH_REQUEST_EMAIL": {"eve@example.com"}},
	{"X-Forwarded-Email": {"eve@example.com"}, "X-Forwarded-User": {"eve"}, "X-Forwarded-Preferred-Username": {"eve"}},
	{"X-Auth-Request-Email": {"eve@example.com", ann}, "X-Forwarded-User": {"eve", "u-1"}},
	{"Connection": {"X-Auth-Request-Email, X-Forwarded-Email"}},
}

// check sends requests with forged headers for each session, and checks who the API takes the user for.
func check(t *testing.T, transport http.RoundTripper, target string) {
	t.Helper()
	for session, want := range map[string]string{
		"": "", "mallory": "", "unnamed": "", "ann": `{"user":"u-1","email":"ann@example.com"}`, "nomail": `{"user":"u-2","email":""}`,
	} {
		for i, headers := range forged {
			status, body := ask(t, transport, target, session, headers)
			if strings.Contains(body, "eve") || status == http.StatusOK && body != want || len(headers) == 0 && (status == http.StatusOK) != (want != "") {
				t.Errorf("session %q, headers %d: %d %s", session, i, status, body)
			}
		}
	}
}

// ask sends a request of a browser with a session of oauth2-proxy.
func ask(t *testing.T, transport http.RoundTripper, target, session string, headers http.Header) (status int, body string) {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, target+"/connectors/orders", nil))(t)
	r.Header, r.Host = headers.Clone(), "gateway.example.com"
	if session != "" {
		r.AddCookie(&http.Cookie{Name: "_oauth2_proxy", Value: session})
	}
	response := testworld.Must(transport.RoundTrip(r))(t)
	defer response.Body.Close()
	text := testworld.Must(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(text)
}

// threats.md 44, docs/sessions.md: nginx asks oauth2-proxy who the user is, and the gateway believes nginx. A browser can neither name a
// user to nginx, nor go around it.
func TestOAuth2ProxyBehindNginx(t *testing.T) {
	blocks := recipe(t, "nginx")
	w := recipeDeployment(t, blocks["yaml"])
	oauth2 := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		person, ok := signedInAs(r)
		if r.URL.Path != "/oauth2/auth" || !ok {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		for name, value := range person {
			rw.Header().Set("X-Auth-Request-"+name, value)
		}
		rw.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(oauth2.Close)
	check(t, nginx(t, strings.NewReplacer("http://127.0.0.1:4180", oauth2.URL, "http://127.0.0.1:8080", w.gateway).Replace(blocks["nginx"])), "http://gateway.example.com")
	around := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext, DisableKeepAlives: true}
	if status, body := ask(t, around, w.gateway, "", http.Header{"X-Auth-Request-User": {"eve"}, "X-Auth-Request-Email": {"eve@example.com"}}); status != http.StatusUnauthorized {
		t.Errorf("around nginx: %d %s", status, body)
	}
}

// threats.md 44, docs/sessions.md: oauth2-proxy passes requests on by itself, with headers of other names.
func TestOAuth2ProxyAlone(t *testing.T) {
	w := recipeDeployment(t, recipe(t, "nginx")["yaml"], "id: X-Auth-Request-User", "id: X-Forwarded-User", "email: X-Auth-Request-Email", "email: X-Forwarded-Email\n      username: X-Forwarded-Preferred-Username")
	to := testworld.Must(url.Parse(w.gateway))(t)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		person, _ := signedInAs(r.In)
		for _, name := range []string{"User", "Email", "Preferred-Username", "Groups", "Access-Token"} {
			if r.Out.Header.Del("X-Forwarded-" + name); person[name] != "" {
				r.Out.Header.Set("X-Forwarded-"+name, person[name])
			}
		}
	}}
	oauth2 := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, ok := signedInAs(r); !ok {
			rw.WriteHeader(http.StatusForbidden) // a page to sign in
			return
		}
		pass.ServeHTTP(rw, r)
	}))
	t.Cleanup(oauth2.Close)
	check(t, http.DefaultTransport, oauth2.URL)
}

// nginx runs Debian's nginx with the locations of a server, on a socket in a directory, and returns a transport to it.
func nginx(t *testing.T, locations string) http.RoundTripper {
	t.Helper()
	dir, err := os.MkdirTemp("", "nginx") // the path of a socket is short
	testworld.Check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text := "master_process off; pid " + dir + "/pid; error_log " + dir + "/log;\nevents {}\nhttp {\naccess_log off;\n"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += name + "_temp_path " + dir + "/" + name + ";\n"
	}
	text += "server {\nlisten unix:" + dir + "/socket;\nserver_name gateway.example.com;\n" + locations + "}\n}\n"
	testworld.Check(t, os.WriteFile(dir+"/nginx.conf", []byte(text), 0o600))
	// The command ends when nginx listens, and leaves it running.
	if out, err := exec.CommandContext(t.Context(), "/usr/sbin/nginx", "-e", dir+"/log", "-p", dir, "-c", dir+"/nginx.conf").CombinedOutput(); err != nil {
		t.Fatalf("nginx does not run (make deps installs it): %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("/usr/sbin/nginx", "-e", dir+"/log", "-p", dir, "-c", dir+"/nginx.conf", "-s", "stop").CombinedOutput(); err != nil {
			t.Errorf("err = %v\nout = %s", err, out)
		}
	})
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", dir+"/socket")
	}}
}
