package console_test

import (
	"encoding/base64"
	"errors"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// withToken is a file with a connector that gets tokens.
const withToken = `
connectors:
  - name: CRM
    permalink: crm
    url: https://api.example.com/crm
    method: [GET, POST]
    paths: [/**]
    auth:
      type: oauth_client_credentials
      config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: https://login.example.com/token}
`

// failed records a request that failed with an error at a stage.
func (w *world) failed(err error, stage host.Stage, change ...func(*gateway.Event)) {
	e := gateway.Event{Connector: "crm", ID: "0123456789abcdef", Status: 502, Problem: "authentication-failed", Stage: string(stage), Err: &host.Error{Connector: "crm", Stage: stage, Err: err}, Began: now}
	for _, c := range change {
		c(&e)
	}
	w.recorder.Request(&e)
}

// Each of these faults shows on the page of its connector in a line, with the remedy.
func TestAFaultShowsWithItsRemedy(t *testing.T) {
	status := func(status int, code string, offset time.Duration) func(*gateway.Event) {
		return func(e *gateway.Event) {
			*e = gateway.Event{Connector: "crm", ID: e.ID, Status: status, UpstreamStatus: status, Refusal: gateway.Refused{Code: code, Offset: offset}, Began: now}
		}
	}
	for name, c := range map[string]struct {
		err    error
		stage  host.Stage
		change func(*gateway.Event)
		want   string
	}{
		"wrong secret":                 {err: &host.TokenError{Status: 401, Code: "invalid_client"}, stage: host.StageToken, want: "The client id or its secret is wrong"},
		"wrong key of an API":          {change: status(401, "", 0), want: "The API does not take the credential: is the secret right"},
		"wrong audience":               {err: &host.TokenError{Status: 400, Code: "invalid_target"}, stage: host.StageToken, want: "The audience or resource is wrong"},
		"wrong audience of an API":     {change: status(401, "invalid_token", 0), want: "Compare audience"},
		"wrong audience of a JWT":      {err: &host.TokenError{Status: 400, Code: "invalid_grant"}, stage: host.StageToken, want: "compare issuer, subject, audience and key"},
		"certificate that has expired": {err: &host.CertificateError{NotAfter: now}, stage: host.StageConfig, want: "The client certificate expired on 2026-05-04"},
		"certificate of the server":    {err: host.ErrServerCertificate, stage: host.StageToken, want: "The server's certificate is refused"},
		"clock that is off":            {err: &host.TokenError{Status: 400, Code: "invalid_grant", Offset: 7 * time.Minute}, stage: host.StageToken, want: "The clocks differ: this machine's is 7 min behind that of the token endpoint"},
		"clock that hardly differs":    {err: &host.TokenError{Status: 400, Code: "invalid_grant", Offset: 30 * time.Second}, stage: host.StageToken, want: "The grant or assertion is refused"},
		"clock beside another reason":  {err: &host.TokenError{Status: 401, Code: "invalid_client", Offset: time.Hour}, stage: host.StageToken, want: "keywright test --client-auth both does. The clocks differ"},
		"grant of the operator":        {err: &host.GrantError{Connector: "crm", Condition: host.ConditionRefused}, stage: host.StageToken, want: "configure a new refresh token"},
		"clock of an API":              {change: status(403, "", -time.Hour), want: "The clocks differ: this machine's is 1 h ahead of that of the API"},
		"key of the wrong type":        {err: errors.New("key"), stage: host.StageSign, want: "The key cannot sign: the cause says"},
		"scope that is missing":        {change: status(403, "insufficient_scope", 0), want: "The token lacks a scope"},
		"scope that nobody knows":      {err: &host.TokenError{Status: 400, Code: "invalid_scope"}, stage: host.StageToken, want: "A scope is unknown or not allowed"},
		"token endpoint that is down":  {err: &net.OpError{Op: "dial", Err: errors.New("refused")}, stage: host.StageToken, want: "The token endpoint cannot be reached"},
		"address that is refused":      {err: host.ErrAddressRefused, stage: host.StageToken, want: "The address is not allowed: if it is the right one, add its range to egress.allow"},
		"plugin out of fuel":           {err: errors.New("fuel"), stage: host.StagePlugin, change: func(e *gateway.Event) { e.Attempt.Failure = host.FailureFuel }, want: "The plugin ran out of fuel"},
		"grant that is revoked":        {err: &host.GrantError{Connector: "crm", Condition: host.ConditionRefused, User: "user-4711", Tenant: "t9"}, stage: host.StageToken, want: "The grant was revoked or has ended: the user has to connect again"},
		"secret that is missing":       {err: host.ErrSecretNotFound, stage: host.StageTemplate, want: "A secret is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withToken)
			if c.change == nil {
				c.change = func(*gateway.Event) {}
			}
			w.failed(c.err, c.stage, c.change)
			page := plain(w.get("/connectors/crm").body)
			if why, _, _ := strings.Cut(page, "The request, secrets masked"); !strings.Contains(why, c.want) || !strings.Contains(why, " failed") {
				t.Errorf("the page says %s", why)
			}
			if strings.Contains(page, "4711") {
				t.Errorf("the page names the user: %s", page)
			}
			w.shows("/", "▲ failing since 10:20:30 crm")
		})
	}
}

