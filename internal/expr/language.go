// Package expr compiles and evaluates expressions, for the templates of connectors and for the bodies of the gateway.
//
// They are written in the language of github.com/expr-lang/expr, whose lexer and parser read them. Only nodes of an
// allow-list are accepted, and turned into closures; expr's compiler and virtual machine are not used. So whatever reads
// input, makes text or takes a value apart is a function of this package, which takes steps and memory from the limits of
// its run, and an error never quotes a value.
//
// A value is nil, bool, string, int64, float64, [Number], *[List] or *[Object].
package expr

import (
	"maps"
	"slices"
)

// Kind is the set of kinds that a value may turn out to have. A part of an expression that has an error has the empty set,
// which fits everywhere, so that one mistake is reported once.
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

// Is reports whether a value of kind k always is one of the allowed kinds.
func (k Kind) Is(allowed Kind) bool { return k&^allowed == 0 }

// May reports whether a value of kind k can be one of the allowed kinds.
func (k Kind) May(allowed Kind) bool { return k == 0 || k&allowed != 0 }

// Language says what expressions at one place may name and call.
type Language struct {
	// Bodies adds lists, members, patterns and most functions. Then a value may be of any kind, and whether it fits shows
	// when the expression is evaluated. Without it, an expression is refused unless its values are known to fit.
	Bodies bool
	// Group reports whether a name is no value, but has some below it: user, request.query.
	Group func(path string) bool
	// Name returns the value of a name below a group. The group is "" for a name that stands alone. What user and tenant_id
	// stand for need not be known to it. The problem says that there is no such name; n is not nil then if there is one at
	// another place.
	Name func(group, name string) (n *Name, problem string)
	// UnknownFunction says what name was probably meant.
	UnknownFunction func(name string) string
}

// Name is a value that an expression may name.
type Name struct {
	Kind Kind
	Get  func(*Run) (any, *Error)
}

// Values holds the values of a run. Each is asked for whenever an expression uses it.
type Values interface {
	// Secret returns a secret. An error, or a blank secret, makes the run fail.
	Secret(name string) (string, error)
	Variable(name string) (value string, ok bool)
	// User returns nil when the request has none.
	User() *User
	// TenantID returns "" when the request has none.
	TenantID() string
	// Now returns the Unix time in whole seconds.
	Now() int64
	UUID() (string, error)
}

// User is the person on whose behalf a request is made. An empty field counts as missing.
type User struct {
	Email, ID, Username, FirstName, LastName string
}

// UserFields are the names of a user's fields.
var UserFields = []string{"email", "id", "username", "first_name", "last_name"}

var userFields = map[string]func(*User) string{
	"email":      func(u *User) string { return u.Email },
	"id":         func(u *User) string { return u.ID },
	"username":   func(u *User) string { return u.Username },
	"first_name": func(u *User) string { return u.FirstName },
	"last_name":  func(u *User) string { return u.LastName },
}

// Field returns a field by its name.
func (u *User) Field(name string) string { return userFields[name](u) }

// subject returns what a name stands for that all languages have, and the error when that is empty. get is nil for
// other names.
func subject(group, name string) (get func(*Run) string, missing string) {
	field := userFields[name]
	switch {
	case group == "" && name == "tenant_id":
		return func(r *Run) string { return r.Values.TenantID() }, "tenant_id is missing: the request has no tenant"
	case group != "user" || field == nil:
		return nil, ""
	}
	return func(r *Run) string {
		if u := r.Values.User(); u != nil {
			return field(u)
		}
		return ""
	}, "user." + name + " is missing: the request has no user, or the user's field is empty"
}

// FunctionNames lists the functions that there are, sorted.
func (l *Language) FunctionNames() []string {
	var names []string
	for name, f := range functions {
		if (f.templates || l.Bodies) && (name != "get_secret" || !l.Bodies) {
			names = append(names, name)
		}
	}
	if l.Bodies {
		names = slices.AppendSeq(names, maps.Keys(rounds))
	}
	slices.Sort(names)
	return names
}

// kindName names a kind in a problem.
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
