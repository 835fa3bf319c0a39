// Package terminal formats text for terminals: colours, tables and lines that fit the width.
package terminal

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Narrow is the width in columns of a terminal whose width is unknown, and of wrapped text that is not for a terminal.
const Narrow = 80

// Style colours text, or returns it unchanged.
type Style struct{ colours bool }

// Colours reports whether the style colours text.
func (s Style) Colours() bool { return s.colours }

func (s Style) sgr(code, text string) string {
	if !s.colours || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold returns the text in bold.
func (s Style) Bold(text string) string { return s.sgr("1", text) }

// Dim returns the text dimmed.
func (s Style) Dim(text string) string { return s.sgr("2", text) }

// Red returns the text in red.
func (s Style) Red(text string) string { return s.sgr("31", text) }

// Yellow returns the text in yellow.
func (s Style) Yellow(text string) string { return s.sgr("33", text) }

// Green returns the text in green.
func (s Style) Green(text string) string { return s.sgr("32", text) }

// A Printer writes text for people to a stream. It keeps the first error of writing.
type Printer struct {
	// Writer is the stream, for bytes that are no text for people.
	io.Writer
	Style
	err error
}

// NewPrinter returns a printer that writes in colours to a terminal, unless NO_COLOR is set (no-color.org) or TERM is dumb. env returns the
// value of an environment variable.
func NewPrinter(w io.Writer, env func(string) string) *Printer {
	p := &Printer{Writer: w}
	p.colours = env("NO_COLOR") == "" && env("TERM") != "dumb" && p.Columns() > 0
	return p
}

// Err returns the first error of writing.
func (p *Printer) Err() error { return p.err }

// Fail keeps an error of writing, unless it is nil, in place of a later one.
func (p *Printer) Fail(err error) { p.err = cmp.Or(p.err, err) }

// Columns returns the width of the terminal in columns, or 0 if the stream is no terminal.
func (p *Printer) Columns() int {
	file, ok := p.Writer.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return Narrow
	}
	return width
}

// Printf writes a text as it is.
func (p *Printer) Printf(format string, args ...any) {
	_, err := fmt.Fprintf(p.Writer, format, args...)
	p.Fail(err)
}

// Line writes a line. In a terminal it wraps the line between words, with indentation. Elsewhere it does not, because
// programs expect one line for each problem. A text of several lines is not wrapped either.
func (p *Printer) Line(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	if !strings.Contains(line, "\n") {
		line = Hang(line, p.Columns(), 2)
	}
	p.Printf("%s\n", line)
}

// Pair writes a name and its value, which begins at a column. For the value "" it writes nothing.
func (p *Printer) Pair(column int, name, value string) {
	if value != "" {
		p.Printf("%s%s\n", p.Dim(Pad(name, column)), Hang(value, p.Columns(), column))
	}
}

// List writes a row of a [Table] for each item. If there is none, it writes the line none, unless that is empty.
func List[T any](p *Printer, none string, items []T, row func(T) []string, heading ...string) {
	if len(items) == 0 && none != "" {
		p.Line("%s", none)
		return
	}
	rows := [][]string{heading}
	for _, item := range items {
		rows = append(rows, row(item))
	}
	p.Printf("%s", Table(p.Style, p.Columns(), rows))
}

// Table returns rows in columns. The first row is the heading. The last column is wrapped to the width, unless that is
// 0. If too little of the width is left for it, its text goes below the others.
func Table(s Style, width int, rows [][]string) string {
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
	const minWidth = 24 // columns; narrower text is hard to read
	below := width > 0 && width-indent-1 < minWidth
	if below {
		indent = 4
	}
	room := 0
	if width > 0 {
		room = max(width-indent-1, minWidth)
	}
	var b strings.Builder
	for i, row := range rows {
		line := ""
		for j := range last {
			line += Pad(row[j], widths[j]+2)
		}
		next := "\n" + strings.Repeat(" ", indent)
		text := strings.Join(Wrap(row[last], room), next)
		if below && text != "" {
			line, text = strings.TrimRight(line, " "), next+text
		}
		line = strings.TrimRight(line+text, " ")
		if i == 0 {
			line = s.Dim(line)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// Pad returns text with spaces appended up to the width.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

// Wrap breaks text between words into lines of at most width characters. Longer words have their own line. A width of 0 means no limit.
func Wrap(text string, width int) []string {
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

// Hang wraps text between words at a width, and indents all lines but the first. A width of 0 means no limit.
func Hang(text string, width, indent int) string {
	room := 0
	if width > 0 {
		room = max(width-indent-1, 1)
	}
	return strings.Join(Wrap(text, room), "\n"+strings.Repeat(" ", indent))
}

// Count returns a number with a noun, in the plural unless the number is 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ReadHidden reads a line from a terminal, which does not show it, after a prompt. ok reports whether in is a terminal.
func ReadHidden(in io.Reader, p *Printer, prompt string) (line string, ok bool, err error) {
	file, isFile := in.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return "", false, nil
	}
	p.Printf("%s", prompt)
	text, err := term.ReadPassword(int(file.Fd()))
	p.Printf("\n")
	return string(text), true, err
}
