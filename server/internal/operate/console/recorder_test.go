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
	"github.com/keywright/keywright/server/internal/operate/console"
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
	w.shows("/", "○ idle orders api_key 0 0/s", "✓ 1 found")
	for range 3 {
		w.call("orders/1")
	}
	w.shows("/", "● working orders api_key 3 < 0.1/s")
	w.servers.Answer(testworld.Respond(http.StatusUnauthorized, "no"))
	w.call("orders/1")
	w.clock.Advance(2 * time.Minute)
	w.shows("/", "▲ some fail orders", "1 API", "2 min ago API, 401", "1 with trouble")
	w.clock.Advance(14 * time.Minute)
	w.shows("/", "○ idle orders api_key 0 0/s", "16 min ago API, 401")
	delete(w.secrets, "key")
	w.clock.Advance(time.Minute)
	w.shows("/", "▲ secret missing", "✗ key not found")
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
	page := plain(w.get("/").body)
	var half, most float64
	if at := strings.Index(page, "/s"); at < 0 {
		t.Fatal(page)
	} else if _, err := fmt.Sscanf(strings.TrimSpace(page[at+2:]), "0 %f ms %f ms", &half, &most); err != nil {
		t.Fatalf("%v in %s", err, page[at:])
	}
	if half < 9 || half > 12 || most < 1800 || most > 2300 {
		t.Errorf("p50 is %v ms, and p99 %v ms", half, most)
	}
	w.clock.Advance(30 * time.Minute)
	w.shows("/", "○ idle orders api_key 0 0/s 0 – –")
}

// After a repair the page says that the last failure is over, since when, and by how many requests.
func TestFailureEndsWithSuccess(t *testing.T) {
	w := newWorld(t, oneKey)
	record := func(n int, e gateway.Event) {
		e.Connector, e.Began = "orders", w.clock.Now()
		for range n {
			w.recorder.Request(&e)
		}
	}
	record(3, gateway.Event{Status: 502, Problem: "upstream-failed", Err: errors.New("it broke off"), Ready: now, Sent: now})
	w.clock.Advance(30 * time.Second)
	record(1, gateway.Event{Status: 404, Problem: "unknown-path"}) // a mistake of a caller, which says nothing of the repair
	w.shows("/connectors/orders", "▲ failing", "Last failure, 30 s ago, at api (upstream-failed) it broke off")
	record(1, gateway.Event{Status: 200})
	w.shows("/", "▲ failing orders", "✓ 1 succeeded since")
	w.clock.Advance(2 * time.Minute)
	record(1, gateway.Event{Status: 200})
	w.shows("/", "● working again orders", "3 upstream-failed", "✓ 2 succeeded since")
	w.shows("/connectors/orders", "● working again", "✓ 2 requests have succeeded since, the first 2 min ago.")
	record(1, gateway.Event{Status: 502, Problem: "upstream-failed"})
	if page := plain(w.get("/connectors/orders").body); strings.Contains(page, "succeeded since") || !strings.Contains(page, "▲ failing") {
		t.Errorf("after the next failure the page is %s", page)
	}
}

