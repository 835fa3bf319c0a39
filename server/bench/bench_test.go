// Package bench compares Keywright with other software that does the same work, and with bounds. docs/benchmarks.md describes the rows
// and the method. "make bench" measures all rows; as a test, each runs once.
package bench

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
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

func TestMain(m *testing.M) {
	code := m.Run()
	stopPostgres()
	removeProgram()
	os.Exit(code)
}

// Every row runs and is written completely. The values are not tested.
func TestGoals(t *testing.T) {
	if *roundCount < 1 || *sliceTime <= 0 || *articles < 100 || *articles%100 != 0 {
		t.Fatal("-rounds and -slice have to be positive, and -articles a multiple of 100")
	}
	// With the default, a process as small as this one would collect garbage after every few calls of a peer that allocates
	// much. A server has a larger heap, and collects less often.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	rows := slices.Concat(
		roundTripRows(), exchangingRows(), nodeRows(), callRows(), jwtRows(), signatureRows(), meteringRows(), startRows(),
		idleRows(), throughputRows(), exchangeRows(), allocationRows(), versionRows(), gatewayRows(), contentRows(newContents(t, *articles)),
	)
	pattern := regexp.MustCompile(*rowPattern)
	var all []measuredRow
	for i, r := range rows {
		if !pattern.MatchString(r.work) && !pattern.MatchString(r.against) {
			continue
		}
		_, _ = fmt.Fprintf(t.Output(), "%d of %d: %s, against %s\n", i+1, len(rows), r.work, r.against)
		t.Run(r.work, func(t *testing.T) {
			all = append(all, measuredRow{r, r.measure(session{T: t, count: *roundCount, slice: *sliceTime, now: time.Now})})
		})
	}
	if len(all) == 0 {
		t.Fatalf("-rows: no row matches %q", pattern)
	}
	tables := markdown(all, *roundCount)
	if testing.Verbose() {
		fmt.Print("\n", tables, "\n")
	}
	for _, m := range all {
		switch {
		case m.against == "":
			if m.p50 <= 0 || m.p99 < m.p50 || m.busy <= 0 || math.IsInf(m.busy, 0) {
				t.Errorf("%s: %+v", m.work, m.result)
			}
		case !(m.ratio >= 0) || math.IsInf(m.ratio, 0) || m.goal < 0 || m.peer <= 0 || m.low > m.ratio || m.high < m.ratio:
			t.Errorf("%s: ratio %v in %v to %v, against %v, goal %v", m.work, m.ratio, m.low, m.high, m.peer, m.goal)
		}
		if !strings.Contains(tables, strings.TrimSuffix("| "+m.work+" | "+m.against, " | ")+" | ") {
			t.Errorf("%s is missing in the table", m.work)
		}
	}
	checkDocumented(t, rows)
}

// figure matches the numbers in the names of rows. They depend on flags and on the versions of peers.
var figure = regexp.MustCompile(` ?v?\d([\d.,]*\d)?( m?s)?`)

// checkDocumented fails the test unless the rows that docs/benchmarks.md shows are there, with the same goals.
func checkDocumented(t *testing.T, rows []row) {
	t.Helper()
	text := testworld.Must(os.ReadFile("../../docs/benchmarks.md"))(t)
	type name struct{ work, against string }
	nameOf := func(work, against string) name {
		return name{figure.ReplaceAllString(work, ""), figure.ReplaceAllString(against, "")}
	}
	goals := map[name][]float64{}
	for _, r := range rows {
		n := nameOf(r.work, r.against)
		goals[n] = append(goals[n], r.goal)
	}
	documented := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) == 4 {
			cells = []string{cells[0], "", "", "", "", "", "–", ""} // without a comparison and a goal
		}
		if len(cells) < 8 || cells[0] == "work" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		documented++
		n := nameOf(cells[0], cells[1])
		if len(goals[n]) == 0 {
			t.Errorf("docs/benchmarks.md shows %s, against %s, which is not measured", cells[0], cells[1])
			continue
		}
		if goal, _ := mostOf(goals[n][0]); goal != cells[6] {
			t.Errorf("%s, against %s: goal %s, and docs/benchmarks.md has %s", cells[0], cells[1], goal, cells[6])
		}
		goals[n] = goals[n][1:]
	}
	if documented < 50 {
		t.Errorf("docs/benchmarks.md shows %d rows", documented)
	}
}

func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 1.0 / 60: "0.0167", 12345: "12345", 99.96: "100", 0.8: "0.8", 310.2: "310"} {
		if got := significant(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	if got := thousands(999) + " " + thousands(1_234_567); got != "999 1,234,567" {
		t.Errorf("integers are written %s", got)
	}
}

// The result of rounds is the median.
func TestRounds(t *testing.T) {
	values := [][2]float64{{1, 2}, {9, 9}, {3, 1}}
	got := session{T: t, count: 3}.rounds(func(round int) [2]float64 { return values[round] }, quotient)
	if got != (result{ours: 3, peer: 2, ratio: 1, low: 0.5, high: 3}) {
		t.Errorf("got = %+v", got)
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
	session{T: t, count: 2, slice: parts * time.Millisecond, now: func() time.Time { return now }}.pair(side("o"), side("p"))
	const round = "oppooppooppooppooppo"
	if want := "op" + round + strings.NewReplacer("o", "p", "p", "o").Replace(round); order.String() != want {
		t.Errorf("the order was %s, want %s", &order, want)
	}
}

// Rows without a goal are in all reports, and are not counted as goals.
func TestReportWithoutGoal(t *testing.T) {
	measured := func(work string, goal float64) measuredRow {
		return measuredRow{row{work: work, against: "another", goal: goal}, result{ours: 30, peer: 20, ratio: 1.5, low: 1.5, high: 1.5}}
	}
	tables := markdown([]measuredRow{measured("one", 0), measured("two", 1), measured("three", 1.5)}, 1)
	const values = " | another | 30 ns | 20 ns | 1.5 | 1.5–1.5 | "
	for _, want := range []string{"| one" + values + "– | – |\n", "| two" + values + "1 | no |\n", "| three" + values + "1.5 | yes |\n"} {
		if !strings.Contains(tables, want) {
			t.Errorf("the table has no %q:\n%s", want, tables)
		}
	}
}
