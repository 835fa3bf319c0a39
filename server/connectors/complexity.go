package connectors

import (
	"strings"
	"unicode/utf8"
)

// maxMarks limits the characters of a file that can be part of YAML's structure, because the parser's memory and time grow with
// them. They are counted before the file is parsed. The count must never be less than the parser's.
const maxMarks = 100_000

// marks counts the characters that can begin, end or separate values in YAML. It counts those in quoted text too, because a
// file could make it see quotes where the parser sees none. It skips characters that are not structure because of their
// neighbours, such as the colon of https:// and the hyphen of a word. Two quotes count as one mark. It returns the line of
// the first mark over maxMarks, or 0.
func marks(text string) (line int) {
	line = 1
	count, quotes := 0, 0
	for i := range len(text) {
		switch c := text[i]; c {
		case '\n':
			line++
			continue
		case '"', '\'':
			if quotes++; quotes%2 == 0 {
				continue
			}
		case '[', '{', ',', '?', '&', '*', '!':
		case '#':
			if i > 0 && text[i-1] == '#' {
				continue
			}
		case ':':
			if i > 0 && isWord(text[i-1]) && i+1 < len(text) && (isWord(text[i+1]) || text[i+1] == '/') {
				continue
			}
		case '-':
			if i+1 < len(text) && !isBlank(text[i+1]) {
				continue
			}
		default:
			continue
		}
		if count++; count > maxMarks {
			return line
		}
	}
	return 0
}

// directive returns the line of the first directive, or 0. The parser compares each directive with all before it, which takes
// quadratic time.
func directive(text string) (line int) {
	for i := 0; i < len(text); i++ {
		next := strings.IndexByte(text[i:], '%')
		if next < 0 {
			return 0
		}
		i += next
		previous, _ := utf8.DecodeLastRuneInString(text[:i])
		if i == 0 || strings.ContainsRune("\n\r\u0085\u2028\u2029", previous) { // the parser's line ends
			return 1 + strings.Count(text[:i], "\n")
		}
	}
	return 0
}

// otherLineEnd returns the line of the first end of a line that is neither a line feed nor a carriage return before one, or 0. With it,
// the parser counts other lines than editors do, and what is shown for a problem would be another line (threats.md 280).
func otherLineEnd(text string) (line int) {
	line = 1
	for i, c := range text {
		switch c {
		case '\n':
			line++
		case '\r':
			if !strings.HasPrefix(text[i+1:], "\n") {
				return line
			}
		case '\u0085', '\u2028', '\u2029':
			return line
		}
	}
	return 0
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c >= 0x80 }
