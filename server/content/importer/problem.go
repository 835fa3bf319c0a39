package importer

import "github.com/keywright/keywright/internal/problem"

// Problem describes what is wrong in an input. It never quotes more of the input than a name.
type Problem struct {
	// File is the name that was passed to [Import].
	File string
	// Line and Column start at 1. Column counts characters.
	Line   int
	Column int
	// Path is the path of the value in the record, such as author.reputation.likesReceived. It is "" for the record
	// itself.
	Path string
	// Message says what is wrong and what to do.
	Message string
}

// String returns the problem as a line: file:line:column: path: message.
func (p Problem) String() string {
	return p.File + ":" + problem.Problem{Line: p.Line, Column: p.Column, Path: p.Path, Message: p.Message}.String()
}

// inputError is the error of a part of the input that is not a record.
type inputError struct {
	problem.Problem
	// record reports that exactly one record is lost.
	record bool
}

func (e *inputError) Error() string { return e.String() }
