package browser

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

var withSession = map[string]any{"credentials": "include"}

// A page of a configured origin gets the response of each API, for its user.
func TestFetch(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.signIn(ann)
	b.visit(w.app, "")
	of := map[string]string{"header": "key", "query": "key", "token": "gateway", "jwt": ann, "assertion": ann}
	for range 2 { // the second time, tokens are cached
		for _, path := range paths {
			got := b.fetch(w.gateway+"/connectors/"+path, withSession)
			var said answer
			if err := json.Unmarshal([]byte(got.Body), &said); got.Status != http.StatusOK || err != nil {
				t.Fatalf("%s: the page gets %+v", path, got)
			}
			if want := (answer{Path: path, By: of[path], Email: ann}); said != want {
				t.Errorf("%s: the API says %+v, want %+v", path, said, want)
			}
		}
	}
	var grants []string
	for _, exchange := range w.auth.Exchanges() {
		grants = append(grants, exchange.GrantType)
	}
	if want := []string{"client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"}; !slices.Equal(grants, want) {
		t.Errorf("the token endpoint was asked for %v, want %v", grants, want)
	}
	for _, sent := range b.requests(2 * len(paths)) {
		if !strings.HasPrefix(sent.Get("Cookie"), "session=") || sent.Get("Sec-Fetch-Site") != "cross-site" || sent.Get("Origin") != w.app {
			t.Errorf("the browser sent %v: no session from another site, which is what this is about", sent)
		}
	}
}

// The session may be in Authorization as well. The API gets its own credential there (threats.md 43), and the right user.
func TestFetchWithBearer(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.visit(w.app, "")
	for _, user := range []string{ann, bea, ann} {
		session := w.session(user)
		for _, path := range paths {
			got := b.fetch(w.gateway+"/connectors/"+path, map[string]any{"headers": map[string]string{"Authorization": "Bearer " + session}})
			var said answer
			if err := json.Unmarshal([]byte(got.Body), &said); got.Status != http.StatusOK || err != nil || said.Email != user || strings.Contains(said.By, "@") && said.By != user {
				t.Errorf("%s: %s gets %+v", path, user, got)
			}
			if url := w.api.last().URL.String(); strings.Contains(url, session) || holds(w.api.last().Header, session) {
				t.Errorf("%s: the API got the session", path)
			}
		}
	}
}

func TestFetchWithoutASession(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.visit(w.app, "")
	another := *w // with the key of another issuer
	another.sessionKey = newKey(t)
	for name, init := range map[string]map[string]any{
		"none":         withSession,
		"not verified": {"headers": map[string]string{"Authorization": "Bearer " + another.session(ann)}},
	} {
		for _, path := range paths {
			if got := b.fetch(w.gateway+"/connectors/"+path, init); got.Status != http.StatusUnauthorized || !strings.Contains(got.Body, ":unauthenticated") {
				t.Errorf("%s, %s: the page gets %+v", name, path, got)
			}
		}
	}
	if got := w.api.count(); got != 0 {
		t.Errorf("%d requests reached the API", got)
	}
}

