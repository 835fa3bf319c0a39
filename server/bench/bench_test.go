package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain runs the command if a row started this process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == childVerb || os.Args[1] == serverVerb) {
		main()
		return
	}
	code := m.Run()
	_ = servingCommand.remove()
	os.Exit(code)
}

// table has a line for each line of the table of goals, with the number of its rows.
var table = []struct {
	work, against string
	rows          int
	noGoal        bool
}{
	{work: `^RoundTrip, (api_key|oauth_client_credentials with a cached token|oauth_jwt_bearer with a cached token)$`, against: "golang.org/x/oauth2", rows: 3},
	{work: `^RoundTrip with a search of the answer, a cached token of 8,000 bytes$`, against: "200 bytes", rows: 1},
	{work: `^RoundTrip, (oauth_jwt_bearer|oauth_password|token_exchange|login|github_app|google_service_account|dpop|aws_assume_role) with a cached token`, against: "RoundTrip, oauth_client_credentials", rows: 8},
	{work: `^RoundTrip, oauth_client_credentials with a cached token and a store of state$`, against: "without a store", rows: 1},
	{work: `^first RoundTrip with a token that another node has stored in (SQLite|PostgreSQL): p50 ÷ 2 ms$`, against: "2 ms", rows: 2},
	{work: `^one call of the api_key plugin, reuse of mutations off$`, against: "extism/go-sdk", rows: 2},
	{work: `^jwt, .*(RS256|ES256|EdDSA|HS256)$`, against: "golang-jwt", rows: 4},
	{work: `^aws_sigv4, a whole call$`, against: "aws-sdk-go-v2", rows: 1},
	{work: `^http_signature, a whole call, Ed25519, `, against: "crypto/ed25519", rows: 1},
	{work: `^dpop, a whole call `, against: "golang-jwt", rows: 1, noGoal: true},
	{work: `^aws_assume_role, a whole call `, against: "aws-sdk-go-v2", rows: 1, noGoal: true},
	{work: `^metered guest code, (base64|json) `, against: "unmetered", rows: 2},
	{work: `^host.New and connecting the five types, (nothing cached|code cache warm)$`, against: "wazero compiles", rows: 2},
	{work: `^10,000 connectors, .* ÷ 200 MiB$`, against: "200 MiB", rows: 1},
	{work: `^throughput .* 1.8 ÷ \(two cores ÷ one\)$`, against: "one core", rows: 2},
	{work: `^10,000 requests at once .* ÷ 1$`, against: "1 exchange", rows: 1},
	{work: `allocations beyond the request's clone ÷ 2$`, against: "2 allocations", rows: 1},
	{work: `^keywright version: processor time ÷ 20 ms$`, against: "20 ms", rows: 1},
	{work: `^gateway, api_key, 16 clients: (time for a request at full load|p99)$`, against: "httputil.ReverseProxy", rows: 2},
	{work: `^gateway, api_key, 16 clients: time for a request at full load$`, against: "Caddy", rows: 1},
	{work: `^gateway, api_key, 16 clients: p99$`, against: "Caddy", rows: 1, noGoal: true},
	{work: `^gateway, api_key, 16 clients: (time for a request at full load|p99)$`, against: "nginx", rows: 2, noGoal: true},
	{work: `^gateway, api_key, 16 clients: (time for a request at full load|p99)$`, against: "HAProxy", rows: 2, noGoal: true},
	{work: `^gateway with an audit log, api_key, 16 clients: time for a request at full load$`, against: "the gateway without one", rows: 1},
	{work: `^content in (SQLite|PostgreSQL), 2,000 articles: page (40|80) of 25: p50$`, against: "page 1", rows: 4},
	{work: `^content in (SQLite|PostgreSQL), 2,000 articles: page 1 of 25: p99 ÷ 5 ms$`, against: "5 ms", rows: 2},
	{work: `^import of 200 records into (SQLite|PostgreSQL): time ÷ 120 ms$`, against: "120 ms", rows: 2},
}

