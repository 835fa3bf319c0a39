package activity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
)

// begin is the time at which tests begin.
var begin = time.Date(2026, 5, 4, 10, 20, 30, 0, time.UTC)

// hash is a keyed hash of users that nodes share.
func hash(tenant, user string) (n uint64) {
	for _, b := range []byte(tenant + "\x00" + user) {
		n = (n ^ uint64(b)) * 1099511628211
	}
	return n
}

// node is a process with its recorder. All nodes of a test have one clock.
type node struct {
	*activity.Recorder
	clock *testworld.Clock
}

func newNode(clock *testworld.Clock, name string) node {
	return node{activity.New(activity.Config{Clock: clock.Now, Node: name, Hash: hash}), clock}
}

// requests records requests of now.
func (n node) requests(count int, e gateway.Event) {
	e.Connector, e.Began, e.Total = "orders", n.clock.Now().Add(-time.Millisecond), time.Millisecond
	for range count {
		n.Request(&e)
	}
}

// Events of each kind.
var (
	good        = gateway.Event{Status: 200, UpstreamStatus: 200}
	refusal     = gateway.Event{ID: "refused", Status: 401, UpstreamStatus: 401, Tenant: "acme", User: "ann"}
	broken      = gateway.Event{ID: "broken", Status: 502, Problem: "upstream-failed", Err: errors.New("dial tcp 10.0.0.1:443: connection refused"), Ready: begin, Sent: begin}
	unconnected = gateway.Event{Status: 403, Problem: "not-connected", Stage: "token", Err: errors.New("the user has to connect")}
	slow        = gateway.Event{Status: 200, UpstreamStatus: 200, API: 8 * time.Second, Served: &gateway.Connector{}}
	mistake     = gateway.Event{Status: 404, Problem: "unknown-path"}
)

// view returns what nodes know together. Each report goes through JSON, as that of another node does.
func view(t testing.TB, nodes ...node) *activity.View {
	t.Helper()
	var reports []*activity.Report
	for _, n := range nodes {
		var r activity.Report
		testworld.Check(t, json.Unmarshal(testworld.Must(json.Marshal(n.Report(n.clock.Now())))(t), &r))
		reports = append(reports, &r)
	}
	return activity.Merge(reports, nodes[0].clock.Now())
}

// is fails the test unless the connector is in a state since a time, which may be zero.
func (n node) is(t *testing.T, state activity.State, since time.Time) {
	t.Helper()
	if s := view(t, n).Summary("orders"); s.State != state || !s.Since.Equal(since) {
		t.Errorf("it is %s since %v, want %s since %v", s.State, s.Since, state, since)
	}
	if got := n.Failing()["orders"] == 1; got != (state == activity.StateFailing) {
		t.Errorf("the gauge says that it is failing: %v, in the state %s", got, state)
	}
}

// After many good requests, an outage shows at once with its beginning, and so does its end.
func TestOutage(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	n.is(t, activity.StateQuiet, time.Time{})
	for range 14 {
		n.requests(14_444, good)
		clock.Advance(time.Minute)
	}
	n.requests(202_220-14*14_444, good)
	n.is(t, activity.StateWorking, time.Time{})
	clock.Advance(5 * time.Second)
	first := clock.Now()
	for range 70 {
		n.requests(1, refusal)
		clock.Advance(100 * time.Millisecond)
	}
	n.is(t, activity.StateFailing, first)
	if s := view(t, n).Summary("orders"); s.Lately.Requests != 202_290 || s.Lately.Failed != 70 || s.Groups[0].Total != 70 {
		t.Errorf("there were %+v, and the group has %d", s.Lately, s.Groups[0].Total)
	}
	clock.Advance(20 * time.Second)
	repair := clock.Now()
	n.requests(200, good)
	n.is(t, activity.StateSomeFail, first)
	clock.Advance(50 * time.Second)
	n.requests(1, good)
	n.is(t, activity.StateWorksAgain, repair)
	clock.Advance(15 * time.Minute)
	n.requests(1, good)
	n.is(t, activity.StateWorking, time.Time{})
	clock.Advance(16 * time.Minute)
	n.is(t, activity.StateQuiet, time.Time{})
}