// threats.md 44: the API gets the user of the session, whatever headers a page sets.
func TestIdentityOfThePage(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.signIn(ann)
	b.visit(w.app, "")
	const eve = "eve@example.com"
	for _, name := range []string{
		"X-User-Email", "x-user-email", "X_User_Email", "X-Forwarded-Email", "X_Forwarded_Email", "X-Forwarded-User", "X-Auth-Request-Email", "User.Email", "Remote-User",
	} {
		got := b.fetch(w.gateway+"/connectors/header", map[string]any{
			"credentials": "include", "method": "POST", "headers": map[string]string{name: eve}, "body": `{"user":{"email":"` + eve + `"}}`,
		})
		if got.Status != http.StatusOK || !strings.Contains(got.Body, `"email":"`+ann+`"`) {
			t.Errorf("%s: the page gets %+v", name, got)
			continue
		}
		r := w.api.last()
		if emails := r.Header["X-User-Email"]; !slices.Equal(emails, []string{ann}) {
			t.Errorf("%s: the API is told of %v", name, emails)
		}
		if holds(r.Header, eve) || strings.Contains(r.URL.String(), "eve") {
			t.Errorf("%s: the API got %s %v", name, r.URL, r.Header)
		}
	}
	reached := w.api.count()
	for method, status := range map[string]int{"GET": http.StatusOK, "POST": http.StatusBadRequest} {
		got := b.fetch(w.gateway+"/connectors/header?user.email="+eve+"&X-User-Email="+eve, map[string]any{"credentials": "include", "method": method})
		if got.Status != status {
			t.Errorf("%s with parameters: the page gets %+v", method, got)
		}
	}
	if r := w.api.last(); w.api.count() != reached+1 || r.URL.RawQuery != "" {
		t.Errorf("of two requests with parameters, %d reached the API, the last with %s", w.api.count()-reached, r.URL)
	}
	asked := false
	for _, sent := range b.requests(1) {
		asked = asked || sent.Get("X-User-Email") == eve // the preflights have no such header
	}
	if !asked {
		t.Error("the browser did not send what the page wanted")
	}
}

// If the API echoes the credential in headers and bodies, the browser does not get it (threats.md 45).
func TestCredentialsStayOnTheServer(t *testing.T) {
	w := newDeployment(t)
	b := open(w)
	b.signIn(ann)
	b.visit(w.app, "")
	for _, path := range paths {
		if got := b.fetch(w.gateway+"/connectors/"+path, withSession); got.Status != http.StatusOK {
			t.Errorf("%s: the page gets %+v", path, got)
		}
		for _, echo := range []string{"plain", "base64"} {
			got := b.fetch(w.gateway+"/connectors/"+path+"/echo/"+echo, withSession)
			if got.Status != http.StatusBadGateway || !strings.Contains(got.Body, ":credential-echoed") {
				t.Errorf("%s, echoed as %s: the page gets %d", path, echo, got.Status)
			}
		}
		b.fetch(w.gateway+"/connectors/"+path+"/no/such/path", withSession)
		b.fetch(w.gateway+"/connectors/"+path, map[string]any{"credentials": "include", "method": "PUT"})
		b.fetch(w.gateway+"/connectors/"+path+"?api_key=mine", map[string]any{"credentials": "include", "headers": map[string]string{"X-Api-Key": "mine"}})
	}
	if got := w.api.count(); got != 4*len(paths) {
		t.Errorf("the API got %d requests, want %d", got, 4*len(paths))
	}
	got := b.everything() // before the next navigation
	before := w.api.count()
	for _, path := range paths { // opened by the user
		testworld.Check(t, b.navigate(w.gateway+"/connectors/"+path))
	}
	if count := w.api.count() - before; count != len(paths) {
		t.Errorf("the API got %d requests of a user who opens it, want %d", count, len(paths))
	}
	b.visit(w.app, "")
	got += b.everything()
	w.Out("what the browser got", got)
	w.api.mu.Lock()
	secrets := len(w.api.secrets)
	w.api.mu.Unlock()
	// Three fixed secrets and two keys, two access tokens, one assertion, and a JWT for each request to jwt.
	if want := 3 + 2 + 2 + 1 + 5; secrets != want {
		t.Errorf("looked for %d secrets, want %d", secrets, want)
	}
	// The search covered raw headers, headers seen by fetch, and bodies on the network and in the page.
	for _, there := range []string{"Server-Timing: auth;dur=", `["server-timing","auth;dur=`, `{"path":"assertion","by":"ann@example.com"`, `{\"path\":\"assertion\"`} {
		if !strings.Contains(got, there) {
			t.Errorf("what the browser got has no %s: not all of it was looked at", there)
		}
	}
}

func holds(header http.Header, text string) bool {
	for name, values := range header {
		if strings.Contains(name+": "+strings.Join(values, "\n"), text) {
			return true
		}
	}
	return false
}
