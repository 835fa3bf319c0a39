package connectors

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

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
	}
	var root *yaml.Node
	if json.Valid([]byte(text)) {
		r := &jsonReader{ctx: ctx, decoder: json.NewDecoder(strings.NewReader(text)), text: text, next: problem.Place{Line: 1, Column: 1}}
		r.decoder.UseNumber()
		root = r.read()
	} else {
		root = readYAML(ctx, text, p)
	}
	if root == nil || ctx.Err() != nil {
		return nil
	}
	r := &yamlReader{grower: grower{problems: p}, done: map[*yaml.Node]*node{}}
	if n := r.read(root, nil, 0); !r.full {
		return n
	}
	return nil
}

// A jsonReader makes of JSON the tree that the parser of YAML makes of its own. That parser is not used for JSON, because it does not
// accept all of it: tabs, and surrogate pairs in texts.
type jsonReader struct {
	ctx     context.Context
	decoder *json.Decoder
	text    string
	// next is the place of the next token, and offset its position in text, in bytes.
	offset int
	next   problem.Place
	// values counts values and names of members.
	values int
}

// token returns the next token and its place. It returns nil once ctx has ended.
func (r *jsonReader) token() (json.Token, problem.Place) {
	end := int(r.decoder.InputOffset())
	for end < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[end]) >= 0 {
		end++
	}
	r.next, r.offset = r.next.Advance([]byte(r.text[r.offset:end])), end
	token, _ := r.decoder.Token() // the text is valid
	return token, r.next
}

// read returns the next value. It leaves out what exceeds maxValues.
func (r *jsonReader) read() *yaml.Node {
	const limit = 2*maxValues + 2 // with the names of members
	token, where := r.token()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: where.Line, Column: where.Column}
	switch token := token.(type) {
	case json.Delim:
		if n.Kind = yaml.MappingNode; token == '[' {
			n.Kind = yaml.SequenceNode
		}
		for r.values < limit && r.ctx.Err() == nil && r.decoder.More() {
			r.values++
			n.Content = append(n.Content, r.read())
		}
		r.token()
	case string:
		n.Value, n.Style = token, yaml.DoubleQuotedStyle
	case json.Number:
		n.Value = token.String()
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(token)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
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
