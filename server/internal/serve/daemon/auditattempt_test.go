package daemon_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// A request that is sent twice, because its token was refused, is one line, and each token request is one.
func TestAuditLogOfASecondAttempt(t *testing.T) {
	w := startTokens(t)
	w.refuse.Store(1)
	w.get(w.callers + "/connectors/orders")
	w.refuse.Store(2)
	w.get(w.callers + "/connectors/orders")
	w.checkUses(false,
		"token connector=orders token_requests=1",
		"request connector=orders status=401 upstream_status=401 sent=1",
		"token connector=orders token_requests=1",
		"request connector=orders status=401 upstream_status=401 sent=2",
	)
}

// A token that is replaced ahead of its end is a line of its own, without a request.
func TestAuditLogOfARefreshAhead(t *testing.T) {
	w := startTokens(t)
	w.get(w.callers + "/connectors/orders")
	w.ahead.Store(int64(3600*time.Second - 4*time.Minute))
	w.get(w.callers + "/connectors/orders")
	w.eventually("the token is replaced", func() bool { return w.asked.Load() == 2 })
	const request = "request connector=orders status=200 upstream_status=200 sent=1"
	w.checkUses(true, "refresh connector=orders token_requests=1", request, request, "token connector=orders token_requests=1") // the request does not wait for the token
}

// A token that many callers wait for is one line, and each request has its own.
func TestAuditLogOfManyCallers(t *testing.T) {
	w := startTokens(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { w.get(w.callers + "/connectors/orders") })
	}
	all.Wait()
	w.checkUses(true, append(slices.Repeat([]string{"request connector=orders status=200 upstream_status=200 sent=1"}, 8), "token connector=orders token_requests=1")...)
}

// A test of an operator, as keywright test and the console send it, is one line, however much it shows.
func TestAuditLogOfTests(t *testing.T) {
	w := startTokens(t)
	for _, body := range []string{`{"user": {"id": "bob"}}`, `{"user": {"id": "bob"}, "ask_anew": true}`, `{"user": {"id": "bob"}, "error_description": true}`} {
		w.test("orders", body)
	}
	w.refuse.Store(2)
	w.test("orders", `{}`)
	w.checkUses(false,
		"token user=bob connector=orders token_requests=1",
		"test user=bob connector=orders status=200 upstream_status=200 sent=1",
		"test user=bob connector=orders status=200 upstream_status=200 sent=1",
		"test user=bob connector=orders status=200 upstream_status=200 sent=1",
		"token connector=orders token_requests=1",
		"test connector=orders status=401 upstream_status=401 sent=2",
	)
}

// A test with another client_auth uses the secret as any other, and its lines have the connector.
func TestAuditLogOfClientAuths(t *testing.T) {
	c := testworld.NewCanaries(t)
	issued := answering(c, c.Issued(time.Now))
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, basic := r.BasicAuth(); !basic {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		issued.ServeHTTP(w, r)
	}))
	t.Cleanup(login.Close)
	text := "gateway: {audit: {file: LOG}}\nconnectors:\n" +
		`  - {name: Orders, url: API/v1, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: ` + login.URL + `}}}` + "\n"
	w := start(t, answering(c, testworld.Respond(http.StatusOK, "well")), text, func(config *daemon.Config) {
		config.Options.Host.Secrets = host.MapSecrets{"key": c.Secret("the client's secret")}
	})
	w.Canaries = c
	if _, body := w.test("orders", `{"client_auths": true}`); !strings.Contains(body, `{"value":"client_secret_basic","refused":false}`) {
		t.Errorf("the test has %s", body)
	}
	w.checkUses(false,
		"token connector=orders stage=token token_requests=1",
		"test connector=orders status=502 problem=authentication-failed stage=token",
		"token connector=orders token_requests=1",
		"test connector=orders status=200 upstream_status=200 sent=1",
	)
}

// threats.md 181: a token URL may have its host from a secret. The line of a token request does not have it.
func TestAuditLogOfASecretTokenEndpoint(t *testing.T) {
	c := testworld.NewCanaries(t)
	login := httptest.NewServer(answering(c, c.Issued(time.Now)))
	t.Cleanup(login.Close)
	text := "gateway: {audit: {file: LOG}}\nconnectors:\n" +
		`  - {name: Orders, url: API/v1, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: "http://{{ get_secret('host') }}/token"}}}` + "\n"
	w := start(t, answering(c, testworld.Respond(http.StatusOK, "well")), text, func(config *daemon.Config) {
		config.Options.Host.Secrets = host.MapSecrets{"key": c.Secret("the client's secret"), "host": c.Hide("the host", strings.TrimPrefix(login.URL, "http://"))}
	})
	w.Canaries = c // so that the answers below are searched
	w.get(w.callers + "/connectors/orders")
	w.metrics()
	w.get(w.operators + "/connectors/orders")
	w.checkUses(false, "token connector=orders token_requests=1", "request connector=orders status=200 upstream_status=200 sent=1")
	for _, line := range w.auditLines() {
		if origin, there := line["origin"]; line["use"] == "token" && there {
			t.Errorf("the line of the token request has the origin %v", origin)
		}
	}
}
