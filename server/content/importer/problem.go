package importer

import "github.com/keywright/keywright/internal/problem"

// Problem is something that is wrong with what is imported. It never quotes more of it than a name.
type Problem struct {
	File    string // as it was named to [Import]
	Line    int    // from 1
	Column  int    // from 1, in characters
	Path    string // in the record, such as author.reputation.likesReceived; "" is the record itself
	Message string // what is wrong, and what to do
}

// String is the problem in a line: file:line:column: path: message.
func (p Problem) String() string {
	return p.File + ":" + problem.Problem{Line: p.Line, Column: p.Column, Path: p.Path, Message: p.Message}.String()
}

// flaw is the error of an input that is no record.
type flaw struct {
	problem.Problem
	record bool // it is one record that is lost
}

func (f *flaw) Error() string { return f.String() }
