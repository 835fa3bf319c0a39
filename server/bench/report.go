package main

import (
	"encoding/json"
	"fmt"
	"io"
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

func (m measuredRow) hasGoal() bool { return m.goal > 0 }

func (m measuredRow) reached() bool { return m.hasGoal() && m.ratio <= m.goal }

func (m measuredRow) spread() string { return significant(m.low) + "–" + significant(m.high) }

func writeText(w io.Writer, all measurements, count int) error {
	var text strings.Builder
	goals, reached := 0, 0
	for _, m := range all.rows {
		verdict := "no goal"
		if m.hasGoal() {
			goals++
			verdict = "goal " + significant(m.goal) + ": not reached"
		}
		if m.reached() {
			reached++
			verdict = "goal " + significant(m.goal) + ": reached"
		}
		_, _ = fmt.Fprintf(&text, "%s\n  against %s\n  ours %s, theirs %s, ratio %s (%s in rounds), %s\n",
			m.work, m.against, m.unit.format(m.ours), m.unit.format(m.peer), significant(m.ratio), m.spread(), verdict)
		if m.note != "" {
			text.WriteString("  " + m.note + "\n")
		}
	}
	for _, f := range all.figures {
		for _, l := range f.lines {
			_, _ = fmt.Fprintf(&text, "%s\n  p50 %s, p99 %s; %d clients: %s\n", l.work, nanoseconds.format(l.p50), nanoseconds.format(l.p99), loadClients, perSecond.format(l.busy))
		}
		text.WriteString("  " + f.note + "\n")
	}
	_, err := fmt.Fprintf(w, `%s
%d of %d goals reached. %s

Medians of %d rounds, in each of which both sides ran by turns. Less is better. The machine is noisy: times drift, so
compare only what stands in one row, and see how far the ratio went from round to round.
`, &text, reached, goals, machine(), count)
	return err
}

func writeMarkdown(w io.Writer, all measurements, count int) error {
	var text, notes strings.Builder
	_, _ = fmt.Fprintf(&text, "%s; medians of %d rounds.\n", machine(), count)
	if len(all.rows) > 0 {
		writeTableHead(&text, "work", "against", "ours", "theirs", "ratio", "in rounds", "at most", "reached")
	}
	for _, m := range all.rows {
		most, reached := significant(m.goal), "no"
		switch {
		case !m.hasGoal():
			most, reached = "–", "–"
		case m.reached():
			reached = "yes"
		}
		writeTableRow(&text, m.work, m.against, m.unit.format(m.ours), m.unit.format(m.peer), significant(m.ratio), m.spread(), most, reached)
		if m.note != "" {
			notes.WriteString("- " + m.work + ": " + m.note + "\n")
		}
	}
	if len(all.figures) > 0 {
		writeTableHead(&text, "work", "p50", "p99", fmt.Sprint(loadClients)+" clients")
	}
	for _, f := range all.figures {
		for _, l := range f.lines {
			writeTableRow(&text, l.work, nanoseconds.format(l.p50), nanoseconds.format(l.p99), perSecond.format(l.busy))
		}
		notes.WriteString("- " + f.note + "\n")
	}
	if notes.Len() > 0 {
		text.WriteString("\n" + notes.String())
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func writeTableHead(text *strings.Builder, cells ...string) {
	text.WriteByte('\n')
	writeTableRow(text, cells...)
	text.WriteString("|" + strings.Repeat("---|", len(cells)) + "\n")
}

func writeTableRow(text *strings.Builder, cells ...string) {
	text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// writeJSON writes the rows as JSON. The goal of a row without one is null.
func writeJSON(w io.Writer, all []measuredRow) error {
	type entry struct {
		Work    string   `json:"work"`
		Against string   `json:"against"`
		Ratio   float64  `json:"ratio"`
		Goal    *float64 `json:"goal"`
	}
	entries := make([]entry, len(all))
	for i, m := range all {
		entries[i] = entry{Work: m.work, Against: m.against, Ratio: m.ratio}
		if m.hasGoal() {
			entries[i].Goal = &all[i].goal
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(entries)
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
