// Package importer reads the records of a community from NDJSON or from a JSON array, checks them, and writes the good
// ones. It holds a few batches of records in memory, regardless of the size of the input.
//
// A record is a JSON object. Its "type" is productUpdate, article, reply or moderator. It has the fields of specification.md 6.11; a reply
// also has the "articleId" of its article, and a moderator has only an "id". Each "id" must pass [content.CheckID]. A record replaces an
// earlier one of the same type and id; ids of replies count within their article. A field or an element of a list that is absent or null
// has its empty value. A record with "deleted": true removes the one of its type and id, and has no field besides.
//
// Records that have "type" as their first member are read fastest.
package importer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/content"
)

// Limits of a batch. It ends when it reaches the first of them. batchBytes counts bytes of the input.
const (
	batchRecords  = 1000
	batchBytes    = 4 << 20
	batchProblems = 1000
)

// maxRecord is the maximum length of a record in bytes: a page of a hundred must fit in memory.
const maxRecord = 2 << 20

// Options configures [Import]. Import calls its functions in the caller's goroutine.
type Options struct {
	// DryRun only reads and checks. The writer is not used and may be nil.
	DryRun bool
	// IgnoreUnknown leaves out unknown members, in place of the records that have them, except records to be deleted.
	IgnoreUnknown bool
	// If not nil, Problem is called for each problem, in the order of the input.
	Problem func(Problem)
	// If not nil, Progress is called after each batch with the result so far.
	Progress func(Result)
}

// Result is the result of an import.
type Result struct {
	// The numbers of records that were written, or, in a dry run, would have been.
	ProductUpdates, Articles, Replies, Moderators int
	// Deleted counts the records that say what to delete, whether or not it was there.
	Deleted int

	// Unknown counts the written records of which members were left out.
	Unknown int
	// Bad counts the records that were not written because of their problems.
	Bad int
	// Problems counts the problems that were reported.
	Problems int
	// Lines and Bytes count what was read.
	Lines int
	Bytes int64
}

// Written returns the number of records that were written, with those that say what to delete.
func (r *Result) Written() int {
	return r.ProductUpdates + r.Articles + r.Replies + r.Moderators + r.Deleted
}

// Import reads all of r and writes the good records in batches, in their order. name is the name of r in problems and errors.
//
// Bad records are not an error: Import counts them and calls [Options.Problem]. It returns an error if the writer or r
// fails, or if ctx ends. Error and result state what was written before. It is safe to import the same input again,
// since records replace those of the same id. If ctx ends during a read of r, Import does not wait for the read.
func Import(ctx context.Context, w content.Writer, name string, r io.Reader, o Options) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan *batch)
	in := &input{name: name, place: problem.Place{Line: 1, Column: 1}, ignoreUnknown: o.IgnoreUnknown}
	in.r = bufio.NewReaderSize(&untilError{r: r}, 256<<10)
	go read(ctx, in, batches)
	var result Result
	for {
		var b *batch
		select {
		case <-ctx.Done():
			return result, stopped(name, fmt.Sprintf("the import ended after line %d", result.Lines), context.Cause(ctx), &result, o)
		case b = <-batches:
		}
		result.Bad += b.bad
		result.Problems += len(b.problems)
		for _, p := range b.problems {
			if o.Problem != nil {
				o.Problem(p)
			}
		}
		if !o.DryRun && len(b.records) > 0 {
			if err := w.Write(ctx, b.records); err != nil {
				return result, stopped(name, fmt.Sprintf("the records of lines %d to %d were not written", b.first, b.lines), err, &result, o)
			}
		}
		b.count(&result)
		if o.Progress != nil {
			o.Progress(result)
		}
		switch {
		case errors.Is(b.err, io.EOF):
			return result, nil
		case b.err != nil:
			return result, stopped(name, fmt.Sprintf("reading failed in line %d", b.line), b.err, &result, o)
		}
	}
}

func stopped(name, what string, err error, r *Result, o Options) error {
	then := "are written, and importing all of it again does no harm"
	if o.DryRun {
		then = "could be written"
	}
	return fmt.Errorf("%s: %s: %w; the good records before, %d, %s", name, what, err, r.Written(), then)
}

// batch holds the records of one call of the writer, and the position in the input after them.
type batch struct {
	records  []content.Record
	problems []Problem
	bad      int
	// unknown counts the records of which members were left out.
	unknown int
	first   int
	// lines and bytes count the input up to the end of the batch.
	lines int
	bytes int64
	line  int
	// err is the reason why this is the last batch: io.EOF or an error of the reader.
	err error
}

func (b *batch) count(r *Result) {
	for i := range b.records {
		switch record := &b.records[i]; {
		case record.Deleted:
			r.Deleted++
		case record.ProductUpdate != nil:
			r.ProductUpdates++
		case record.Article != nil:
			r.Articles++
		case record.Reply != nil:
			r.Replies++
		default:
			r.Moderators++
		}
	}
	r.Unknown += b.unknown
	r.Lines, r.Bytes = b.lines, b.bytes
}

// read sends the batches of an input until it or ctx ends. It reads one batch ahead of the writer.
func read(ctx context.Context, in *input, batches chan<- *batch) {
	for last := false; !last; {
		b := in.batch()
		last = b.err != nil
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
	}
}

func (in *input) batch() *batch {
	b := &batch{}
	begin := in.bytes
	for b.err == nil && len(b.records) < batchRecords && len(b.problems) < batchProblems && in.bytes-begin < batchBytes {
		text, err := in.next()
		switch bad, ok := errors.AsType[*inputError](err); {
		case ok:
			in.add(b, bad.Problem)
			if bad.record {
				b.bad++
			}
		case err != nil:
			b.err = err
		default:
			b.first = cmp.Or(b.first, in.start.Line)
			in.record(b, text)
		}
	}
	b.lines, b.line, b.bytes = in.lines(), in.place.Line, in.bytes
	return b
}

func (in *input) record(b *batch, text []byte) {
	record, err := decode(text, strict)
	if err != nil && in.ignoreUnknown {
		if record, err = decode(text); err == nil {
			b.unknown++
		}
	}
	if err == nil {
		b.records = append(b.records, record)
		in.good++
		return
	}
	b.bad++
	problems, broken := diagnose(text, in.start, in.ignoreUnknown)
	switch {
	case broken && in.array:
		in.done = true
		if problems[0].Code == moreAfter {
			problems[0].Message += ": a comma has to come between records"
		}
		problems[0].Message += in.endOfArray()
	case broken:
		problems[0].Message += "; each line has to be one record"
	}
	in.add(b, problems...)
}

func (in *input) add(b *batch, problems ...problem.Problem) {
	for _, p := range problems {
		b.problems = append(b.problems, Problem{in.name, p.Line, p.Column, p.Path, p.Message})
	}
}

// Problem describes what is wrong in an input. It never quotes more of the input than a name.
type Problem struct {
	// File is the name that was passed to [Import].
	File string
	// Line and Column start at 1. Column counts characters.
	Line   int
	Column int
	// Path is the path of the value, such as author.reputation.likesReceived. It is "" for the record itself.
	Path string
	// Message says what is wrong and what to do.
	Message string
}

// String returns the problem as a line: file:line:column: path: message.
func (p Problem) String() string {
	return p.File + ":" + problem.Problem{Line: p.Line, Column: p.Column, Path: p.Path, Message: p.Message}.String()
}

type inputError struct {
	problem.Problem
	// record reports that exactly one record is lost.
	record bool
}

func (e *inputError) Error() string { return e.String() }
