package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// A row is one line of the tables: some work of ours, and what it is compared with.
type row struct {
	// against is empty for work that is measured without a comparison. The result then has figures.
	work, against string
	// unit is the unit of the measured values, not of the ratio.
	unit unit
	// goal is the largest ratio that reaches the goal. It is 0 for a row without a goal, which is only for orientation.
	goal float64
	// measure runs on a goroutine and stack of its own. The speed of some work, such as signing with RSA, differs by a tenth
	// depending on where its buffers are on the stack.
	measure func(session) result
}

// A session measures one row. It is the row's test, which fails if the row cannot be measured.
type session struct {
	*testing.T
	// count is the number of rounds.
	count int
	// slice is the time of one measurement.
	slice time.Duration
	now   func() time.Time
}

// A result has the medians of all rounds. The ratio is the median of the rounds' ratios, not the ratio of the medians, because
// a disturbance affects both sides of a round.
type result struct {
	ours, peer, ratio float64
	// low and high are the smallest and the largest ratio of a round.
	low, high float64
	// note is an additional remark for the report.
	note string
	// p50 and p99 are times with one client, in nanoseconds, and busy the requests per second of loadClients clients.
	p50, p99, busy float64
}

// An op is work that can be repeated.
type op struct {
	run func() error
	// before, if not nil, is called before each batch, and is not measured. It creates instances of guests.
	before func() error
	// batch is the number of runs between calls of before. If it is 0, the number is chosen by time.
	batch int
}

// spend runs the work for at least a slice of time. It returns the time that this took and the number of runs.
func (s session) spend(o op, slice time.Duration) (took time.Duration, ran int) {
	s.Helper()
	n := max(o.batch, 1)
	for took < slice {
		if o.before != nil {
			testworld.Check(s, o.before())
		}
		begin := s.now()
		for range n {
			testworld.Check(s, o.run())
		}
		batch := s.now().Sub(begin)
		took += batch
		ran += n
		if o.batch == 0 && batch < slice/20 {
			n *= 2
		}
	}
	return took, ran
}

// parts is the number of parts of a measurement. The two sides take turns, so that a disturbance affects both.
const parts = 10

// turns calls do for the parts of a round, with the number of the side. Each side is first in every other part and round.
func turns(round, parts int, do func(side int)) {
	for turn := range 2 * parts {
		do((turn + turn/2 + round) % 2) // 0 1 1 0 0 1 1 0 …
	}
}

// pair measures our work and the peer's in turn, in nanoseconds.
func (s session) pair(ours, peer op) result {
	s.Helper()
	sides := [2]op{ours, peer}
	for _, o := range sides { // warms up
		s.spend(o, s.slice/10)
	}
	return s.rounds(func(round int) (each [2]float64) {
		var took [2]time.Duration
		var ran [2]int
		turns(round, parts, func(side int) {
			runtime.GC()
			t, n := s.spend(sides[side], s.slice/parts)
			took[side] += t
			ran[side] += n
		})
		return [2]float64{float64(took[0]) / float64(ran[0]), float64(took[1]) / float64(ran[1])}
	}, quotient)
}

func quotient(v [2]float64) float64 { return v[0] / v[1] }

// rounds calls sample once in each round. It returns the medians of the two values, and of their ratio.
func (s session) rounds(sample func(round int) [2]float64, ratio func([2]float64) float64) result {
	var ours, peers, ratios []float64
	for round := range s.count {
		values := sample(round)
		ours, peers, ratios = append(ours, values[0]), append(peers, values[1]), append(ratios, ratio(values))
	}
	return result{
		ours: median(ours), peer: median(peers), ratio: median(ratios), low: slices.Min(ratios), high: slices.Max(ratios),
	}
}