// A user who has not connected is no failure of the connector.
func TestUnconnectedUsers(t *testing.T) {
	w := newWorld(t, several)
	w.secrets["client"] = w.Secret("client")
	grant := func(c host.Condition) error {
		return &host.Error{Stage: host.StageToken, Err: &host.GrantError{User: "ann", Condition: c}}
	}
	for range 3 { // the gateway keeps the ID of such a user out of the event
		w.recorder.Request(&gateway.Event{Connector: "calendar", Status: 403, Problem: "not-connected", Stage: "token", Err: errors.New("the user has to connect"), Began: now})
	}
	w.shows("/", "● working calendar oauth_authorization_code 3 < 0.1/s 0 3 not connected")
	w.shows("/connectors/calendar", "Failed 0 Requests before the user connected 3 not connected : their grants", "None since this process started.")
	w.recorder.Request(&gateway.Event{Connector: "calendar", Status: 403, Problem: "not-connected", Stage: "token", Err: grant(host.ConditionRefused), Began: now})
	w.shows("/connectors/calendar", "Failed 1 token", "The grant was revoked or has ended: the user has to connect again.")
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

// The last 50 failures are kept, and no more, however many there are.
func TestLastFailures(t *testing.T) {
	w := newWorld(t, oneKey)
	for i := range 70 {
		w.recorder.Request(&gateway.Event{Connector: "orders", ID: fmt.Sprintf("id-%02d", i), Status: 502, Problem: "upstream-failed", Err: errors.New("it broke off"), Began: now.Add(time.Duration(i) * time.Second)})
	}
	page := w.get("/connectors/orders").body
	if n := strings.Count(page, "it broke off"); strings.Contains(page, "id-19") || !strings.Contains(page, "id-20") || strings.Index(page, "id-69") > strings.Index(page, "id-68") {
		t.Errorf("%d failures in\n%s", n, page)
	}
}

func TestTheConditionOfTheToken(t *testing.T) {
	w := newWorld(t, oneKey)
	w.recorder.Attempted(&host.Attempt{Connector: "orders", Expires: now.Add(58 * time.Minute)})
	w.shows("/", "58 min left")
	w.clock.Advance(time.Hour)
	w.shows("/", "ended; the next request gets another")
	w.recorder.Attempted(&host.Attempt{Connector: "orders", Err: &host.Error{Err: &host.TokenError{Status: 401, RetryAfter: 40 * time.Second}}})
	w.shows("/", "refused; asked again in 40 s")
	w.recorder.Attempted(&host.Attempt{Connector: "orders", Expires: now.Add(2 * time.Hour)})
	w.shows("/", "1 h left")
}

// An operator sees for how long a token endpoint is not asked, until it issues a token, or the time has passed.
func TestBackoffs(t *testing.T) {
	clock := testworld.NewClock(time.Unix(1_700_000_000, 0))
	r := console.NewRecorder(clock.Now)
	refused := func(connector string, wait time.Duration) {
		r.Attempted(&host.Attempt{Connector: connector, Exchanges: 1, Err: fmt.Errorf("token: %w", &host.TokenError{Status: 401, RetryAfter: wait})})
	}
	check := func(want string) {
		t.Helper()
		if got := fmt.Sprint(r.Backoffs()); got != "map["+want+"]" {
			t.Errorf("the backoffs are %s, want %s", got, want)
		}
	}
	check("")
	refused("crm", 8*time.Second)
	refused("crm", 2*time.Second) // of another user
	refused("shop", 60*time.Second)
	refused("once", 0)
	r.Attempted(&host.Attempt{Connector: "issuer", Err: &host.DiscoveryError{RetryAfter: 5 * time.Second}})
	check("crm:8 issuer:5 shop:60")
	r.Attempted(&host.Attempt{Connector: "crm", Reused: true})
	r.Attempted(&host.Attempt{Connector: "crm", Err: errors.New("no secret")})
	clock.Advance(5 * time.Second)
	check("crm:3 shop:55")
	r.Attempted(&host.Attempt{Connector: "shop", Exchanges: 1})
	check("crm:3")
	clock.Advance(3 * time.Second)
	check("")
	refused("crm", time.Second)
	r.Forget("crm")
	check("")
}

// A request that succeeds costs the recorder no memory.
func TestSuccessAllocations(t *testing.T) {
	recorder := console.NewRecorder(time.Now)
	e := gateway.Event{Connector: "orders", Status: 200, Began: now, Total: time.Millisecond}
	attempt := host.Attempt{Connector: "orders", Cached: true, Expires: now.Add(time.Hour)}
	record := func() {
		recorder.Attempted(&attempt)
		recorder.Request(&e)
	}
	record()
	if n := testing.AllocsPerRun(100, record); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecorder(b *testing.B) {
	recorder := console.NewRecorder(time.Now)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		e := gateway.Event{Connector: "orders", Status: 200, Began: now, Total: time.Millisecond}
		attempt := host.Attempt{Connector: "orders", Cached: true, Expires: now.Add(time.Hour)}
		for p.Next() {
			recorder.Attempted(&attempt)
			recorder.Request(&e)
		}
	})
}