// Every row runs and is written completely, as text and as JSON. The values are not tested.
func TestEveryRowRuns(t *testing.T) {
	databases := newContents(2000, t.Output())
	t.Cleanup(func() {
		if err := databases.close(); err != nil {
			t.Error(err)
		}
	})
	keywright := &command{}
	t.Cleanup(func() {
		if err := keywright.remove(); err != nil {
			t.Error(err)
		}
	})
	all, err := tables{rows(databases, keywright), figureRows(databases)}.measure(
		context.Background(), regexp.MustCompile(""), session{count: 1, slice: time.Millisecond, now: time.Now}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	measured := all.rows
	found := 0
	for _, want := range table {
		n := 0
		for _, m := range measured {
			if regexp.MustCompile(want.work).MatchString(m.work) && strings.Contains(m.against, want.against) {
				n++
				if m.hasGoal() == want.noGoal {
					t.Errorf("%s, against %s: goal %v", m.work, m.against, m.goal)
				}
			}
		}
		if n != want.rows {
			t.Errorf("%d rows are like %s, against %s, want %d", n, want.work, want.against, want.rows)
		}
		found += n
	}
	if found != len(measured) {
		t.Errorf("there are %d rows, and %d of them are in the table of goals", len(measured), found)
	}
	for _, m := range measured {
		if !(m.ratio >= 0) || math.IsInf(m.ratio, 0) || m.goal < 0 || m.peer <= 0 || m.low > m.ratio || m.high < m.ratio {
			t.Errorf("%s: ratio %v in %v to %v, against %v, goal %v", m.work, m.ratio, m.low, m.high, m.peer, m.goal)
		}
	}
	checkJSON(t, measured)
	var text, markdown bytes.Buffer
	if err := writeText(&text, all, 1); err != nil {
		t.Fatal(err)
	}
	if err := writeMarkdown(&markdown, all, 1); err != nil {
		t.Fatal(err)
	}
	for _, m := range measured {
		if !strings.Contains(text.String(), m.work) || !strings.Contains(markdown.String(), "| "+m.work+" | "+m.against+" |") {
			t.Errorf("%s is missing in a table", m.work)
		}
	}
	checkFigures(t, all.figures, text.String(), markdown.String())
}

func checkFigures(t *testing.T, all []figures, text, markdown string) {
	t.Helper()
	n := 0
	for _, f := range all {
		for _, l := range f.lines {
			n++
			if l.p50 <= 0 || l.p99 < l.p50 || l.busy <= 0 || math.IsInf(l.busy, 0) {
				t.Errorf("%+v", l)
			}
			if !strings.Contains(text, l.work) || !strings.Contains(markdown, "| "+l.work+" |") {
				t.Errorf("%s is missing in a table", l.work)
			}
		}
		if !strings.Contains(f.note, "a million articles take ") || !strings.Contains(text, f.note) || !strings.Contains(markdown, f.note) {
			t.Errorf("the note is %q, or missing", f.note)
		}
	}
	if n != 10 {
		t.Errorf("%d figures, want five of each database", n)
	}
}

func checkJSON(t *testing.T, measured []measuredRow) {
	t.Helper()
	var out bytes.Buffer
	if err := writeJSON(&out, measured); err != nil {
		t.Fatal(err)
	}
	var entries []map[string]any
	if err := json.Unmarshal(out.Bytes(), &entries); err != nil || len(entries) != len(measured) {
		t.Fatalf("%d entries, want %d: %v", len(entries), len(measured), err)
	}
	for i, e := range entries {
		m := measured[i]
		var goal any // null without a goal
		if m.hasGoal() {
			goal = m.goal
		}
		if len(e) != 4 || e["work"] != m.work || e["against"] != m.against || e["ratio"] != m.ratio || e["goal"] != goal {
			t.Errorf("entry %d is %v", i, e)
		}
	}
}

func TestFlags(t *testing.T) {
	ctx := context.Background()
	var out, progress bytes.Buffer
	if err := run(ctx, []string{"-run", "allocations", "-count", "1", "-json"}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "[\n") || !strings.Contains(progress.String(), "allocations") {
		t.Errorf("it wrote %q, and meanwhile %q", &out, &progress)
	}
	for _, wrong := range [][]string{{"-run", "("}, {"-run", "no such row"}, {"-count", "0"}, {"-articles", "150"}, {"-articles", "0"}, {"-time", "0s"}, {"more"}, {childVerb}, {serverVerb}} {
		if err := run(ctx, wrong, &out, &progress); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}

// Only the rows of a database fill it, because that takes minutes.
func TestDatabasesAreFilledWhenTheyAreWanted(t *testing.T) {
	for only, filled := range map[string][]bool{"allocations": {false, false}, "SQLite.*p99": {true, false}} {
		var out, progress bytes.Buffer
		if err := run(context.Background(), []string{"-run", only, "-count", "1", "-time", "1ms", "-articles", "100"}, &out, &progress); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"SQLite", "PostgreSQL"} {
			if got := strings.Contains(progress.String(), name+": writing 100 articles"); got != filled[i] {
				t.Errorf("-run %s fills %s: %v", only, name, got)
			}
		}
	}
}

func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 1.0 / 60: "0.0167", 12345: "12345", 99.96: "100", 0.8: "0.8", 310.2: "310"} {
		if got := significant(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

// The result of rounds is the median.
func TestRounds(t *testing.T) {
	values := [][2]float64{{1, 2}, {9, 9}, {3, 1}}
	got, err := session{count: 3}.rounds(context.Background(),
		func(round int) ([2]float64, error) { return values[round], nil },
		func(v [2]float64) float64 { return v[0] / v[1] })
	if err != nil || got != (result{ours: 3, peer: 2, ratio: 1, low: 0.5, high: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("the median is %v", m)
	}
}

// The two sides take turns, and each is first equally often.
func TestPairs(t *testing.T) {
	var order strings.Builder
	var now time.Time
	side := func(name string) op {
		return op{batch: 1, run: func() error {
			order.WriteString(name)
			now = now.Add(time.Millisecond)
			return nil
		}}
	}
	s := session{count: 2, slice: parts * time.Millisecond, now: func() time.Time { return now }}
	if _, err := s.pair(context.Background(), side("o"), side("p")); err != nil {
		t.Fatal(err)
	}
	const round = "oppooppooppooppooppo"
	if want := "op" + round + strings.NewReplacer("o", "p", "p", "o").Replace(round); order.String() != want {
		t.Errorf("the order was %s, want %s", &order, want)
	}
}
