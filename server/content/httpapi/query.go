package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const moderatorID = "moderatorId"

// query is the query of a request. The methods that read a parameter record what is wrong with it. Unknown parameters
// are ignored.
type query struct {
	values map[string][]value
	wrong  []fieldProblem
}

// value is a value of a parameter. broken reports whether its percent-encoding is invalid.
type value struct {
	text   string
	broken bool
}

// parseQuery parses a query. Unlike url.ParseQuery it keeps values with an invalid percent-encoding, so that the
// problem can name their parameter.
func parseQuery(raw string) *query {
	q := &query{values: map[string][]value{}}
	for pair := range strings.SplitSeq(raw, "&") {
		name, text, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			continue // no operation has a parameter of this name
		}
		text, err = url.QueryUnescape(text)
		q.values[name] = append(q.values[name], value{text, err != nil})
	}
	return q
}

func (q *query) contains(name string) bool { return len(q.values[name]) > 0 }

func (q *query) note(name, detail string) {
	q.wrong = append(q.wrong, fieldProblem{name, detail})
}

// problem returns an error that lists the invalid parameters, or nil.
func (q *query) problem() error {
	if len(q.wrong) == 0 {
		return nil
	}
	return &httpProblem{status: http.StatusUnprocessableEntity, kind: "invalid-parameters", detail: "some parameters are not what they must be", fields: q.wrong}
}

// one returns the value of a parameter. ok is false if the parameter is absent, repeated or malformed.
func (q *query) one(name string) (text string, ok bool) {
	switch values := q.values[name]; {
	case len(values) == 0:
		return "", false
	case len(values) > 1:
		q.note(name, "this is given more than once")
	case values[0].broken:
		q.note(name, "the percent-encoding is broken: write %25 for a %")
	default:
		return values[0].text, true
	}
	return "", false
}

// text returns the value of a parameter that may have any value, or "".
func (q *query) text(name string) string {
	text, _ := q.one(name)
	return text
}

func (q *query) boolean(name string) bool {
	text, ok := q.one(name)
	if ok && text != "true" && text != "false" {
		q.note(name, "this must be true or false")
	}
	return text == "true"
}

// bounds limits an integer parameter to minimum … maximum. missing is its default.
type bounds struct{ minimum, maximum, missing int64 }

func (q *query) integer(name string, b bounds) int64 {
	text, ok := q.one(name)
	if !ok {
		return b.missing
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		q.note(name, "this must be an integer, in decimal digits only")
		return b.missing
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // the text has digits only, so the number is too large
		number = math.MaxInt64
	}
	switch {
	case number >= b.minimum && number <= b.maximum:
	case b.maximum == math.MaxInt64:
		q.note(name, fmt.Sprintf("this must be at least %d", b.minimum))
	default:
		q.note(name, fmt.Sprintf("this must be from %d to %d", b.minimum, b.maximum))
	}
	return number
}
