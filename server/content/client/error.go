package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// Error is a response with a status other than 200. If the status is 404, errors.Is finds [content.ErrNotFound] in it.
type Error struct {
	Status int
	// Type is the URI that identifies the kind of problem (RFC 9457). It is "" if the response was not a problem
	// document.
	Type string
	// Detail is the server's explanation for people.
	Detail string
	// Fields lists the invalid parameters.
	Fields []FieldError
}

// FieldError describes an invalid parameter, as reported by the server.
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

// Is reports whether target is [content.ErrNotFound] and the status is 404.
func (e *Error) Is(target error) bool {
	return target == content.ErrNotFound && e.Status == http.StatusNotFound
}

// refusal returns the error for a response other than 200. If the body is not a problem document, such as that of a
// proxy, the error has only a status.
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
