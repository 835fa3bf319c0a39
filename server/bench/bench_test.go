// Package bench compares Keywright with other software that does the same work, and with bounds. The file of each row describes
// what it measures, and measure_test.go the method. "make bench" measures all rows; as a test, each runs once.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

var (
	roundCount = flag.Int("rounds", 1, "rounds of TestGoals, of which the median counts")
	sliceTime  = flag.Duration("slice", time.Millisecond, "time of one measurement")
	rowPattern = flag.String("rows", "", "only rows whose work, or what it is held against, matches this regular expression")
	articles   = flag.Int("articles", 2000, "how many articles the databases of content have, a multiple of 100")
)

// TestMain runs a child or a server if a row started this process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == childVerb || os.Args[1] == serverVerb) {
		if err := runPart(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	_ = servingCommand.remove()
	os.Exit(code)
}

func runPart(verb string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if verb == serverVerb {
		return runServer(ctx, args, os.Stdout)
	}
	return runChild(ctx, args, os.Stdout)
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

// Every row runs and is written completely. The values are not tested.
func TestGoals(t *testing.T) {
	// With the default, a process as small as this one would collect garbage after every few calls of a peer that allocates
	// much. A server has a larger heap, and collects less often.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	databases, keywright := newContents(*articles, t.Output()), &command{}
	t.Cleanup(func() {
		if err := errors.Join(databases.close(), keywright.remove()); err != nil {
			t.Error(err)
		}
	})
	all := measure(t, slices.Concat(
		roundTripRows(), exchangingRows(), nodeRows(), callRows(), jwtRows(), signatureRows(), meteringRows(), startRows(),
		idleRows(), throughputRows(), exchangeRows(), allocationRows(), versionRows(keywright), gatewayRows(keywright),
		contentRows(databases), importRows(databases),
	), figureRows(databases))
	tables := markdown(all, *roundCount)
	if testing.Verbose() {
		fmt.Print("\n", tables, "\n")
	}
	for _, m := range all.rows {
		if !(m.ratio >= 0) || math.IsInf(m.ratio, 0) || m.goal < 0 || m.peer <= 0 || m.low > m.ratio || m.high < m.ratio {
			t.Errorf("%s: ratio %v in %v to %v, against %v, goal %v", m.work, m.ratio, m.low, m.high, m.peer, m.goal)
		}
		if !strings.Contains(tables, "| "+m.work+" | "+m.against+" |") {
			t.Errorf("%s is missing in the table", m.work)
		}
	}
	if *rowPattern == "" {
		checkRows(t, all.rows)
		checkFigures(t, all.figures, tables)
	}
}

// measure measures the rows that the flag selects.
func measure(t *testing.T, rows []row, figures []figureRow) (m measurements) {
	t.Helper()
	if *roundCount < 1 || *sliceTime <= 0 || *articles < 100 || *articles%100 != 0 {
		t.Fatal("-rounds and -slice have to be positive, and -articles a multiple of 100")
	}
	pattern := regexp.MustCompile(*rowPattern)
	s := session{count: *roundCount, slice: *sliceTime, now: time.Now}
	for i, r := range rows {
		if !pattern.MatchString(r.work) && !pattern.MatchString(r.against) {
			continue
		}
		_, _ = fmt.Fprintf(t.Output(), "%d of %d: %s, against %s\n", i+1, len(rows), r.work, r.against)
		result, err := r.alone(t.Context(), s)
		if err != nil {
			t.Fatalf("%s, against %s: %v", r.work, r.against, err)
		}
		m.rows = append(m.rows, measuredRow{r, result})
	}
	for _, r := range figures {
		if !pattern.MatchString(r.work) {
			continue
		}
		measured, err := r.measure(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: err = %v", r.work, err)
		}
		m.figures = append(m.figures, measured)
	}
	if len(m.rows)+len(m.figures) == 0 {
		t.Fatalf("-rows: no row matches %q", pattern)
	}
	return m
}

// checkRows fails the test unless the rows are those of the table of goals.
func checkRows(t *testing.T, measured []measuredRow) {
	t.Helper()
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
}

func checkFigures(t *testing.T, all []figures, tables string) {
	t.Helper()
	n := 0
	for _, f := range all {
		for _, l := range f.lines {
			n++
			if l.p50 <= 0 || l.p99 < l.p50 || l.busy <= 0 || math.IsInf(l.busy, 0) {
				t.Errorf("l = %+v", l)
			}
			if !strings.Contains(tables, "| "+l.work+" |") {
				t.Errorf("%s is missing in the table", l.work)
			}
		}
		if !strings.Contains(f.note, "a million articles take ") || !strings.Contains(tables, f.note) {
			t.Errorf("the note is %q, or missing", f.note)
		}
	}
	if n != 10 {
		t.Errorf("%d figures, want five of each database", n)
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
		t.Errorf("got = %+v, err = %v", got, err)
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
	testworld.Must(s.pair(context.Background(), side("o"), side("p")))(t)
	const round = "oppooppooppooppooppo"
	if want := "op" + round + strings.NewReplacer("o", "p", "p", "o").Replace(round); order.String() != want {
		t.Errorf("the order was %s, want %s", &order, want)
	}
}
