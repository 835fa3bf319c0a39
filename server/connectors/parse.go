package connectors

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/internal/problem"
)

const maxFile = 4 << 20 // bytes

// parse returns the value of a file, or nil if it cannot be parsed or ctx has ended.
func parse(ctx context.Context, text string, p *problems) *node {
	switch {
	case len(text) > maxFile:
		p.report(problem.Place{}, "", "has more than %d MiB: use several gateways", maxFile>>20)
		return nil
	case !utf8.ValidString(text):
		valid := strings.ToValidUTF8(text, "\x00")
		p.report(p.placed(1+strings.Count(valid[:strings.IndexByte(valid, 0)], "\n"), 1), "", "is not UTF-8: save it in that encoding")
		return nil
	case json.Valid([]byte(text)):
		return readJSON(ctx, text, p)
	}
	return readYAML(ctx, text, p)
}

// A jsonReader reads nodes from JSON. YAML's parser is not used for JSON, because it does not accept all of it: tabs, and
// surrogate pairs in texts.
type jsonReader struct {
	grower
	ctx     context.Context
	decoder *json.Decoder
	text    string
	// next is the place of the next token, and offset its position in text, in bytes.
	offset int
	next   problem.Place
}

// readJSON returns the value of a text in JSON, or nil if it exceeds a limit or ctx ends.
func readJSON(ctx context.Context, text string, p *problems) *node {
	r := &jsonReader{grower: grower{problems: p}, ctx: ctx, text: text, next: p.placed(1, 1)}
	r.decoder = json.NewDecoder(strings.NewReader(text))
	r.decoder.UseNumber()
	if n := r.read(nil, 0); !r.full {
		return n
	}
	return nil
}

func (r *jsonReader) token() (json.Token, problem.Place) {
	end := int(r.decoder.InputOffset())
	for end < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[end]) >= 0 {
		end++
	}
	r.next, r.offset = r.next.Advance([]byte(r.text[r.offset:end])), end
	where := r.next
	token, err := r.decoder.Token()
	if err != nil || r.ctx.Err() != nil {
		r.full = true // the text is valid JSON, so ctx has ended
	}
	return token, where
}

func (r *jsonReader) read(path *problem.Path, depth int) *node {
	token, where := r.token()
	result := &node{Place: where, kind: scalar, size: 1}
	if !r.grow(where, depth, result) {
		return result
	}
	switch token {
	case json.Delim('['):
		result.kind, result.depth = list, 1
		for i := 0; !r.full && r.decoder.More(); i++ {
			v := r.read(path.Item(i), depth+1)
			result.items = append(result.items, v)
			result.contain("", v)
		}
		r.token()
	case json.Delim('{'):
		result.kind, result.depth = object, 1
		for !r.full && r.decoder.More() {
			r.member(result, path, depth)
		}
		r.token()
	default:
		result.value = token
	}
	return result
}

func (r *jsonReader) member(to *node, path *problem.Path, depth int) {
	key, where := r.token()
	name, _ := key.(string)
	v := r.read(path.Member(name), depth+1)
	if first := to.get(name); first != nil {
		r.report(where, path.Member(name).String(), "is there twice, first on line %d: remove one", first.key.Line-r.lineOffset)
		return
	}
	to.add(member{name, where, v})
}

// maxMarks limits the characters of a file that can be part of YAML's structure, because the parser's memory and time grow with
// them. They are counted before the file is parsed. The count must never be less than the parser's.
const maxMarks = 100_000

// marks counts the characters that can begin, end or separate values in YAML. It counts those in quoted text too, because a file could make
// it see quotes where the parser sees none. It skips characters that are not structure because of their neighbours, such as the colon of
// https:// and the hyphen of a word. Two quotes count as one mark. It returns the line of the first mark over maxMarks, or 0.
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

// oddLines returns the line of the first directive, and that of the first end of a line that is neither a line feed nor a carriage return
// before one, or 0. The parser compares each directive with all before it, which takes quadratic time. With other ends of lines, it
// counts other lines than editors do, and what is shown for a problem would be another line (threats.md 280).
func oddLines(text string) (directive, end int) {
	line, previous := 1, '\n'
	for i, c := range text {
		if end == 0 && (c == '\r' && !strings.HasPrefix(text[i+1:], "\n") || strings.ContainsRune("\u0085\u2028\u2029", c)) {
			end = line
		}
		if c == '%' && directive == 0 && strings.ContainsRune("\n\r\u0085\u2028\u2029", previous) { // the parser's line ends
			directive = line
		}
		if c == '\n' {
			line++
		}
		previous = c
	}
	return directive, end
}

func isWord(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c >= 0x80 }
