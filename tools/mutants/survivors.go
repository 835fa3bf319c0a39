package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// mutant is a mutation. It is identified by the text of its line and its column, because line numbers change.
type mutant struct {
	// file is the path from the top of the repository.
	file string
	// kind is the name that gremlins uses: CONDITIONALS_BOUNDARY is < for <=.
	kind string
	// column is the column in text, from 1.
	column int
	// text is the line without leading and trailing white space.
	text string
}

// survivor is a mutation that no test notices.
type survivor struct {
	mutant
	line int
}

func (m mutant) String() string { return fmt.Sprintf("%s %s %d: %s", m.file, m.kind, m.column, m.text) }

// found holds the results of the mutations of a package.
type found struct {
	dir                        string
	killed, timedOut, unviable int
	// endless is the number of killed mutations whose tests did not end.
	endless int
	lived   []survivor
}

// parseOutput parses the output of gremlins. Its file names are relative to the package.
func parseOutput(content []byte, dir string, read func(name string) (lines []string, err error)) (*found, error) {
	var output struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Kind   string `json:"type"`
				Status string `json:"status"`
				Line   int    `json:"line"`
				Column int    `json:"column"`
			} `json:"mutations"`
		} `json:"files"`
	}
	if err := json.Unmarshal(content, &output); err != nil {
		return nil, fmt.Errorf("what gremlins wrote: %w", err)
	}
	f := &found{dir: dir}
	for _, file := range output.Files {
		name := path.Join(dir, path.Base(file.Name))
		lines, err := read(name)
		if err != nil {
			return nil, err
		}
		for _, m := range file.Mutations {
			switch m.Status {
			case "KILLED":
				f.killed++
			case "TIMED OUT":
				f.timedOut++
			case "NOT VIABLE":
				f.unviable++
			case "LIVED":
				if m.Line < 1 || m.Line > len(lines) {
					return nil, fmt.Errorf("gremlins names line %d of %s, which has %d", m.Line, name, len(lines))
				}
				line := lines[m.Line-1]
				text := strings.TrimLeft(line, "\t ")
				f.lived = append(f.lived, survivor{mutant{name, m.Kind, m.Column - (len(line) - len(text)), strings.TrimRight(text, "\t ")}, m.Line})
			}
		}
	}
	slices.SortFunc(f.lived, func(a, b survivor) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	return f, nil
}

// report writes the results of a package, and reports whether they are good. They are if every mutation that no test notices
// is known, every known one still exists and is not noticed, and the tests notice enough of them. If complete is false, these are
// the results of a part, and known ones may be in another.
func (f *found) report(w io.Writer, survivors map[mutant]string, complete bool) (good bool) {
	noticed := f.killed + f.timedOut
	rate := 100.0
	if all := noticed + len(f.lived); all > 0 {
		rate = 100 * float64(noticed) / float64(all)
	}
	_, _ = fmt.Fprintf(w, "%s: %.1f %% noticed: %d of %d (%d took too long, %d did not end; %d more do not compile or are in other parts)\n",
		f.dir, rate, noticed, noticed+len(f.lived), f.timedOut, f.endless, f.unviable)
	good = true
	for _, m := range f.lived {
		if _, ok := survivors[m.mutant]; !ok {
			_, _ = fmt.Fprintf(w, "  no test notices: %s (line %d)\n", m, m.line)
			good = false
		}
	}
	for m := range survivors {
		lives := slices.ContainsFunc(f.lived, func(s survivor) bool { return s.mutant == m })
		if complete && path.Dir(m.file) == f.dir && !lives {
			_, _ = fmt.Fprintln(w, "  in survivors.txt, and is not there or is noticed now:", m)
			good = false
		}
	}
	if f.timedOut > 1 && 100*f.timedOut > mostSlow*noticed {
		_, _ = fmt.Fprintf(w, "  more than %d %% of these took too long, so a busy machine may hide others: run it alone, or with more -patience\n", mostSlow)
		good = false
	}
	if rate < minNoticed {
		_, _ = fmt.Fprintf(w, "  less than %d %% are noticed\n", minNoticed)
		good = false
	}
	return good
}

// parseSurvivors parses survivors.txt. It has a line for each mutation, in the form of mutant.String, followed by indented
// lines with the reason. Lines that begin with # are comments.
func parseSurvivors(text string) (map[mutant]string, error) {
	survivors := map[mutant]string{}
	var last mutant
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " ") && last != mutant{}:
			survivors[last] = strings.TrimSpace(survivors[last] + " " + strings.TrimSpace(line))
		default:
			head, text, ok := strings.Cut(line, ": ")
			m := mutant{text: text}
			if n, err := fmt.Sscanf(head, "%s %s %d", &m.file, &m.kind, &m.column); !ok || err != nil || n != 3 {
				return nil, fmt.Errorf("line %d is not FILE KIND COLUMN: TEXT", i+1)
			}
			if _, twice := survivors[m]; twice {
				return nil, fmt.Errorf("line %d is there twice", i+1)
			}
			survivors[m], last = "", m
		}
	}
	var errs []error
	for m, reason := range survivors {
		if reason == "" {
			errs = append(errs, fmt.Errorf("there is no reason for %s", m))
		}
	}
	return survivors, errors.Join(errs...)
}
