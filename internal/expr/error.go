package expr

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error is an error in an expression, or in its evaluation. It goes to logs, so it never holds a value. It quotes names and
// operators of the source, and no literals, which may be passwords.
type Error struct {
	// Path is the path of the source in an object of templates ("exp", "roles[0].name"). It is empty for a single template.
	Path string
	// Column is the column in the source, in runes from 1. It is 0 if the error concerns the whole source.
	Column  int
	Message string
	// Err is the cause, such as the error of the context. It may be nil.
	Err error

	// near is the name or operator at which the parser failed.
	near string
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

// Sorted sorts errors by column, in place, and returns them.
func Sorted(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int { return cmp.Compare(a.Column, b.Column) })
	return errs
}