func TestStates(t *testing.T) {
	step := func(count int, e gateway.Event) func(node) { return func(n node) { n.requests(count, e) } }
	minute := func(n node) { n.clock.Advance(time.Minute) }
	for name, c := range map[string]struct {
		steps []func(node)
		want  activity.State
		since time.Time
	}{
		"one of many":             {[]func(node){step(9, good), step(1, refusal), step(1, good)}, activity.StateSomeFail, begin},
		"two in a row":            {[]func(node){step(9, good), step(2, refusal)}, activity.StateSomeFail, begin},
		"three in a row":          {[]func(node){step(900, good), step(3, refusal)}, activity.StateFailing, begin},
		"half":                    {[]func(node){step(2, refusal), step(2, good)}, activity.StateFailing, begin},
		"the only one":            {[]func(node){step(1, broken)}, activity.StateFailing, begin},
		"none since":              {[]func(node){step(2, good), step(1, broken), minute, minute}, activity.StateSomeFail, begin},
		"three, a while ago":      {[]func(node){step(3, broken), minute, minute}, activity.StateFailing, begin},
		"a bad minute":            {[]func(node){step(1, broken), minute, step(1, good), step(3, broken)}, activity.StateFailing, begin.Add(time.Minute)},
		"mistakes of callers":     {[]func(node){step(5, mistake)}, activity.StateWorking, time.Time{}},
		"mistakes in between":     {[]func(node){step(9, good), step(2, broken), step(1, mistake), step(1, broken)}, activity.StateFailing, begin},
		"nobody has connected":    {[]func(node){step(5, unconnected)}, activity.StateToConnect, time.Time{}},
		"some have not connected": {[]func(node){step(5, unconnected), step(1, good)}, activity.StateWorking, time.Time{}},
		"a tenth is slow":         {[]func(node){step(9, good), step(1, slow)}, activity.StateSlow, begin.Truncate(time.Minute)},
		"few are slow":            {[]func(node){step(10, good), step(1, slow)}, activity.StateWorking, time.Time{}},
		"slow a minute ago":       {[]func(node){step(1, slow), minute}, activity.StateWorking, time.Time{}},
		"slow, and some fail":     {[]func(node){step(9, slow), step(1, refusal)}, activity.StateSomeFail, begin},
		"beside the unconnected":  {[]func(node){step(50, unconnected), step(1, good), step(1, refusal)}, activity.StateFailing, begin},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(testworld.NewClock(begin), "a")
			for _, step := range c.steps {
				step(n)
			}
			n.is(t, c.want, c.since)
		})
	}
}

// What three nodes report is the sum of what they did.
func TestThreeNodes(t *testing.T) {
	clock := testworld.NewClock(begin)
	a, b, c := newNode(clock, "a"), newNode(clock, "b"), newNode(clock, "c")
	a.requests(100, good)
	clock.Advance(time.Minute)
	first := clock.Now()
	b.requests(4, refusal)
	clock.Advance(20 * time.Second)
	a.requests(5, good)
	c.requests(3, refusal)
	stranger := refusal
	stranger.User, stranger.Tenant = "bob", "other"
	c.requests(1, stranger)
	c.requests(2, broken)
	b.requests(7, unconnected)
	s := view(t, a, b, c).Summary("orders")
	if want := (activity.Tally{Requests: 22, Failed: 10, Unconnected: 7}); s.Minute != want || s.Lately.Requests != 122 || s.Lately.Failed != 10 {
		t.Errorf("the last minute has %+v, want %+v, and the last 15 %+v", s.Minute, want, s.Lately)
	}
	if s.State != activity.StateFailing || !s.Since.Equal(first) || !slices.Equal(s.Nodes, []string{"b", "c"}) {
		t.Errorf("it is %s since %v on %q, want failing since %v", s.State, s.Since, s.Nodes, first)
	}
	if len(s.Groups) != 2 {
		t.Fatalf("there are %d groups", len(s.Groups))
	}
	i := slices.IndexFunc(s.Groups, func(g *activity.Group) bool { return g.Examples[0].Stage == "API" })
	g := s.Groups[i]
	if g.Total != 8 || g.Lately() != 8 || g.Day() != 8 || !g.First.Equal(first) || !g.Last.Equal(clock.Now()) || g.Users.Text("user") != "2 users" ||
		!slices.Equal(g.Tenants, []string{"acme", "other"}) || !slices.Equal(g.Nodes, []string{"b", "c"}) || len(g.Examples) != 3 {
		t.Errorf("the group is %+v", g)
	}
	// Of the second minute, nothing but a good request of one node is left.
	clock.Advance(2 * time.Minute)
	repair := clock.Now()
	a.requests(1, good)
	if s := view(t, a, b, c).Summary("orders"); s.State != activity.StateWorksAgain || s.Since.After(repair) || !s.Since.After(first) {
		t.Errorf("it is %s since %v", s.State, s.Since)
	}
}

