package expr

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error says what is wrong with an expression, or why it could not be evaluated. It never holds a value: it goes to logs.
// Of the source it quotes names and operators only: what stands in quotes there may be a password.
type Error struct {
	// Path is the place of the source in an object of templates ("exp", "roles[0].name"). It is empty for one that stands
	// alone.
	Path string
	// Column counts from 1, in runes of the source. It is 0 when all of the source is meant.
	Column  int
	Message string
	// Err is the cause, such as the error of the context. It may be nil.
	Err error

	near string // the name or operator at which the parser does not go on
}

func (e *Error) Error() string {
	var parts []string
	if e.Path != "" {
		parts = append(parts, e.Path)
	}
	if e.Column > 0 {
		parts = append(parts, "column "+strconv.Itoa(e.Column))
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// Sorted sorts errors by their columns.
func Sorted(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int { return cmp.Compare(a.Column, b.Column) })
	return errs
}
