package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// root is the top of the repository.
const root = "../../.."

func document(t *testing.T, name string) string {
	t.Helper()
	return string(testworld.Must(os.ReadFile(filepath.Join(root, name)))(t))
}

// block is a fenced block of a document.
type block struct {
	line    int    // the line of the fence, from 1
	section string // the level 2 heading above the block
	info    string // the info string: sh, go, yaml, json or text
	marker  string // the HTML comment on the line before the fence, without its delimiters
	text    string
}

// blocks returns the fenced blocks of a document.
func blocks(t *testing.T, name string) []block {
	t.Helper()
	var all []block
	var open *block
	section, before := "", ""
	for i, line := range strings.Split(document(t, name), "\n") {
		switch {
		case open != nil && line == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "```"):
			open = &block{line: i + 1, section: section, info: strings.TrimPrefix(line, "```"), marker: comment(before)}
		case strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		}
		before = line
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", name, open.line)
	}
	return all
}

// blocksOf returns the blocks of a document with an info string.
func blocksOf(t *testing.T, name, info string) []block {
	t.Helper()
	return slices.DeleteFunc(blocks(t, name), func(b block) bool { return b.info != info })
}

func comment(line string) string {
	text, ok := strings.CutPrefix(line, "<!--")
	if !ok {
		return ""
	}
	return strings.TrimSpace(strings.TrimSuffix(text, "-->"))
}

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	code  = regexp.MustCompile("`([^`\n]+)`")
)

// prose returns a document without its fenced blocks.
func prose(t *testing.T, name string) string {
	t.Helper()
	return fence.ReplaceAllString(document(t, name), "")
}

// spans returns the code spans of a text.
func spans(text string) []string {
	var all []string
	for _, match := range code.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

// under returns the text of a document from a heading to the next one of any level.
func under(t *testing.T, name, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(prose(t, name), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", name, heading)
	}
	if end := regexp.MustCompile(`(?m)^#`).FindStringIndex(after); end != nil {
		after = after[:end[0]]
	}
	return after
}

// rows returns the cells of the tables in a text, without header and delimiter rows.
func rows(text string) [][]string {
	var all [][]string
	head := true
	for _, line := range strings.Split(text, "\n") {
		switch {
		case !strings.HasPrefix(line, "|"):
			head = true
		case head:
			head = false
		case !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	return all
}