// A node whose requests all fail is no outage while the others serve, and the page can name it.
func TestOneBadNode(t *testing.T) {
	clock := testworld.NewClock(begin)
	a, b := newNode(clock, "a"), newNode(clock, "b")
	b.requests(10, refusal)
	clock.Advance(10 * time.Second)
	a.requests(100, good)
	if s := view(t, a, b).Summary("orders"); s.State != activity.StateSomeFail || !slices.Equal(s.Nodes, []string{"b"}) {
		t.Errorf("it is %s on %q", s.State, s.Nodes)
	}
}

// The clocks are the first thing that is said of failures that one of several nodes has, and nothing of those that several have.
func TestClocksInRemedies(t *testing.T) {
	clock := testworld.NewClock(begin)
	a, b := newNode(clock, "a"), newNode(clock, "b")
	e := refusal
	e.Refusal.Offset = time.Hour
	b.requests(1, e)
	for _, want := range []bool{true, false} {
		got := view(t, a, b).Groups()[0].Remedy()
		if strings.HasPrefix(got, "The clocks differ") != want || strings.Contains(got, "clock") != want || !strings.Contains(got, "is the secret right") {
			t.Errorf("what to do about failures of b alone, %t: %s", want, got)
		}
		a.requests(1, refusal)
	}
}

// Equal failures are one group, however many, and do not push out the one of another kind.
func TestGroups(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	n.requests(1, broken)
	for i := range 60 {
		e := refusal
		e.ID, e.User, e.Tenant = fmt.Sprintf("id-%d", i), fmt.Sprintf("user-%d", i), fmt.Sprintf("tenant-%d", i%10)
		n.requests(1, e)
		clock.Advance(time.Second)
	}
	s := view(t, n).Summary("orders")
	if len(s.Groups) != 2 || s.Groups[0].Total != 60 || s.Groups[1].Total != 1 || s.Groups[0].Users.Text("user") != "60 users" {
		t.Fatalf("the groups are %+v", s.Groups)
	}
	g := s.Groups[0]
	if len(g.Tenants) != 8 || g.MoreTenants() != 2 || g.AllTenants.Text("tenant") != "10 tenants" || g.Examples[0].RequestID != "id-59" || g.Examples[2].RequestID != "id-57" {
		t.Errorf("the group has %d of %s, and the examples %s to %s", len(g.Tenants), g.AllTenants.Text("tenant"), g.Examples[0].RequestID, g.Examples[2].RequestID)
	}
	for i := range 20 {
		e := refusal
		e.User = fmt.Sprintf("more-%d", i)
		n.requests(1, e)
	}
	if text := view(t, n).Summary("orders").Groups[0].Users.Text("user"); text != "more than 64 users" {
		t.Errorf("the users are %q", text)
	}
	text := string(testworld.Must(json.Marshal(n.Report(clock.Now())))(t))
	if strings.Contains(text, "user-5") || strings.Contains(text, "more-1") {
		t.Errorf("a user is named in %s", text)
	}
}

// A group counts by minute and by hour. Of more than 32 groups, the one that has not failed for longest goes.
func TestGroupTimes(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	for _, wait := range []time.Duration{0, time.Minute, time.Hour, 0} {
		clock.Advance(wait)
		n.requests(1, broken)
	}
	clock.Advance(time.Minute)
	g := view(t, n).Summary("orders").Groups[0]
	if g.Lately() != 2 || g.Minutes[13] != 2 || g.Day() != 4 || g.Hours[23] != 2 || g.Hours[22] != 2 || !g.First.Equal(begin) {
		t.Errorf("the group has the minutes %v and the hours %v", g.Minutes, g.Hours)
	}
	for i := range 40 {
		e := refusal
		e.UpstreamStatus = 500 + i
		e.Status = e.UpstreamStatus
		clock.Advance(time.Second)
		n.requests(1, e)
	}
	if all := view(t, n).Summary("orders").Groups; len(all) != 32 || all[0].Examples[0].Status != 539 || all[31].Examples[0].Status != 508 {
		t.Errorf("%d groups are left", len(all))
	}
	clock.Advance(30 * time.Hour)
	if g := view(t, n).Summary("orders").Groups[0]; g.Day() != 0 || g.Total != 1 {
		t.Errorf("after a day, the group counts %d", g.Day())
	}
}

