package transform

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
)

// place is where an expression stands, which decides what it may name.
type place uint8

const (
	inRequest place = 1 << iota
	inResponse
	inFilter

	everywhere = inRequest | inResponse | inFilter
	answered   = inResponse | inFilter
)

// input is a value that an expression may name.
type input struct {
	where place
	kind  any // a function of the kind of the value: func() string and so on
	get   func(*run) (any, error)
	// missing is the error when the value is empty text, except where default replaces it; "" when it may be empty.
	missing string
}

type (
	textInput   = func(any, bool) string
	numberInput = func(any, bool) int
	anyInput    = func(any, bool) any
)

func inputs() map[string]input {
	all := map[string]input{
		"tenant_id": {
			everywhere, textInput(nil), func(r *run) (any, error) { return r.user.TenantID, nil },
			"tenant_id is missing: the request has no tenant",
		},
		"body_text": {
			everywhere, textInput(nil), (*run).bodyText,
			"",
		},
		"request.method":       {everywhere, textInput(nil), func(r *run) (any, error) { return r.in.Request.Method, nil }, ""},
		"request.path":         {everywhere, textInput(nil), func(r *run) (any, error) { return r.in.Request.Path, nil }, ""},
		"response.status_code": {answered, numberInput(nil), func(r *run) (any, error) { return r.in.Response.StatusCode, nil }, ""},
		"response.body": {
			answered, anyInput(nil), (*run).responseBody,
			"",
		},
		"record": {inFilter, anyInput(nil), func(r *run) (any, error) { return r.record, nil }, ""},
	}
	for name, field := range userFields {
		all["user."+name] = input{
			everywhere, textInput(nil), func(r *run) (any, error) { return field(&r.user), nil },
			"user." + name + " is missing: the request has no user, or the user's field is empty",
		}
	}
	return all
}

var userFields = map[string]func(*host.User) string{
	"email":      func(u *host.User) string { return u.Email },
	"id":         func(u *host.User) string { return u.ID },
	"username":   func(u *host.User) string { return u.Username },
	"first_name": func(u *host.User) string { return u.FirstName },
	"last_name":  func(u *host.User) string { return u.LastName },
}

// family is a set of texts that have names of their own: request.query.page, response.headers['ETag'].
type family struct {
	where     place
	canonical func(string) string
	get       func(*run) map[string][]string
	all       bool // all of the values, as a list; otherwise the first
}

func families() map[string]family {
	query := func(r *run) map[string][]string { return r.in.Request.Query }
	sent := func(r *run) map[string][]string { return r.in.Request.Header }
	answer := func(r *run) map[string][]string { return r.in.Response.Header }
	same := func(name string) string { return name }
	return map[string]family{
		"request.query":          {everywhere, same, query, false},
		"request.query_values":   {everywhere, same, query, true},
		"request.headers":        {everywhere, http.CanonicalHeaderKey, sent, false},
		"request.header_values":  {everywhere, http.CanonicalHeaderKey, sent, true},
		"response.headers":       {answered, http.CanonicalHeaderKey, answer, false},
		"response.header_values": {answered, http.CanonicalHeaderKey, answer, true},
	}
}

// value returns null when there is nothing of the name: an empty text could be equal to one that means something.
func (f family) value(r *run, name string) any {
	values := f.get(r)[name]
	switch {
	case f.all:
		return r.list(values)
	case len(values) == 0:
		return nil
	}
	return values[0]
}

var (
	allInputs   = inputs()
	allFamilies = families()

	// validName is the shape of the names of variables.
	validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// groups are names that are no values, but have some below them.
func isGroup(name string) bool { return name == "user" || name == "request" || name == "response" }

// available lists what can be named at a place: values below a group, or the names without a dot when group is "".
func available(where place, group string) []string {
	var names []string
	add := func(name string, there place) {
		if there&where == 0 {
			return
		}
		above, field, dotted := strings.Cut(name, ".")
		switch {
		case group != "" && dotted && above == group:
			names = append(names, field)
		case group == "":
			names = append(names, above)
		}
	}
	for name, in := range allInputs {
		add(name, in.where)
	}
	for name, f := range allFamilies {
		add(name, f.where)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func functionNames() []string {
	names := slices.Collect(maps.Keys(functions))
	names = append(names, "default", "get_variable")
	names = slices.AppendSeq(names, maps.Keys(builtins))
	slices.Sort(names)
	return names
}

// suggest returns the name that was probably meant, or all that there are.
func suggest(name string, known []string) string {
	if meant, ok := problem.Nearest(name, known); ok {
		return "did you mean " + meant + "?"
	}
	return "there are " + strings.Join(known, ", ")
}