// A fault is found with the errors of a real host too, and a test shows it as a failed request does.
func TestATestSaysWhyItFails(t *testing.T) {
	w := newWorld(t, withToken)
	w.servers.Answer(testworld.Respond(http.StatusUnauthorized, `{"error":"invalid_client"}`))
	w.call("crm/orders")
	w.shows("/connectors/crm", "The client id or its secret is wrong", "✗ token failed")
	page := plain(w.try("crm", url.Values{"path": {"/orders"}}).body)
	if !strings.Contains(page, "Answer to the test: 502 Bad Gateway") || strings.Count(page, "The client id or its secret is wrong") < 2 {
		t.Errorf("the page says %s", page)
	}
}

// A remembered refusal hides no answer: the page says what was refused when, and the operator may ask anew. threats.md 241
func TestARememberedRefusal(t *testing.T) {
	w := newWorld(t, withToken)
	w.servers.Answer(testworld.Respond(http.StatusUnauthorized, `{"error":"invalid_client"}`))
	if page := plain(w.get("/connectors/crm").body); strings.Contains(page, "ask anew") {
		t.Errorf("nothing was refused, and the page says %s", page)
	}
	form := url.Values{"path": {"/orders"}}
	for range 9 { // until the wait is long
		w.call("crm/orders")
		w.clock.Advance(5 * time.Minute)
	}
	w.call("crm/orders")
	asked := w.servers.Count()
	w.clock.Advance(20 * time.Second)
	page := plain(w.try("crm", form).body)
	if !strings.Contains(page, "The token endpoint was not asked: it answered 401 invalid_client 20 s ago, and requests of callers ask it again in") ||
		!strings.Contains(page, "Send, and ask anew below does not wait.") || !strings.Contains(page, "The client id or its secret is wrong") || w.servers.Count() != asked {
		t.Errorf("after %d requests to the endpoint, the page says %s", w.servers.Count(), page)
	}
	form.Set("anew", "1")
	if page = plain(w.try("crm", form).body); !strings.Contains(page, "Request to the token endpoint") || strings.Contains(page, "was not asked: it answered") || w.servers.Count() != asked+1 {
		t.Errorf("asked anew, the endpoint got %d requests, and the page says %s", w.servers.Count()-asked, page)
	}
	if page = plain(w.try("crm", form).body); !strings.Contains(page, "was not asked: it answered 401 invalid_client less than 1 s ago") || !strings.Contains(page, "below asks it at most once a second: try again in 1 s.") || w.servers.Count() != asked+1 {
		t.Errorf("asked twice in a second, the endpoint got %d requests, and the page says %s", w.servers.Count()-asked, page)
	}
	token := testworld.Token(w.Word("a token"), 3600)
	w.servers.Answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "login.example.com" {
			return token(r)
		}
		return testworld.Response(http.StatusOK, "fine"), nil
	})
	w.clock.Advance(time.Second)
	if page = plain(w.try("crm", form).body); !strings.Contains(page, "✓ token") {
		t.Errorf("after the repair the page says %s", page)
	}
	if status := w.call("crm/orders"); status != http.StatusOK {
		t.Errorf("after a test that got a token, a caller gets %d", status)
	}
}