// Failures with the same cause are one group whatever times and numbers their texts have; with another code, they are another one.
func TestGroupKeys(t *testing.T) {
	n := newNode(testworld.NewClock(begin), "a")
	token := func(code string, offset time.Duration) gateway.Event {
		return gateway.Event{Status: 502, Problem: "authentication-failed", Stage: "token", Err: fmt.Errorf("at %v: %w", offset, &host.TokenError{Status: 400, Code: code, Offset: offset})}
	}
	n.requests(1, token("invalid_grant", 7*time.Minute))
	n.requests(1, token("invalid_grant", 8*time.Minute))
	n.requests(1, token("invalid_grant", 0))
	n.requests(1, token("invalid_scope", 0))
	n.requests(1, token("invalid_client", time.Hour)) // of a node whose clock is off
	n.requests(1, token("invalid_client", 0))
	revoked := gateway.Event{Status: 403, Problem: "not-connected", Stage: "token", Err: &host.GrantError{User: "ann", Condition: host.ConditionRefused}}
	n.requests(1, revoked)
	revoked.Err = errors.Join(revoked.Err, &host.TokenError{Status: 400, Code: "invalid_grant"})
	n.requests(1, revoked)
	n.requests(1, broken)
	n.requests(1, refusal)
	late := refusal
	late.Refusal.Offset = time.Hour
	n.requests(1, late)
	elsewhere := broken
	elsewhere.Host = "eu.example.com"
	n.requests(1, elsewhere)
	var totals []uint64
	for _, g := range view(t, n).Groups() {
		totals = append(totals, g.Total)
	}
	slices.Sort(totals)
	if !slices.Equal(totals, []uint64{1, 1, 1, 1, 2, 2, 2, 2}) {
		t.Errorf("the groups have %v failures", totals)
	}
}

// Each failure is found by its request id, with its way, until 10,000 more have come.
func TestFind(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	n.requests(1, broken)
	f := n.Find("broken")
	if f == nil || f.Connector != "orders" || f.Node != "a" || f.Cause != broken.Err.Error() || f.Remedy != broken.Remedy() || f.Place != "api (upstream-failed)" || len(f.Way) == 0 || f.Group != view(t, n).Summary("orders").Groups[0].ID {
		t.Fatalf("the failure is %+v", f)
	}
	var decoded activity.Failure
	testworld.Check(t, json.Unmarshal(testworld.Must(json.Marshal(f))(t), &decoded))
	if fmt.Sprint(decoded) != fmt.Sprint(*f) {
		t.Errorf("the stored failure is\n%+v, and was\n%+v", decoded, *f)
	}
	for i := range 9_999 {
		e := refusal
		e.ID = fmt.Sprint(i)
		n.requests(1, e)
	}
	if n.Find("broken") == nil || n.Find("9998") == nil || n.Find("unknown") != nil {
		t.Error("the first or the last of 10,000 failures is not found, or one that never was")
	}
	n.requests(1, refusal)
	if n.Find("broken") != nil || n.Find("0") == nil {
		t.Error("the first of 10,001 failures is found, or the second is not")
	}
}

// Of a damaged report of another node, a view has what can be used, and no more than a node may report (threats.md 595).
func TestDamagedReport(t *testing.T) {
	n := newNode(testworld.NewClock(begin), "a")
	n.requests(3, refusal)
	example := `{"ID": "%d", "Examples": [{"request_id": "x"}]}`
	groups := []string{`null`, `{"ID": "y"}`, `{"ID": "z", "Examples": [null, null]}`}
	for i := range 1000 {
		groups = append(groups, fmt.Sprintf(example, i))
	}
	text := fmt.Sprintf(`{"Node": "<b>", "Time": "9999-01-01T00:00:00Z", "Connectors": [{"n": "orders", "c": [4294967295], "i": 9223372036854775807, "l": [1, 2], "g": [%s]}]}`, strings.Join(groups, ","))
	var damaged activity.Report
	testworld.Check(t, json.Unmarshal([]byte(text), &damaged))
	s := activity.Merge([]*activity.Report{n.Report(n.clock.Now()), &damaged}, n.clock.Now()).Summary("orders")
	if s.Lately.Failed != 3 || len(s.Groups) > 33 || s.State != activity.StateFailing {
		t.Errorf("%s, %+v, %d groups", s.State, s.Lately, len(s.Groups))
	}
}

