package browser

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 132, 133, 134: a user comes to the gateway by a link of another site, consents at the authorization server, and uses
// the API with the account. The browser shows that, and what it received holds no token.
func TestConsentInABrowser(t *testing.T) {
	w := newConsentDeployment(t)
	b := open(w.deployment)
	b.signIn(ann)
	b.visit(w.app, `<a id="connect" href="`+w.gateway+`/connect/account">Connect</a>`)
	if status := b.follow(`document.getElementById("connect").click()`); status != http.StatusOK {
		t.Fatalf("the link shows %d", status)
	}
	if shown := b.shown(); !strings.Contains(shown, "asks to use your Account account") {
		t.Fatalf("the link shows %s", shown)
	}
	b.follow(`document.querySelector("a.main").click()`)
	if shown := b.shown(); !strings.Contains(shown, "web wants openid") {
		t.Fatalf("the button shows %s", shown)
	}
	b.follow(`document.querySelector("input").value = "ann"; document.querySelector("button").click()`)
	if shown := b.shown(); !strings.Contains(shown, "Account is connected") {
		t.Fatalf("after consent, the browser shows %s\n%s", shown, w.log)
	}
	if address := evaluate[string](b, "location.href"); address != w.gateway+"/connect/account/done" {
		t.Errorf("after consent, the address is %s", address)
	}
	if evaluate[string](b, "document.cookie") != "" {
		t.Error("scripts can read a cookie")
	}
	if err := b.navigate(w.gateway + "/connectors/account"); err != nil || !strings.Contains(b.shown(), `"sub":"ann"`) {
		t.Errorf("the API answers %s, %v", b.shown(), err)
	}
	if err := b.navigate(w.gateway + "/connect"); err != nil || !strings.Contains(b.shown(), "✓ Connected") {
		t.Errorf("the connections are %s, %v", b.shown(), err)
	}
	b.follow(`document.querySelector("a[href='/connect/account/disconnect']").click()`)
	b.follow(`document.querySelector("button").click()`)
	if shown := b.shown(); !strings.Contains(shown, "Disconnected") || !slices.Contains(w.provider.seen(http.StatusOK), "/token/revocation") {
		t.Errorf("after disconnecting, the connections are %s, and the provider has seen %v", shown, w.provider.seen(http.StatusOK))
	}
	if err := b.navigate(w.gateway + "/connectors/account"); err != nil || !strings.Contains(b.shown(), "not-connected") {
		t.Errorf("the API answers %s, %v", b.shown(), err)
	}
}

// shown returns the text that the page shows. Between two pages of different origins, a browser has an empty document, which is not the page.
func (b *tab) shown() string {
	b.t.Helper()
	for {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`new Promise(done => {
			const say = () => {
				const text = document.readyState === "complete" && document.body ? document.body.innerText.replaceAll(/\s+/g, " ") : ""
				text ? done(text) : requestAnimationFrame(say)
			}
			say()
		})`, chromedp.EvalAwaitPromise))
		if err == nil {
			return text
		}
		testworld.Check(b.t, b.ctx.Err()) // otherwise, the document was replaced
	}
}

