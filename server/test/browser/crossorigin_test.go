package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 46: a page of an origin that is not configured cannot read responses, and the API gets no request.
func TestUnconfiguredOrigins(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.signIn(ann)
	for name, origin := range map[string]string{
		"another name of the same server":         "http://127.0.0.1:" + w.port, // the gateway's site, so SameSite lets its cookies pass
		"a name below that of the one configured": "http://app.localhost:" + w.port,
	} {
		t.Run(name, func(t *testing.T) {
			b.visit(origin, "")
			b.requests(0)
			for request, init := range map[string]map[string]any{
				"simple": withSession,
				"a form's": {
					"credentials": "include", "method": "POST", "body": "a=b", "headers": map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
				},
				"with a header of its own": {"credentials": "include", "headers": map[string]string{"X-Requested-With": "fetch"}},
				"JSON": {
					"credentials": "include", "method": "POST", "body": "{}", "headers": map[string]string{"Content-Type": "application/json"},
				},
				"of a method that forms do not have": {"credentials": "include", "method": "DELETE"},
			} {
				for _, path := range paths {
					if got := b.fetch(w.gateway+"/connectors/"+path, init); got.Failed == "" {
						t.Errorf("%s, %s: the page gets %+v", request, path, got)
					}
				}
				preflight := request != "simple" && request != "a form's"
				for _, sent := range b.requests(len(paths)) {
					if isPreflight(sent) != preflight {
						t.Errorf("%s: the browser sent %v", request, sent)
					}
					if !preflight && !strings.HasPrefix(sent.Get("Cookie"), "session=") {
						t.Errorf("%s: the browser sent no session, so this is not what it is about: %v", request, sent)
					}
				}
			}
		})
	}
	if got := w.api.count(); got != 0 {
		t.Errorf("%d requests reached the API", got)
	}
	if exchanges := w.auth.Exchanges(); len(exchanges) != 0 {
		t.Errorf("the token endpoint was asked: %v", exchanges)
	}
	if got := b.everything(); strings.Contains(strings.ToLower(got), "access-control-allow-origin") || !strings.Contains(got, " 403 Forbidden") {
		t.Error("an answer lets pages read, or was not kept")
	}
}

// The gateway responds to preflights, which browsers send before requests that a form could not send. The API does not get them.
func TestPreflight(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.signIn(ann)
	b.visit(w.app, "")
	got := b.fetch(w.gateway+"/connectors/header", map[string]any{
		"credentials": "include", "method": "POST", "body": "{}", "headers": map[string]string{"Content-Type": "application/json", "X-Requested-With": "fetch"},
	})
	if got.Status != http.StatusOK {
		t.Errorf("the page gets %+v", got)
	}
	sent := b.requests(2)
	if len(sent) != 2 || !isPreflight(sent[0]) || sent[0].Get("Cookie") != "" || isPreflight(sent[1]) {
		t.Errorf("the browser sent %v, want a preflight without session, and a request", sent)
	}
	if calls, method := w.api.count(), w.api.last().Method; calls != 1 || method != http.MethodPost {
		t.Errorf("the API got %d requests, the last one %s", calls, method)
	}
	seen := b.everything()
	for _, line := range []string{"Access-Control-Allow-Origin: " + w.app, "Access-Control-Allow-Credentials: true"} {
		if strings.Count(seen, line+"\r\n") < 2 {
			t.Errorf("not both answers have %s", line)
		}
	}
	if strings.Contains(seen, "Access-Control-Allow-Origin: *") {
		t.Error("an answer is for every origin")
	}
	// A preflight allows each method, so that the page can read the response for a method that the connector does not have.
	if got := b.fetch(w.gateway+"/connectors/header", map[string]any{"credentials": "include", "method": "DELETE"}); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("for DELETE, the page gets %+v", got)
	}
	if calls := w.api.count(); calls != 1 {
		t.Errorf("the API got %d requests", calls)
	}
}

func isPreflight(sent http.Header) bool { return sent.Get("Access-Control-Request-Method") != "" }

// threats.md 46: requests that a page can send with the user's session and without a preflight are refused.
func TestRequestForgery(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.signIn(ann)
	target := w.gateway + "/connectors/header"
	form := `<form id="f" method="%s" action="` + target + `"><input name="amount" value="1000"></form>`
	element := func(name string) string {
		return fmt.Sprintf(`new Promise(done => {
			const e = document.createElement(%q)
			e.onload = () => done("loaded")
			e.onerror = () => done("failed")
			e.src = %q
			document.body.append(e)
		})`, name, target)
	}
	fetch := func(method string) string {
		return fmt.Sprintf(`fetch(%q, {mode: "no-cors", credentials: "include", method: %q}).then(r => r.type, e => "failed")`, target, method)
	}
	for name, attack := range map[string]struct {
		html   string
		script string // a promise of the result
		goes   string // alternatively, a script that navigates the page
	}{
		"a form":                           {html: fmt.Sprintf(form, "post"), goes: `f.submit()`},
		"a form that hides where it is":    {html: `<meta name="referrer" content="no-referrer">` + fmt.Sprintf(form, "post"), goes: `f.submit()`}, // Origin: null
		"a form that gets":                 {html: fmt.Sprintf(form, "get"), goes: `f.submit()`},
		"a link":                           {html: `<a id="a" href="` + target + `">win</a>`, goes: `a.click()`},
		"a link that hides where it is":    {html: `<a id="a" rel="noreferrer" href="` + target + `">win</a>`, goes: `a.click()`},
		"a redirect":                       {goes: `location = "/elsewhere?to=` + target + `"`},
		"an image":                         {script: element("img")},
		"a script":                         {script: element("script")},
		"fetch that does not want to know": {script: fetch("GET")},
		"post that does not want to know":  {script: fetch("POST")},
	} {
		for from, origin := range map[string]string{"another site": "http://app.localhost:" + w.port, "a neighbour": "http://127.0.0.1:" + w.port} {
			t.Run(name+" of "+from, func(t *testing.T) {
				b.t = t
				defer func() { b.t = w.t }()
				b.visit(origin, attack.html)
				b.requests(0)
				before := w.api.count()
				if attack.goes != "" {
					if status := b.follow(attack.goes); status != http.StatusForbidden {
						t.Errorf("the answer is %d", status)
					}
				} else if got := evaluate[string](b, attack.script); got != "failed" && got != "opaque" {
					t.Errorf("it %s", got)
				}
				for _, sent := range b.requests(1) {
					if !strings.HasPrefix(sent.Get("Cookie"), "session=") {
						t.Errorf("the browser sent no session, so this is not what it is about: %v", sent)
					}
				}
				if got := w.api.count() - before; got != 0 {
					t.Errorf("%d requests reached the API", got)
				}
			})
		}
	}
	// The user may open the URL.
	before := w.api.count()
	testworld.Check(t, b.navigate(target))
	if got := w.api.count() - before; got != 1 {
		t.Errorf("%d requests of the user reached the API, want 1", got)
	}
}