// bound compares measured values with a bound.
func (s session) bound(most float64, sample func() float64) result {
	return s.rounds(func(int) [2]float64 {
		runtime.GC()
		return [2]float64{sample(), most}
	}, quotient)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// loadClients is a number of clients that fully loads a server.
const loadClients = 16

// load holds the measurements of clients.
type load struct {
	took time.Duration
	// latencies is sorted.
	latencies []time.Duration
}

func (l *load) add(more load) {
	l.took += more.took
	l.latencies = append(l.latencies, more.latencies...)
	slices.Sort(l.latencies)
}

// each returns the total time divided by the number of requests, in nanoseconds.
func (l load) each() float64 { return float64(l.took) / float64(len(l.latencies)) }

func (l load) p50() float64 { return float64(l.latencies[len(l.latencies)/2]) }
func (l load) p99() float64 { return float64(l.latencies[len(l.latencies)*99/100]) }

// A target is a function that returns the URL of the next request. It is safe for concurrent use.
type target func() string

func always(address string) target { return func() string { return address } }

// newClient returns a transport that keeps the connections of all clients. Like most callers, it accepts gzip.
func newClient(t testing.TB) *http.Transport {
	client := &http.Transport{MaxIdleConnsPerHost: loadClients}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// byTurns sends load to our side and the peer's in turn, and compares a figure of both loads.
func (s session) byTurns(clients int, sides [2]target, figure func(load) float64) result {
	client := newClient(s)
	for _, side := range sides { // warms up
		s.drive(client, side, clients, s.slice/10)
	}
	return s.rounds(func(round int) [2]float64 {
		var loads [2]load
		turns(round, parts, func(side int) {
			loads[side].add(s.drive(client, sides[side], clients, s.slice/parts))
		})
		return [2]float64{figure(loads[0]), figure(loads[1])}
	}, quotient)
}

// drive sends requests from several clients for a slice of time, at least one from each.
func (s session) drive(client http.RoundTripper, to target, clients int, slice time.Duration) (l load) {
	s.Helper()
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			var latencies []time.Duration
			var err error
			for more := true; more && err == nil; more = time.Since(began) < slice {
				address := to()
				begin := time.Now()
				err = fetch(s.Context(), client, address, io.Discard)
				latencies = append(latencies, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			l.latencies, failed = append(l.latencies, latencies...), errors.Join(failed, err)
		})
	}
	all.Wait()
	testworld.Check(s, failed)
	l.took = time.Since(began)
	slices.Sort(l.latencies)
	return l
}

func fetch(ctx context.Context, client http.RoundTripper, address string, body io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(body, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// A unit is the unit of a value.
type unit int

const (
	nanoseconds unit = iota
	octets
	perSecond
	number
)

func (u unit) format(v float64) string {
	switch {
	case u == octets:
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	case u == perSecond:
		return fmt.Sprintf("%s/s", significant(v))
	case u == number:
		return significant(v)
	case v < 1e3:
		return significant(v) + " ns"
	case v < 1e6:
		return significant(v/1e3) + " µs"
	case v < 1e9:
		return significant(v/1e6) + " ms"
	}
	return significant(v/1e9) + " s"
}

// significant formats a number with three significant digits, without an exponent.
func significant(v float64) string {
	if v == 0 || math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := fmt.Sprintf("%.*f", decimals, v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// thousands formats an integer with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

type measuredRow struct {
	row
	result
}

// mostOf returns a goal as the tables have it. A row may be without a goal.
func mostOf(goal float64) (most string, none bool) {
	if goal == 0 {
		return "–", true
	}
	return significant(goal), false
}

// markdown returns the tables of docs/benchmarks.md.
func markdown(all []measuredRow, count int) string {
	var text, figures, notes strings.Builder
	_, _ = fmt.Fprintf(&text, "%s; medians of %d rounds.\n", machine(), count)
	writeTableHead(&text, "work", "against", "ours", "theirs", "ratio", "in rounds", "at most", "reached")
	writeTableHead(&figures, "work", "p50", "p99", fmt.Sprint(loadClients)+" clients")
	for _, m := range all {
		if m.note != "" {
			notes.WriteString("- " + m.work + ": " + m.note + "\n")
		}
		if m.against == "" {
			writeTableRow(&figures, m.work, nanoseconds.format(m.p50), nanoseconds.format(m.p99), perSecond.format(m.busy))
			continue
		}
		most, none := mostOf(m.goal)
		reached := map[bool]string{true: "yes", false: "no"}[m.ratio <= m.goal]
		if none {
			reached = most
		}
		spread := significant(m.low) + "–" + significant(m.high)
		writeTableRow(&text, m.work, m.against, m.unit.format(m.ours), m.unit.format(m.peer), significant(m.ratio), spread, most, reached)
	}
	return text.String() + figures.String() + "\n" + notes.String()
}

func writeTableHead(text *strings.Builder, cells ...string) {
	text.WriteByte('\n')
	writeTableRow(text, cells...)
	text.WriteString("|" + strings.Repeat("---|", len(cells)) + "\n")
}

func writeTableRow(text *strings.Builder, cells ...string) {
	text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// machine returns a description of the machine, the platform and the date.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s %s/%s, %s", processor(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		time.Now().Format(time.DateOnly))
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "a processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "a processor"
}