// threats.md 132: a consent does not count if anything of it is another's, and a second user never gets the first one's account.
func TestInvalidConsents(t *testing.T) {
	w := newConsentDeployment(t)
	first := w.agent(ann)
	first.connect("ann")
	if got := first.account(); got != "ann" {
		t.Fatalf("the API answers %s\n%s", got, w.log)
	}
	change := func(u *url.URL, name, value string) {
		q := u.Query()
		if q.Set(name, value); value == "" {
			q.Del(name)
		}
		u.RawQuery = q.Encode()
	}
	challenge := strings.Repeat("A", 43)
	for name, c := range map[string]struct {
		to, back func(*url.URL)
		finish   func(begun *agent) *agent
		kind     string
	}{
		"another nonce":             {to: func(u *url.URL) { change(u, "nonce", "other") }, kind: "consent-forged"},
		"another verifier":          {to: func(u *url.URL) { change(u, "code_challenge", challenge) }, kind: "consent-failed"},
		"another issuer":            {back: func(u *url.URL) { change(u, "iss", "https://evil.example") }, kind: "consent-forged"},
		"no issuer":                 {back: func(u *url.URL) { change(u, "iss", "") }, kind: "consent-forged"},
		"another state":             {back: func(u *url.URL) { change(u, "state", strings.Repeat("A", 43)) }, kind: "consent-unknown"},
		"no state":                  {back: func(u *url.URL) { change(u, "state", "") }, kind: "consent-unknown"},
		"no code":                   {back: func(u *url.URL) { change(u, "code", "") }, kind: "consent-forged"},
		"another browser":           {finish: func(*agent) *agent { return w.agent(bea) }, kind: "consent-other"},
		"a browser without session": {finish: func(*agent) *agent { return w.agent("") }, kind: "consent-other"},
		"another user's session": {finish: func(begun *agent) *agent {
			begun.session = w.session(ann)
			return begun
		}, kind: "consent-other"},
	} {
		b := w.agent(bea)
		to := b.begin()
		if c.to != nil {
			c.to(to)
		}
		back := b.answer(to.String(), "mallory", "allow")
		if c.back != nil {
			c.back(back)
		}
		if c.finish != nil {
			b = c.finish(b)
		}
		if got := b.get(back.String()); got.status < 400 || got.problem() != c.kind {
			t.Errorf("%s: the gateway answered %+v\n%s", name, got, w.log)
		}
		if got := w.agent(bea).account(); got != "not-connected" {
			t.Errorf("%s: the API answers %s to the user who began", name, got)
		}
		if got := first.account(); got != "ann" {
			t.Fatalf("%s: the API answers %s to another user", name, got)
		}
	}
	second := w.agent(bea)
	if got := second.get(second.answer(second.begin().String(), "bea", "refuse").String()); got.problem() != "consent-denied" {
		t.Errorf("a user who refuses gets %+v", got)
	}
	back := second.answer(second.begin().String(), "bea", "allow").String()
	if got := second.get(back); got.location != w.gateway+"/connect/account/done" || second.account() != "bea" || first.account() != "ann" {
		t.Errorf("the second user gets %+v, and the API answers %s to her and %s to the first", got, second.account(), first.account())
	}
	if got := second.get(back); got.problem() != "consent-unknown" || second.account() != "bea" {
		t.Errorf("the same callback again gets %+v", got)
	}
	if got := first.send(http.MethodDelete, w.gateway+"/connect/account", nil); got.status != http.StatusNoContent || first.account() != "not-connected" || second.account() != "bea" {
		t.Errorf("disconnecting, the first user gets %+v; then the API answers %s, and %s to the second", got, first.account(), second.account())
	}
}

// An operator connects an account on the command line, through a port of 127.0.0.1, and uses it beside a running gateway.
func TestConsentOnTheCommandLine(t *testing.T) {
	w := newConsentDeployment(t)
	program := filepath.Join(t.TempDir(), "keywright")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/keywright")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("err = %v\nout = %s", err, out)
	}
	var stderr strings.Builder
	command := func(arguments ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), program, append(arguments[:1:1], append([]string{"--dev", "-c", w.file}, arguments[1:]...)...)...)
		c.Env = append(os.Environ(), "KEYWRIGHT_SECRET_CLIENT_SECRET="+clientSecret, "KEYWRIGHT_SECRET_STATE_KEY="+w.stateKey)
		stderr.Reset()
		c.Stderr = &stderr
		return c
	}
	connect := command("connect", "operator")
	out := testworld.Must(connect.StdoutPipe())(t)
	testworld.Check(t, connect.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open this in a browser on this machine:" || !lines.Scan() {
		t.Fatalf("the command says %q: %v, %s", lines.Text(), connect.Wait(), stderr.String())
	}
	a := w.agent("")
	if got := a.get(a.answer(lines.Text(), "root", "allow").String()); got.status != http.StatusOK || got.body != "Operator is connected. You can close this page.\n" {
		t.Errorf("the browser gets %+v", got)
	}
	if !lines.Scan() || lines.Text() != "operator is connected" {
		t.Errorf("the command says %q", lines.Text())
	}
	if err := connect.Wait(); err != nil {
		t.Fatalf("%v: stderr = %s", err, stderr.String())
	}
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"request", "operator", ""}, `{"sub":"root"}`},
		{[]string{"connect", "--list"}, "CONNECTOR  CONDITION\naccount    not connected\noperator   connected"},
		{[]string{"connect", "--disconnect", "operator"}, "operator is disconnected\n"},
		{[]string{"connect", "--list"}, "CONNECTOR  CONDITION\naccount    not connected\noperator   not connected\n"},
	} {
		got, err := command(c.arguments...).Output()
		if err != nil || !strings.HasPrefix(string(got), c.want) {
			t.Errorf("%v: got = %s, err = %v, stderr = %s", c.arguments, got, err, stderr.String())
		}
	}
	if err := command("request", "operator", "").Run(); err == nil || !strings.Contains(stderr.String(), "connect") {
		t.Errorf("after that, a request ends with %v: %s", err, stderr.String())
	}
}
