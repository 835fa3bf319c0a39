package bench

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

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
