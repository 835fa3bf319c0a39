package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
)

// MaxExpressions is how many expressions a template may have.
const MaxExpressions = 256

// Piece is a stretch of a source: literal text, or an expression.
type Piece struct {
	Text       string // of an expression, without its braces and with all its white space
	Expression bool
	Column     int // from 1, in runes of the source: where Text begins
	Start      int // where the piece begins, braces included
	tokens     []lexer.Token
}

// FirstToken is the column at which the expression's first token begins.
func (p Piece) FirstToken() int { return p.Column + p.tokens[0].From }

// Cut splits a template at its {{ expressions }}. What follows an expression whose end cannot be found is left out, and
// is the problem.
func Cut(source string, maxTokens int) (pieces []Piece, problem *Error) {
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
		p, problem := scan(rest, column, maxTokens, true)
		if problem != nil {
			return pieces, problem
		}
		pieces = append(pieces, p)
		column += 2 + utf8.RuneCountInString(p.Text) + 2
		source = rest[len(p.Text)+2:]
	}
}

// Whole takes a source that is one expression, without braces.
func Whole(source string, maxTokens int) (Piece, *Error) { return scan(source, 1, maxTokens, false) }

// scan reads an expression. Its end is the end of the source or, when it is braced, the first }} that closes nothing in
// the expression itself. start is the column of the opening braces, which are not in the source.
func scan(source string, start, maxTokens int, braced bool) (Piece, *Error) {
	p := Piece{Text: source, Expression: true, Column: start, Start: start}
	if braced {
		p.Column += 2
	}
	l := lexer.New()
	l.Reset(file.NewSource(source))
	depth, end, stray := 0, 0, -1 // end of the last token and start of the last } that closes nothing, in runes
	for len(p.tokens) <= maxTokens {
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

// lexicalProblem reports a token that is none, at its start: the lexer's own place may be the end of the source. What
// the lexer says behind a colon is left out, as it quotes the source.
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

// parse parses an expression. Functions with these names are no functions of the parser's own.
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

// syntaxProblem reports that the parser does not go on at a place. It says what stands there without quoting a literal,
// as the parser's own message does.
func (p Piece) syntaxProblem(from int) *Error {
	near, kind := "", "the end"
	if i := slices.IndexFunc(p.tokens, func(t lexer.Token) bool { return t.From == from }); i >= 0 {
		switch token := p.tokens[i]; token.Kind {
		case lexer.String, lexer.Bytes:
			kind = "a text"
		case lexer.Number:
			kind = "a number"
		default:
			near, kind = token.Value, Quote(token.Value)
		}
	}
	return &Error{Column: p.Column + from, Message: "syntax error near " + kind, near: near}
}

// byteOffset is where in a text the rune of this number begins, counted from 0: the lexer counts runes.
func byteOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}

// Quote puts a name into quotes for an error text, cut short when it is long.
func Quote(name string) string {
	const longest = 40
	if runes := []rune(name); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "…"
	}
	return strconv.Quote(name)
}
