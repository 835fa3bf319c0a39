package template

import (
	"errors"
	"strconv"
	"strings"
)

// Error says what is wrong with a template, or why it could not be rendered. It never holds the value of a secret,
// variable or user field, and of the source only names and operators: what stands in quotes there may be a password.
type Error struct {
	Path    string // place in an Object ("exp", "roles[0].name"); empty for a Template that stands alone
	Column  int    // 1-based, in runes of the template's source; 0 when the whole value is meant
	Message string
	Err     error // cause, as Values.Secret or Values.UUID gave it; may be nil
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

// Errors lists every *Error that Compile or CompileObject reported in err, in their order.
func Errors(err error) []*Error {
	var one *Error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Error
		for _, err := range joined.Unwrap() {
			all = append(all, Errors(err)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []*Error{one}
	}
	return nil
}

// join is errors.Join for *Error, except that a single error stays what it is.
func join(errs []*Error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	all := make([]error, len(errs))
	for i, err := range errs {
		all[i] = err
	}
	return errors.Join(all...)
}
