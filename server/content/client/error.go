package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// Error is an answer other than 200. For 404, errors.Is finds [content.ErrNotFound] in it.
type Error struct {
	Status int
	Type   string // of the problem, RFC 9457: a URI that tells problems apart; "" when the answer was none
	Detail string // for people, as the server wrote it
	Fields []FieldError
}

// FieldError is a problem of one parameter that a server has found.
type FieldError struct {
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "content client: the answer is %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %q", e.Detail)
	}
	for _, field := range e.Fields {
		fmt.Fprintf(&b, "; %q: %q", field.Parameter, field.Detail)
	}
	return b.String()
}

// Is lets errors.Is find [content.ErrNotFound].
func (e *Error) Is(target error) bool {
	return target == content.ErrNotFound && e.Status == http.StatusNotFound
}

// refusal is the error of an answer. One that has no problem document, such as that of a proxy, is an error with a status alone.
func refusal(status int, body []byte) *Error {
	var problem struct {
		Type   string       `json:"type"`
		Detail string       `json:"detail"`
		Errors []FieldError `json:"errors"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return &Error{Status: status}
	}
	return &Error{Status: status, Type: problem.Type, Detail: problem.Detail, Fields: problem.Errors}
}
