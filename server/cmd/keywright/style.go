package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// style colours text, if it is on.
type style struct{ on bool }

// style is on when stdout is a terminal, unless NO_COLOR says otherwise (no-color.org).
func (a *app) style() style {
	file, ok := a.out.(*os.File)
	return style{ok && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))}
}

func (s style) sgr(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string  { return s.sgr("1", text) }
func (s style) dim(text string) string   { return s.sgr("2", text) }
func (s style) red(text string) string   { return s.sgr("31", text) }
func (s style) green(text string) string { return s.sgr("32", text) }

// columns is how many there are, and 0, for no end of them, where the writer is not a terminal.
func columns(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return narrow
	}
	return width
}

// table writes rows in columns, the first row being the heading. The last column is wrapped at the width, if that is
// not 0.
func table(w io.Writer, s style, width int, rows [][]string) error {
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, row := range rows {
		for i := range last {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	indent := 0
	for _, width := range widths {
		indent += width + 2
	}
	for i, row := range rows {
		var b strings.Builder
		for j := range last {
			b.WriteString(pad(row[j], widths[j]+2))
		}
		const least = 24 // columns, in which text can still be read
		room := 0
		if width > 0 {
			room = max(width-indent-1, least)
		}
		b.WriteString(strings.Join(wrap(row[last], room), "\n"+strings.Repeat(" ", indent)))
		line := strings.TrimRight(b.String(), " ")
		if i == 0 {
			line = s.dim(line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

// wrap breaks a text between words. 0 is no limit.
func wrap(text string, width int) []string {
	if width == 0 {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
