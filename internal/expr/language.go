// Package expr compiles and evaluates the expressions in templates of connectors and in bodies of the gateway.
//
// The language is a subset of github.com/expr-lang/expr. The package uses expr's lexer and parser, and not its compiler and
// virtual machine: it accepts the nodes of an allow-list and compiles them to closures. So every function that reads input or
// makes values belongs to this package. It counts against the limits of the run, and its errors never quote a value.
//
// A value is nil, bool, string, int64, float64, [Number], *[List] or *[Object].
package expr

import (
	"errors"
	"fmt"
	"io"
	"maps"
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

// Kind is the set of the possible kinds of a value. The empty set is the kind of a part with an error. It fits everywhere, so
// that one mistake is reported once.
type Kind uint8

// Kinds of values. Integer and Decimal are numbers; a [Number] is of any kind.
const (
	Text Kind = 1 << iota
	Integer
	Decimal
	Boolean
	ListKind
	ObjectKind
	Null

	Any       = Text | Integer | Decimal | Boolean | ListKind | ObjectKind | Null
	Scalar    = Text | Integer | Decimal | Boolean
	numeric   = Integer | Decimal
	structure = ListKind | ObjectKind
)

// Is reports whether a value of kind k is always of one of the allowed kinds.
func (k Kind) Is(mask Kind) bool { return k&^mask == 0 }

// May reports whether a value of kind k can be of one of the allowed kinds.
func (k Kind) May(mask Kind) bool { return k == 0 || k&mask != 0 }

// Language defines the names and functions that an expression may use.
type Language struct {
	// Bodies adds lists, members, patterns and most functions. With it, values may be of any kind, and a wrong kind is an
	// error of the evaluation. Without it, Compile refuses an expression unless the kinds of its values are known to fit.
	Bodies bool
	// Group reports whether a path is a group of names, such as user or request.query, and not itself a value.
	Group func(path string) bool
	// Name returns the value of a name in a group, or of a name without a group if group is "". It need not know user and
	// tenant_id. If the name cannot be used, problem is not empty; n is still not nil if the name exists at another place.
	Name func(group, name string) (n *Name, problem string)
	// UnknownFunction returns the end of the error for an unknown function, such as a suggestion.
	UnknownFunction func(name string) string
	// CheckDiscovery returns what is wrong with a call of discover, and the number of the argument that is wrong. problem is ""
	// if nothing is. If CheckDiscovery is nil, all is right.
	CheckDiscovery func(d Discovery) (argument int, problem string)
}

// Name is a value that expressions refer to by name.
type Name struct {
	Kind Kind
	// Get returns the value in a run.
	Get func(*Run) (any, *Error)
}

// Values provides the values of a run. A method is called each time an expression uses its value.
type Values interface {
	// Secret returns a secret. An error or a blank secret ends the run.
	Secret(name string) (string, error)
	// Variable returns a variable, and reports whether it exists.
	Variable(name string) (value string, ok bool)
	// User returns the user of the request, or nil.
	User() *User
	// TenantID returns the tenant of the request, or "".
	TenantID() string
	// Discovered returns a member of the metadata of an authorization server. An error ends the run.
	Discovered(d Discovery) (string, error)
	// Identity returns a token of an identity of the process. An error ends the run.
	Identity(i Identity) (string, error)
	// Now returns the Unix time in whole seconds.
	Now() int64
	// UUID returns a new random UUID.
	UUID() (string, error)
}

// User is the person on whose behalf a request is made. An empty field counts as missing.
type User struct {
	Email, ID, Username, FirstName, LastName string
	// Token is a credential. Only templates may name it.
	Token string
}

// UserToken is the name of the field Token.
const UserToken = "token"

// UserFields are the names of a user's fields.
var UserFields = []string{"email", "id", "username", "first_name", "last_name", UserToken}

var userFields = map[string]func(*User) string{
	"email":      func(u *User) string { return u.Email },
	"id":         func(u *User) string { return u.ID },
	"username":   func(u *User) string { return u.Username },
	"first_name": func(u *User) string { return u.FirstName },
	"last_name":  func(u *User) string { return u.LastName },
	UserToken:    func(u *User) string { return u.Token },
}

// Field returns the field with a name of [UserFields].
func (u *User) Field(name string) string { return userFields[name](u) }

// subject returns a function that gets the value of tenant_id or of a user's field, which all languages have, and the error
// message for an empty value. For other names get is nil.
func subject(group, name string) (get func(*Run) string, missing string) {
	field := userFields[name]
	switch {
	case group == "" && name == "tenant_id":
		return func(r *Run) string { return r.Values.TenantID() }, "tenant_id is missing: the request has no tenant"
	case group != "user" || field == nil:
		return nil, ""
	}
	missing = "user." + name + " is missing: the request has no user, or the user's field is empty"
	if name == UserToken {
		missing = "user.token is missing: the request has no user with a token, or the token has expired"
	}
	return func(r *Run) string {
		if u := r.Values.User(); u != nil {
			return field(u)
		}
		return ""
	}, missing
}

// FunctionNames returns the names of all functions of the language, sorted.
func (l *Language) FunctionNames() []string {
	var names []string
	for name, f := range functions {
		if f.templates && !l.Bodies || l.Bodies && inTemplatesOnly[name] == "" {
			names = append(names, name)
		}
	}
	if l.Bodies {
		names = slices.AppendSeq(names, maps.Keys(rounds))
	}
	slices.Sort(names)
	return names
}

func kindName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	case int64, float64:
		return "a number"
	case Number:
		return "a number that is too long"
	case *List:
		return "a list"
	case *Object:
		return "an object"
	}
	return "a value of this kind"
}

// NewUUID returns a random UUID (RFC 9562 section 5.4). The error is that of random.
func NewUUID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

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
