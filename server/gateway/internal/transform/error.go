package transform

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/file"
)

// Problem is one thing that is wrong with a source. Of the source it quotes names and operators only.
type Problem struct {
	Column  int    // from 1, in runes of the source; 0 when all of it is meant
	Message string // what is wrong, and what to do
}

func (p Problem) String() string {
	if p.Column == 0 {
		return p.Message
	}
	return "column " + strconv.Itoa(p.Column) + ": " + p.Message
}

func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Column - b.Column })
	return problems
}

// Error says why an expression could not be evaluated. It never holds a value: it goes to logs.
type Error struct {
	Column  int // as in Problem
	Message string
	Err     error // cause, such as the context's; may be nil
}

func (e *Error) Error() string {
	text := Problem{e.Column, e.Message}.String()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

func fail(format string, arguments ...any) error {
	return &Error{Message: fmt.Sprintf(format, arguments...)}
}

// at returns an error of this package its column.
func at(column int, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Column: column, Message: "the expression failed"} // the text of an unknown error may quote
	}
	return &Error{Column: column, Message: e.Message, Err: e.Err}
}

// explain turns an error of the virtual machine into one that quotes nothing. column is that of the expression.
func explain(column int, err error) error {
	var e *Error
	var f *file.Error
	if !errors.As(err, &f) {
		return at(column, err)
	}
	column += f.From
	if errors.As(f.Prev, &e) {
		return at(column, e)
	}
	if f.Message == "memory budget exceeded" {
		return &Error{Column: column, Message: fmt.Sprintf("lists of more than %d elements in all", MaxElements)}
	}
	if words := strings.Fields(strings.ReplaceAll(f.Message, "interface {}", "any")); len(words) == 5 && words[0] == "invalid" && words[1] == "operation:" {
		one, other := kindNames[words[2]], kindNames[words[4]]
		if one != "" && other != "" {
			return &Error{Column: column, Message: fmt.Sprintf("%s does not take %s and %s", words[3], one, other)}
		}
	}
	return &Error{Column: column, Message: "a value is missing, or of a kind that does not go here"}
}

// kindNames are the kinds of values by the names that the virtual machine gives them.
var kindNames = map[string]string{
	"<nil>": "null", "bool": "a boolean", "string": "a text", "int": "a number", "float64": "a number",
	"transform.number": "a number that is too long", "[]any": "a list", "map[string]any": "an object",
}

var goTypes = regexp.MustCompile(`map\[string\]interface \{\}|\[\]interface \{\}|interface \{\}|\b(?:string|float64|int|bool|nil|unknown)\b`)

// plain puts a message of the type checker into the words of this package.
func plain(message string) string {
	return strings.TrimSpace(goTypes.ReplaceAllStringFunc(message, func(name string) string {
		switch name {
		case "string":
			return "text"
		case "int", "float64":
			return "number"
		case "bool":
			return "boolean"
		case "nil":
			return "null"
		case "[]interface {}":
			return "list"
		case "map[string]interface {}":
			return "object"
		}
		return "any value"
	}))
}