// The form of a test has no user until an operator fills one in. Only the request that is shown has a made-up one.
func TestATestHasNoUserOfItsOwn(t *testing.T) {
	w := newWorld(t, `
connectors:
  - name: orders
    url: https://api.example.com
    headers: [{name: X-User, value: "{{ user.email }}"}]
    auth: {type: none}
`)
	page := w.get("/connectors/orders").body
	form := url.Values{}
	for _, field := range regexp.MustCompile(`<input id="(\w+)" name="\w+" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Set(field[1], field[2])
	}
	if !form.Has("email") || !form.Has("id") || !form.Has("tenant") || !strings.Contains(page, `placeholder="ann@example.com"`) || !strings.Contains(plain(page), "X-User: ann@example.com") {
		t.Fatalf("the fields are %v of %s", form, page)
	}
	if w.try("orders", form); w.servers.Count() != 0 {
		t.Error("a test without a user sent a made-up one")
	}
	form.Set("email", "bob@example.com")
	if page = plain(w.try("orders", form).body); w.servers.Count() != 1 || !strings.Contains(page, "X-User: bob@example.com") {
		t.Errorf("with a user, %d requests were sent, and the page says %s", w.servers.Count(), page)
	}
}

// A test shows a token endpoint's error_description if the operator ticks the box.
func TestShownDescription(t *testing.T) {
	w := newWorld(t, withToken)
	w.servers.Answer(testworld.Respond(http.StatusUnauthorized, `{"error":"invalid_client","error_description":"no such client"}`))
	page := w.try("crm", url.Values{"path": {"/1"}}).body
	if strings.Contains(page, "no such client") || !strings.Contains(page, `<input type="checkbox" name="description" value="1">`) {
		t.Errorf("without being asked, the page says %s", page)
	}
	w.clock.Advance(time.Minute)
	page = w.try("crm", url.Values{"path": {"/1"}, "description": {"1"}}).body
	if !strings.Contains(plain(page), "error_description: no such client") || !strings.Contains(page, `name="description" value="1" checked>`) {
		t.Errorf("asked, the page says %s", page)
	}
}

// A failure says that the token endpoint is asked again only while that is to come, and that a refusal was remembered.
func TestFailureText(t *testing.T) {
	w := newWorld(t, withToken)
	w.servers.Answer(testworld.Respond(http.StatusUnauthorized, `{"error":"invalid_client"}`))
	w.failed(&host.TokenError{Status: 401, Code: "invalid_client", RetryAfter: 40 * time.Second}, host.StageToken)
	w.shows("/connectors/crm", "The token endpoint is asked again in 40 s.")
	w.failed(&host.TokenError{Status: 401, Code: "invalid_client", RetryAfter: 30 * time.Second, Remembered: true}, host.StageToken)
	w.clock.Advance(10 * time.Second)
	w.shows("/connectors/crm", "2 × 10:20:30 – 10:20:30 at token on a", "was remembered: the token endpoint was not asked. The token endpoint is asked again in 20 s.", "2 examples with the way")
	w.clock.Advance(time.Hour)
	page := plain(w.get("/connectors/crm").body)
	if strings.Contains(page, "asked again") || !strings.Contains(page, "the token endpoint answered 401 (invalid_client)") || !strings.Contains(page, "was remembered: the token endpoint was not asked.") {
		t.Errorf("an hour later, the page says %s", page)
	}
}

// The way of a request ends at the step that failed, and its heading has the same words.
func TestTheWayEndsWhereItFailed(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		stage       host.Stage
		change      func(*gateway.Event)
		heading     string
		want, never string
	}{
		"a certificate that has ended": {
			&host.CertificateError{NotAfter: now}, host.StageConfig, func(e *gateway.Event) { e.Ready = now },
			"at authentication (config) ", "✓ request – ✗ authentication (config) failed – – api not reached", "✓ api",
		},
		"out of fuel": {
			errors.New("fuel"), host.StagePlugin, func(e *gateway.Event) {
				e.Ready, e.Total = now, 2*time.Millisecond
				e.Attempt = host.Attempt{Failure: host.FailureFuel, SandboxTime: time.Millisecond, Fuel: 1000, Cached: true}
			},
			"at authentication (plugin) ", "✗ authentication (plugin) failed 2.0 ms 1000 units of fuel in 1.0 ms – api not reached", "from the cache",
		},
		"an API that is down": {
			errors.New("refused"), "", func(e *gateway.Event) { e.Ready, e.Sent, e.Problem = now, now, "upstream-failed" },
			"at api (upstream-failed) ", "✗ api (upstream-failed) failed", "✗ api failed",
		},
	} {
		w := newWorld(t, withToken)
		w.failed(c.err, c.stage, c.change)
		page, _, _ := strings.Cut(plain(w.get("/connectors/crm").body), "The request, secrets masked")
		if !strings.Contains(page, c.heading) || !strings.Contains(page, c.want) || strings.Contains(page, c.never) {
			t.Errorf("%s: page = %s", name, page)
		}
	}
}

// try sends the form of a test.
func (w *world) try(permalink string, form url.Values, header ...string) answer {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/connectors/"+permalink, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.ask(r)
}

// The page shows the answer that a caller gets, byte for byte, and offers it as a file.
func TestPageMatchesCaller(t *testing.T) {
	for name, body := range map[string]string{
		"text":       "<b>\"it's\" & &amp; ünï</b>",
		"no text":    "\x00\xff\x1f\x8b",
		"JSON":       `{"a": "</pre><script>alert(1)</script>"}`,
		"empty":      "",
		"line break": "\na\n\nb\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oneKey)
			w.servers.Answer(testworld.Respond(http.StatusOK, body, "Content-Type", "text/plain"))
			recorder := httptest.NewRecorder()
			w.gateway.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://localhost/connectors/orders/1", http.NoBody))
			page := w.try("orders", url.Values{"path": {"/1"}, "method": {"GET"}}).body
			link := regexp.MustCompile(`href="data:application/octet-stream;base64,([^"]*)"`).FindStringSubmatch(page)
			if link == nil {
				t.Fatal(page)
			}
			got, err := base64.StdEncoding.DecodeString(html.UnescapeString(link[1]))
			if err != nil || string(got) != recorder.Body.String() || recorder.Code != http.StatusOK {
				t.Errorf("the page offers %q, and a caller gets %q: %v", got, recorder.Body, err)
			}
			if shown := regexp.MustCompile(`(?s)id="body-shown">\n(.*?)</pre>`).FindStringSubmatch(page); (shown == nil) != (name == "no text") || shown != nil && html.UnescapeString(shown[1]) != body {
				t.Errorf("the page shows %q", shown)
			}
			if strings.Contains(page, "<script>alert") {
				t.Error("the page has the script of an API")
			}
		})
	}
}

