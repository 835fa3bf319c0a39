package template

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

// piece is a stretch of a template's source: literal text, or an expression.
type piece struct {
	text       string // as in the source; of an expression with its braces
	expression bool
	column     int // of the first rune
	tokens     []lexer.Token
}

// inner is the expression without its braces, with all its white space, so that columns can be counted in it.
func (p piece) inner() string { return p.text[2 : len(p.text)-2] }

// cut splits a source at its expressions. What follows an expression whose end cannot be found is left out.
func cut(source string) (pieces []piece, errs []*Error) {
	column, expressions := 1, 0
	add := func(p piece) {
		p.column = column
		pieces = append(pieces, p)
		column += utf8.RuneCountInString(p.text)
		source = source[len(p.text):]
	}
	for source != "" {
		open := strings.Index(source, "{{")
		if open < 0 {
			add(piece{text: source})
			break
		}
		if open > 0 {
			add(piece{text: source[:open]})
		}
		if expressions++; expressions > MaxExpressions {
			return pieces, append(errs, &Error{
				Column: column, Message: fmt.Sprintf("more than %d expressions", MaxExpressions),
			})
		}
		length, tokens, err := tokenize(source[2:])
		if err != nil {
			err.Column += column + 2 // Column is 0-based from behind the opening braces until here
			return pieces, append(errs, err)
		}
		add(piece{text: source[:2+length+2], expression: true, tokens: tokens})
	}
	return pieces, errs
}

// tokenize finds the end of an expression with the lexer of its language, which knows what is quoted. The end is the
// first }} that closes nothing in the expression itself. It gives the bytes before it, and their tokens.
func tokenize(source string) (length int, tokens []lexer.Token, err *Error) {
	l := lexer.New()
	l.Reset(file.NewSource(source))
	depth, end, stray := 0, 0, -1 // end of the last token and start of the last } that closes nothing, in runes
	for len(tokens) <= MaxTokens {
		token, err := l.Next()
		if err != nil {
			return 0, nil, lexicalError(source, end, err)
		}
		end = token.To
		switch {
		case token.Kind == lexer.EOF:
			return 0, nil, &Error{Column: -2, Message: "there is no }} that ends this {{"}
		case token.Is(lexer.Bracket, "{"):
			depth++
		case token.Is(lexer.Bracket, "}") && depth > 0:
			depth--
		case token.Is(lexer.Bracket, "}") && stray >= 0 && stray == token.From-1:
			return byteOffset(source, stray), tokens[:len(tokens)-1], nil
		case token.Is(lexer.Bracket, "}"):
			stray = token.From
		}
		tokens = append(tokens, token)
	}
	return 0, nil, &Error{Column: -2, Message: fmt.Sprintf("the expression has more than %d tokens", MaxTokens)}
}

// lexicalError reports a token that is none, at its start: the lexer's own place may be the end of the source. What the
// lexer says behind a colon is left out, as it quotes the source.
func lexicalError(source string, end int, err error) *Error {
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
	return &Error{Column: end, Message: message}
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

// syntaxError reports that the parser does not go on at a place. It says what stands there without quoting a literal,
// as the parser's own message does.
func (p piece) syntaxError(from int) *Error {
	near := "the end"
	at := slices.IndexFunc(p.tokens, func(t lexer.Token) bool { return t.From == from })
	if at >= 0 {
		switch token := p.tokens[at]; token.Kind {
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
	return &Error{Column: p.column + 2 + from, Message: "syntax error near " + near}
}
