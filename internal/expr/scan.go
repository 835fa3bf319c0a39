package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/keywright/keywright/internal/problem"
)

// MaxExpressions is the maximum number of expressions in a template.
const MaxExpressions = 256

// Piece is a part of a source: literal text, or an expression.
type Piece struct {
	// Text is the literal text or the expression. An expression includes its white space, and not its braces.
	Text       string
	Expression bool
	// Column is the column at which Text begins, in runes of the source from 1.
	Column int
	// Start is the column at which the piece begins, including an opening brace.
	Start  int
	tokens []lexer.Token
}

// Cut splits a template into its literal texts and {{ expressions }}. It stops at an expression without an end, and returns
// the pieces before it and the problem.
func Cut(source string, maxTokens int) (pieces []Piece, wrong *Error) {
	column := 1
	for expressions := 1; ; expressions++ {
		text, rest, found := strings.Cut(source, "{{")
		if text != "" {
			pieces = append(pieces, Piece{Text: text, Column: column, Start: column})
		}
		if !found {
			return pieces, nil
		}
		column += utf8.RuneCountInString(text)
		if expressions > MaxExpressions {
			return pieces, &Error{Column: column, Message: fmt.Sprintf("more than %d expressions", MaxExpressions)}
		}
		p, wrong := scan(rest, column, maxTokens, true)
		if wrong != nil {
			return pieces, wrong
		}
		pieces = append(pieces, p)
		column += 2 + utf8.RuneCountInString(p.Text) + 2
		source = rest[len(p.Text)+2:]
	}
}

// Whole returns the piece for a source that is one expression, without braces.
func Whole(source string, maxTokens int) (Piece, *Error) { return scan(source, 1, maxTokens, false) }

// scan reads an expression. If it is braced, it ends at the first }} that does not close a brace of the expression itself.
// Otherwise it ends at the end of the source. start is the column of the opening braces, which are not part of source.
func scan(source string, start, maxTokens int, braced bool) (Piece, *Error) {
	p := Piece{Text: source, Expression: true, Column: start, Start: start}
	limit := maxTokens
	if braced {
		p.Column += 2
		limit++ // the first brace of the end is among p.tokens until the second one is found
	}
	l := lexer.New()
	l.Reset(file.NewSource(source))
	depth, end, stray := 0, 0, -1 // in runes: end is the end of the last token, stray the start of the last unmatched }
	for len(p.tokens) <= limit {
		token, err := l.Next()
		if err != nil {
			return p, p.lexicalProblem(end, err)
		}
		end = token.To
		switch {
		case token.Kind == lexer.EOF && braced:
			return p, &Error{Column: start, Message: "there is no }} that ends this {{"}
		case token.Kind == lexer.EOF:
			return p, nil
		case token.Is(lexer.Bracket, "{"):
			depth++
		case token.Is(lexer.Bracket, "}") && depth > 0:
			depth--
		case token.Is(lexer.Bracket, "}") && braced && stray >= 0 && stray == token.From-1:
			p.Text, p.tokens = source[:byteOffset(source, stray)], p.tokens[:len(p.tokens)-1]
			return p, nil
		case token.Is(lexer.Bracket, "}"):
			stray = token.From
		}
		p.tokens = append(p.tokens, token)
	}
	return p, &Error{Column: start, Message: fmt.Sprintf("the expression has more than %d tokens", maxTokens)}
}

// lexicalProblem returns the error for an invalid token that begins after end. The lexer's own place may be the end of the
// source. Of the lexer's message only the part before a colon is used, because the rest quotes the source.
func (p Piece) lexicalProblem(end int, err error) *Error {
	message := "not an expression"
	if e := (*file.Error)(nil); errors.As(err, &e) {
		message, _, _ = strings.Cut(e.Message, ":")
	}
	for _, r := range p.Text[byteOffset(p.Text, end):] {
		if !unicode.IsSpace(r) {
			break
		}
		end++
	}
	return &Error{Column: p.Column + end, Message: message}
}

// parse parses an expression. The given functions replace the parser's own functions of the same names.
func (p Piece) parse(functions conf.FunctionsTable) (*parser.Tree, *Error) {
	if len(p.tokens) == 0 {
		return nil, &Error{Column: p.Start, Message: "empty expression"}
	}
	tree, err := parser.ParseWithConfig(p.Text, &conf.Config{MaxNodes: conf.DefaultMaxNodes, Functions: functions})
	if err == nil {
		return tree, nil
	}
	from := -1
	if e := (*file.Error)(nil); errors.As(err, &e) {
		from = e.From
	}
	return nil, p.syntaxProblem(from)
}

// syntaxProblem returns the error for a token at which the parser failed. Unlike the parser's, it quotes no literals.
func (p Piece) syntaxProblem(from int) *Error {
	near, kind := "", "the end"
	if i := slices.IndexFunc(p.tokens, func(t lexer.Token) bool { return t.From == from }); i >= 0 {
		switch token := p.tokens[i]; token.Kind {
		case lexer.String, lexer.Bytes:
			kind = "a text"
		case lexer.Number:
			kind = "a number"
		default:
			near, kind = token.Value, problem.Quote(token.Value)
		}
	}
	return &Error{Column: p.Column + from, Message: "syntax error near " + kind, near: near}
}

// byteOffset returns the byte offset of a rune index in s. The lexer counts runes.
func byteOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}
