package transform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
)

// piece is a stretch of a source: literal text, or an expression without its braces.
type piece struct {
	text       string
	expression bool
	column     int // of the first rune
	tokens     []lexer.Token
}

// cut splits a template at its expressions. A source that is no template is one expression. What follows an expression
// whose end cannot be found is left out.
func cut(source string, template bool) (pieces []piece, problems []Problem) {
	if len(source) > MaxSource {
		return nil, []Problem{{Message: "the source is longer than 64 KiB"}}
	}
	if !template {
		p, problem := tokenize(source, 1, false)
		if problem != nil {
			return nil, []Problem{*problem}
		}
		return []piece{p}, nil
	}
	column := 1
	for expressions := 1; ; expressions++ {
		text, rest, found := strings.Cut(source, "{{")
		if text != "" {
			pieces = append(pieces, piece{text: text, column: column})
		}
		if !found {
			return pieces, nil
		}
		column += utf8.RuneCountInString(text)
		if expressions > MaxExpressions {
			return pieces, []Problem{{column, fmt.Sprintf("more than %d expressions", MaxExpressions)}}
		}
		p, problem := tokenize(rest, column+2, true)
		if problem != nil {
			return pieces, []Problem{*problem}
		}
		pieces = append(pieces, p)
		column += 2 + utf8.RuneCountInString(p.text) + 2
		source = rest[len(p.text)+2:]
	}
}

// tokenize reads an expression with the lexer of its language, which knows what is quoted. Its end is the end of the
// source or, when it is braced, the first }} that closes nothing in the expression itself.
func tokenize(source string, column int, braced bool) (piece, *Problem) {
	p := piece{expression: true, column: column}
	start := column // of the expression with its braces
	if braced {
		start -= 2
	}
	l := lexer.New()
	l.Reset(file.NewSource(source))
	depth, end, stray := 0, 0, -1 // end of the last token and start of the last } that closes nothing, in runes
	for len(p.tokens) <= MaxTokens {
		token, err := l.Next()
		if err != nil {
			return p, lexicalProblem(source, column, end, err)
		}
		end = token.To
		switch {
		case token.Kind == lexer.EOF && braced:
			return p, &Problem{start, "there is no }} that ends this {{"}
		case token.Kind == lexer.EOF:
			return p.complete(source, start)
		case token.Is(lexer.Bracket, "{"):
			depth++
		case token.Is(lexer.Bracket, "}") && depth > 0:
			depth--
		case token.Is(lexer.Bracket, "}") && braced && stray >= 0 && stray == token.From-1:
			p.tokens = p.tokens[:len(p.tokens)-1]
			return p.complete(source[:byteOffset(source, stray)], start)
		case token.Is(lexer.Bracket, "}"):
			stray = token.From
		}
		p.tokens = append(p.tokens, token)
	}
	return p, &Problem{start, fmt.Sprintf("the expression has more than %d tokens", MaxTokens)}
}

func (p piece) complete(text string, start int) (piece, *Problem) {
	p.text = text
	if len(p.tokens) == 0 {
		return p, &Problem{start, "empty expression"}
	}
	return p, nil
}

// lexicalProblem reports a token that is none, at its start: the lexer's own place may be the end of the source. What
// the lexer says behind a colon is left out, as it quotes the source.
func lexicalProblem(source string, column, end int, err error) *Problem {
	message := "not an expression"
	if e := (*file.Error)(nil); errors.As(err, &e) {
		message, _, _ = strings.Cut(e.Message, ":")
	}
	for _, r := range source[byteOffset(source, end):] {
		if !unicode.IsSpace(r) {
			break
		}
		end++
	}
	return &Problem{column + end, message}
}

func byteOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}

// syntaxProblem reports that the parser does not go on at a place, without quoting a literal as the parser does.
func (p piece) syntaxProblem(from int) Problem {
	near := "the end"
	if i := slices.IndexFunc(p.tokens, func(t lexer.Token) bool { return t.From == from }); i >= 0 {
		switch token := p.tokens[i]; token.Kind {
		case lexer.String, lexer.Bytes:
			near = "a text"
		case lexer.Number:
			near = "a number"
		case lexer.Identifier:
			near = quote(token.Value)
		default:
			near = strconv.Quote(token.Value)
		}
	}
	switch near {
	case `"="`:
		near += ": == is for comparing"
	case `":"`:
		near += ": an object that map makes stands in parentheses, as in map(list, ({name: .name}))"
	}
	return Problem{p.column + from, "syntax error near " + near}
}
