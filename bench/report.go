package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

// unit is what a number is of.
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
	}
	return significant(v/1e6) + " ms"
}

// significant writes three digits, and no exponent.
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

type measuredRow struct {
	row
	result
}

func (m measuredRow) reached() bool { return m.ratio <= m.goal }

func (m measuredRow) spread() string { return significant(m.low) + "–" + significant(m.high) }

func writeText(w io.Writer, all []measuredRow, count int) error {
	var text strings.Builder
	reached := 0
	for _, m := range all {
		verdict := "not reached"
		if m.reached() {
			verdict = "reached"
			reached++
		}
		_, _ = fmt.Fprintf(&text, "%s\n  against %s\n  ours %s, theirs %s, ratio %s (%s in rounds), goal %s: %s\n",
			m.work, m.against, m.unit.format(m.ours), m.unit.format(m.peer), significant(m.ratio), m.spread(), significant(m.goal), verdict)
		if m.note != "" {
			text.WriteString("  " + m.note + "\n")
		}
	}
	_, err := fmt.Fprintf(w, `%s
%d of %d goals reached. %s

Medians of %d rounds, in each of which both sides ran by turns. Less is better. The machine is noisy: times drift, so
compare only what stands in one row, and see how far the ratio went from round to round.
`, &text, reached, len(all), machine(), count)
	return err
}

func writeMarkdown(w io.Writer, all []measuredRow, count int) error {
	var text, notes strings.Builder
	for _, m := range all {
		reached := "no"
		if m.reached() {
			reached = "yes"
		}
		cells := []string{
			m.work, m.against, m.unit.format(m.ours), m.unit.format(m.peer), significant(m.ratio), m.spread(), significant(m.goal), reached,
		}
		text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if m.note != "" {
			notes.WriteString("\n- " + m.work + ": " + m.note)
		}
	}
	_, err := fmt.Fprintf(w, "%s; medians of %d rounds.\n\n| work | against | ours | theirs | ratio | in rounds | at most | reached |\n|%s\n%s",
		machine(), count, strings.Repeat("---|", 8), &text)
	if err == nil && notes.Len() > 0 {
		_, err = fmt.Fprintln(w, &notes)
	}
	return err
}

// writeJSON writes the rows for programs.
func writeJSON(w io.Writer, all []measuredRow) error {
	type entry struct {
		Work    string  `json:"work"`
		Against string  `json:"against"`
		Ratio   float64 `json:"ratio"`
		Goal    float64 `json:"goal"`
	}
	entries := make([]entry, len(all))
	for i, m := range all {
		entries[i] = entry{m.work, m.against, m.ratio, m.goal}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(entries)
}

// machine says where and when.
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
