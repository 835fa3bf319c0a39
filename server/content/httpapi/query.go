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

// query is the query of a request. Asking for a parameter notes what is wrong with it; those that nobody asks for do not matter.
type query struct {
	values map[string][]value
	wrong  []fieldProblem
}

type value struct {
	text   string
	broken bool // its percent-encoding
}

// parseQuery differs from url.ParseQuery in that it keeps what is broken, and knows of which parameter it is.
func parseQuery(raw string) *query {
	q := &query{values: map[string][]value{}}
	for pair := range strings.SplitSeq(raw, "&") {
		name, text, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			continue // no parameter has such a name
		}
		text, err = url.QueryUnescape(text)
		q.values[name] = append(q.values[name], value{text, err != nil})
	}
	return q
}

func (q *query) has(name string) bool { return len(q.values[name]) > 0 }

func (q *query) note(name, detail string) {
	q.wrong = append(q.wrong, fieldProblem{name, detail})
}

// problem returns an error for the parameters that are wrong, or nil.
func (q *query) problem() error {
	if len(q.wrong) == 0 {
		return nil
	}
	return &httpProblem{status: http.StatusUnprocessableEntity, kind: "invalid-parameters", detail: "some parameters are not what they must be", fields: q.wrong}
}

// one returns the value of a parameter; ok is false when there is none, or not one that can be told.
func (q *query) one(name string) (text string, ok bool) {
	switch given := q.values[name]; {
	case len(given) == 0:
		return "", false
	case len(given) > 1:
		q.note(name, "this is given more than once")
	case given[0].broken:
		q.note(name, "the percent-encoding is broken: write %25 for a %")
	default:
		return given[0].text, true
	}
	return "", false
}

// text is a parameter that may have any value, or "".
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

type bounds struct{ least, most, missing int64 }

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
	if err != nil { // of digits: it is too large
		number = math.MaxInt64
	}
	switch {
	case number >= b.least && number <= b.most:
	case b.most == math.MaxInt64:
		q.note(name, fmt.Sprintf("this must be at least %d", b.least))
	default:
		q.note(name, fmt.Sprintf("this must be from %d to %d", b.least, b.most))
	}
	return number
}