// Of each group and minute, the first 20 failures are to be stored with their ways, and others without.
func TestDrain(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	drained := func(what string, longCount, shortCount int) {
		t.Helper()
		failures, short := n.Drain()
		if len(failures) != longCount || len(short) != shortCount {
			t.Errorf("%s: %d failures are to be stored, and %d without their ways", what, len(failures), len(short))
		}
		for _, f := range short {
			if f.RequestID != "refused" || f.Way != nil || n.Find("refused").Way == nil {
				t.Fatalf("%s: a failure without its way is %+v", what, f)
			}
		}
	}
	n.requests(30, refusal)
	n.requests(3, broken)
	drained("30 and 3", 23, 10)
	n.requests(3, refusal)
	clock.Advance(time.Minute)
	n.requests(2, refusal)
	drained("a minute later", 2, 3)
	drained("nothing else", 0, 0)
	for range 700 {
		clock.Advance(time.Minute)
		n.requests(40, refusal)
	}
	drained("28,000", 10_000, 5000)
}

// A remembered refusal is reported once a minute, with the number of those since.
func TestRemembered(t *testing.T) {
	clock := testworld.NewClock(begin)
	var counts []uint64
	n := node{activity.New(activity.Config{Clock: clock.Now, Remembered: func(f *activity.Failure, count uint64) {
		if counts = append(counts, count); f.RequestID != "repeat" {
			t.Errorf("the failure is %+v", f)
		}
	}}), clock}
	first := gateway.Event{ID: "first", Status: 502, Stage: "token", Err: &host.TokenError{Status: 401, Code: "invalid_client", RetryAfter: time.Minute}}
	repeat := first
	repeat.ID, repeat.Err = "repeat", &host.TokenError{Status: 401, Code: "invalid_client", RetryAfter: time.Minute, Remembered: true}
	n.requests(1, first)
	n.requests(5, repeat)
	clock.Advance(time.Minute)
	n.requests(3, repeat)
	if !slices.Equal(counts, []uint64{1, 5}) {
		t.Errorf("the counts are %v", counts)
	}
	if g := view(t, n).Summary("orders").Groups; len(g) != 1 || g[0].Total != 9 {
		t.Errorf("the groups are %+v", g)
	}
}

// The users who have to connect are counted, and not their requests. Who has connected is none of them.
func TestWaitingUsers(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	for i := range 3 {
		e := unconnected
		e.User = fmt.Sprint("user-", i)
		n.requests(4, e)
	}
	check := func(want string) {
		t.Helper()
		if got := view(t, n).Summary("orders").Waiting.Text("user"); got != want {
			t.Errorf("%q have to connect, want %q", got, want)
		}
	}
	check("3 users")
	connected := good
	connected.User = "user-1"
	n.requests(1, connected)
	check("2 users")
	clock.Advance(16 * time.Minute)
	check("")
}

// An operator sees for how long a token endpoint is not asked, until it issues a token, or the time has passed.
func TestBackoffs(t *testing.T) {
	clock := testworld.NewClock(time.Unix(1_700_000_000, 0))
	r := activity.New(activity.Config{Clock: clock.Now})
	fails := func(connector string, wait time.Duration) {
		r.Attempted(&host.Attempt{Connector: connector, Exchanges: 1, Err: fmt.Errorf("token: %w", &host.TokenError{Status: 401, RetryAfter: wait})})
	}
	check := func(want string) {
		t.Helper()
		if got := fmt.Sprint(r.Backoffs()); got != "map["+want+"]" {
			t.Errorf("the backoffs are %s, want %s", got, want)
		}
	}
	check("")
	fails("crm", 8*time.Second)
	fails("crm", 2*time.Second) // of another user
	fails("shop", 60*time.Second)
	fails("once", 0)
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
	fails("crm", time.Second)
	r.Forget("crm")
	check("")
}
