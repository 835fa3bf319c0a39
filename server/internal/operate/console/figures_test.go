package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// call sends a request of a caller to a connector.
func (w *world) call(path string) int {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.gateway.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://localhost/connectors/"+path, http.NoBody))
	return recorder.Code
}

// shows fails the test unless the page at a path has all texts, without its tags and with single blanks.
func (w *world) shows(path string, texts ...string) {
	w.t.Helper()
	page := plain(w.get(path).body)
	for _, text := range texts {
		if !strings.Contains(page, text) {
			w.t.Errorf("%s does not show %q:\n%s", path, text, page)
		}
	}
}

func TestConnectorList(t *testing.T) {
	w := newWorld(t, oneKey)
	w.shows("/", "trouble 0 all 1 quiet 1", "○ quiet orders api_key 0 – –", "1–1 of 1")
	for range 3 {
		w.call("orders/1")
	}
	w.shows("/", "● working orders api_key 3")
	w.clock.Advance(5 * time.Second)
	w.servers.Answer(testworld.Respond(http.StatusUnauthorized, "no"))
	w.call("orders/1")
	w.shows("/", "trouble 1 all 1 quiet 0", "◐ some fail since 10:20:35 orders api_key 3 of 4 good 1 failed", "The API does not take the credential", "1 × on a · last")
	for range 2 {
		w.call("orders/1")
	}
	w.shows("/", "▲ failing since 10:20:35 orders")
	w.clock.Advance(2 * time.Minute)
	w.servers.Answer(testworld.Respond(http.StatusOK, "fine"))
	w.call("orders/1")
	w.shows("/", "● works again since 10:22:35 orders api_key 1 3 failed")
	w.clock.Advance(16 * time.Minute)
	w.shows("/", "○ quiet orders api_key 0 –")
	delete(w.secrets, "key")
	w.clock.Advance(time.Minute)
	w.shows("/", "trouble 1 all 1 quiet 0", "▲ secret missing", "key cannot be read: ")
}

// What is wrong with the request of a caller is no failure of the connector.
func TestCallerMistakes(t *testing.T) {
	w := newWorld(t, strings.Replace(oneKey, "[/**]", "[/a]", 1))
	if status := w.call("orders/b"); status != http.StatusNotFound {
		t.Fatalf("status = %d", status)
	}
	w.shows("/", "● working orders api_key 1")
}

func TestRecentTimes(t *testing.T) {
	w := newWorld(t, oneKey)
	record := func(n int, took time.Duration) {
		for range n {
			w.recorder.Request(&gateway.Event{Connector: "orders", Status: 200, Began: w.clock.Now().Add(-took), Total: took})
		}
	}
	record(980, 10*time.Millisecond)
	record(20, 2*time.Second)
	_, page, _ := strings.Cut(plain(w.get("/connectors/orders").body), "p50, p99 ")
	var half, slow float64
	if _, err := fmt.Sscanf(page, "%f ms, %f ms", &half, &slow); err != nil {
		t.Fatalf("%v in %s", err, page)
	}
	if half < 9 || half > 12 || slow < 1800 || slow > 2300 {
		t.Errorf("p50 is %v ms, and p99 %v ms", half, slow)
	}
	w.clock.Advance(30 * time.Minute)
	w.shows("/connectors/orders", "p50, p99 –, –")
}

// A user who has not connected is no failure of the connector. A grant that was revoked is.
func TestUnconnectedUsers(t *testing.T) {
	w := newWorld(t, several)
	w.secrets["client"] = w.Secret("client")
	calendar := w.state.Set.Connectors[2]
	for i := range 9 {
		w.recorder.Request(&gateway.Event{Connector: "calendar", Served: calendar, User: fmt.Sprint("ann-", i%2), Status: 403, Problem: "not-connected", Stage: "token", Err: errors.New("the user has to connect"), Began: now})
	}
	w.shows("/?show=all", "◇ users to connect calendar oauth_authorization_code 9", "2 users to connect")
	w.shows("/connectors/calendar", "Users to connect 2 users, 9 requests: connections", "None since this began.")
	w.recorder.Request(&gateway.Event{Connector: "calendar", Served: calendar, User: "ann-1", Status: 200, Began: now, Sent: now})
	w.shows("/connectors/calendar", "Users to connect 1 user, 9 requests: connections")
	w.recorder.Request(&gateway.Event{Connector: "calendar", Status: 403, Problem: "not-connected", Stage: "token", Err: &host.Error{Stage: host.StageToken, Err: &host.GrantError{User: "ann", Condition: host.ConditionRefused}}, Began: now})
	w.shows("/connectors/calendar", "1 × 10:20:30 at token", "The grant was revoked or has ended: the user has to connect again.")
}

// A cause cannot turn the text of a page around: its control characters and those of direction are escaped.
func TestPrintableCause(t *testing.T) {
	w := newWorld(t, oneKey)
	w.recorder.Request(&gateway.Event{Connector: "orders", Status: 502, Problem: "upstream-failed", Err: errors.New("it\u202eoff ekorb\x1b[2J"), Began: now})
	page := w.get("/connectors/orders").body
	if !strings.Contains(page, `it\u202eoff ekorb\x1b[2J`) || strings.ContainsAny(page, "\u202e\x1b") {
		t.Errorf("the page has the cause as it came:\n%s", page)
	}
}

func TestTheConditionOfTheToken(t *testing.T) {
	w := newWorld(t, withToken)
	w.recorder.Attempted(&host.Attempt{Connector: "crm", Expires: now.Add(58 * time.Minute)})
	w.shows("/connectors/crm", "Token 58 min left")
	w.clock.Advance(time.Hour)
	w.shows("/connectors/crm", "Token ended; the next request gets another")
	w.recorder.Attempted(&host.Attempt{Connector: "crm", Err: &host.Error{Err: &host.TokenError{Status: 401, RetryAfter: 40 * time.Second}}})
	w.shows("/connectors/crm", "Token refused; asked again in 40 s")
	w.recorder.Attempted(&host.Attempt{Connector: "crm", Expires: now.Add(2 * time.Hour)})
	w.shows("/connectors/crm", "Token 1 h left")
	w = newWorld(t, oneKey)
	w.recorder.Attempted(&host.Attempt{Connector: "orders", Expires: now.Add(8 * time.Hour)})
	w.shows("/connectors/orders", "Signing key of 4 May, made anew when it ends")
}