// threats.md 152: no page has a credential, whatever the API and the token endpoint answer.
func TestNoPageHasACredential(t *testing.T) {
	w := newWorld(t, withToken+strings.TrimPrefix(oneKey, "\nconnectors:\n"))
	token := w.Secret("token")
	echo := testworld.Answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "login.example.com" {
			return testworld.Response(http.StatusOK, `{"access_token":"`+token+`","expires_in":3600}`), nil
		}
		return testworld.Response(http.StatusOK, r.Header.Get("Authorization"), "X-Echo", r.Header.Get("Authorization")), nil
	})
	for _, answer := range []testworld.Answer{
		echo,
		testworld.Respond(http.StatusUnauthorized, `{"error":"invalid_client","error_description":"`+w.secrets["key"]+`"}`, "WWW-Authenticate", `Bearer error="`+w.secrets["key"]+`"`),
		testworld.Respond(http.StatusInternalServerError, w.secrets["key"]),
	} {
		w.servers.Answer(answer)
		for _, permalink := range []string{"crm", "orders"} {
			w.call(permalink + "/1")
			w.try(permalink, url.Values{"path": {"/1"}, "email": {"ann@example.com"}})
			w.get("/connectors/" + permalink)
		}
		w.get("/")
		w.clock.Advance(10 * time.Minute)
	}
}

// threats.md 151
func TestCrossSiteTest(t *testing.T) {
	w := newWorld(t, oneKey)
	for name, header := range map[string][]string{
		"another site":                {"Sec-Fetch-Site", "cross-site"},
		"another name of the site":    {"Sec-Fetch-Site", "same-site"},
		"a browser without the first": {"Origin", "https://evil.example"},
	} {
		if got := w.try("orders", url.Values{}, header...); got.status != http.StatusForbidden {
			t.Errorf("%s: got.status = %d", name, got.status)
		}
	}
	if n := w.servers.Count(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if got := w.try("orders", url.Values{}, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusOK || w.servers.Count() != 1 {
		t.Errorf("the console itself: %d", got.status)
	}
}

// threats.md 153: a form that has no end is not read to its end.
func TestOversizedForm(t *testing.T) {
	w := newWorld(t, oneKey)
	if got := w.try("orders", url.Values{"body": {strings.Repeat("a", 2<<20)}}); got.status != http.StatusBadRequest || w.servers.Count() != 0 {
		t.Errorf("got.status = %d", got.status)
	}
}
