// Package importer reads the records of a community from NDJSON or from a JSON array, checks them, and writes the good
// ones. It takes memory for some batches of records, whatever the size of the input.
//
// A record is an object. It has "type", which is productUpdate, article, reply (then "articleId" names its article) or
// moderator (which has only an "id"), and the fields of specification.md 6.11. Each has an "id", as [content.CheckID] wants
// it; a later record of the same id replaces the one before. A field that is absent or null has its empty value, as has an
// element of a list that is null.
//
// A record that puts "type" first is read in the shortest time.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/content"
)

// What is written at once ends with the first of these that is reached.
const (
	batchRecords  = 1000
	batchBytes    = 4 << 20
	batchProblems = 1000
)

// maxRecord is how many bytes a record may have: a page of a hundred is in memory as a whole when it is served.
const maxRecord = 2 << 20

// Options say how to import. The functions are called in the goroutine that calls [Import], and may be nil.
type Options struct {
	DryRun   bool          // only read and check: the writer is not asked, and may be nil
	Problem  func(Problem) // is called for everything that is wrong, in the order of the input
	Progress func(Result)  // is called after each batch, with what has been done until then
}

// Result is the outcome of an import.
type Result struct {
	ProductUpdates, Articles, Replies, Moderators int // written; in a dry run, what would have been

	Bad      int   // records that were not written because of their problems
	Problems int   // all that were reported
	Lines    int   // read
	Bytes    int64 // read
}

// Written is how many records were written.
func (r *Result) Written() int { return r.ProductUpdates + r.Articles + r.Replies + r.Moderators }

// Import reads all of r, and writes its good records in batches, in the order they come in. The name of what is read
// stands in problems and errors.
//
// Bad records are no error: they are told of to [Options.Problem] and counted. An error is what ended the import: the
// writer or r failed, or the context ended. It says what was written until then, as the result does. Importing the same
// again after an error is safe, since records replace those of the same id. A read that is under way when the context
// ends is not waited for.
func Import(ctx context.Context, w content.Writer, name string, r io.Reader, o Options) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan *batch)
	go read(ctx, name, r, batches)
	var result Result
	for {
		var b *batch
		select {
		case <-ctx.Done():
			return result, stopped(name, fmt.Sprintf("the import ended after line %d", result.Lines), context.Cause(ctx), &result, o)
		case b = <-batches:
		}
		b.tell(&result, o)
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

// stopped is the error of an import that did not come to its end.
func stopped(name, what string, err error, r *Result, o Options) error {
	then := "are written, and importing all of it again does no harm"
	if o.DryRun {
		then = "could be written"
	}
	return fmt.Errorf("%s: %s: %w; the good records before, %d, %s", name, what, err, r.Written(), then)
}

// batch holds the records that are written at once, and how far the input was read for them.
type batch struct {
	records  []content.Record
	problems []Problem
	bad      int
	first    int   // the line of its first record
	lines    int   // of the input until its end
	line     int   // where its end is
	bytes    int64 // of the input until its end
	err      error // why it is the last
}

// tell reports what is wrong in a batch.
func (b *batch) tell(r *Result, o Options) {
	r.Bad += b.bad
	r.Problems += len(b.problems)
	if o.Problem != nil {
		for _, p := range b.problems {
			o.Problem(p)
		}
	}
}

// count adds to a result what was written of a batch.
func (b *batch) count(r *Result) {
	for i := range b.records {
		switch record := &b.records[i]; {
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
	r.Lines, r.Bytes = b.lines, b.bytes
}

// read makes batches of what it reads, one ahead of what is written, until the input or the context ends.
func read(ctx context.Context, name string, r io.Reader, batches chan<- *batch) {
	in := newInput(name, r)
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

// batch reads the next one.
func (in *input) batch() *batch {
	b := &batch{}
	begin := in.bytes
	for b.err == nil && len(b.records) < batchRecords && len(b.problems) < batchProblems && in.bytes-begin < batchBytes {
		text, err := in.next()
		switch f, ok := errors.AsType[*flaw](err); {
		case ok:
			in.add(b, f.Problem)
			if f.record {
				b.bad++
			}
		case err != nil:
			b.err = err
		default:
			if b.first == 0 {
				b.first = in.start.Line
			}
			in.record(b, text)
		}
	}
	b.lines, b.line, b.bytes = in.lines(), in.at.Line, in.bytes
	return b
}

// record adds a record to a batch, or what is wrong with it.
func (in *input) record(b *batch, text []byte) {
	record, err := decode(text)
	if err == nil {
		b.records = append(b.records, record)
		in.good++
		return
	}
	b.bad++
	problems, broken := diagnose(text, in.start)
	switch {
	case broken && in.array:
		in.ended = true
		if strings.HasSuffix(problems[0].Message, moreAfter) {
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
