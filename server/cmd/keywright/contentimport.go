package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/importer"
)

func contentImportCommand(a *app) *cobra.Command {
	var db databaseFlags
	var o importer.Options
	c := &cobra.Command{
		Use:   "import [--db URL] [--dry-run] [--ignore-unknown] FILE...",
		Short: "Import records from files of NDJSON or JSON arrays",
		Long: "Imports the records of a community into a database: product updates, articles, replies and moderators, as NDJSON (a record " +
			"on each line) or as a JSON array of records. A record has the fields that the interface gives, and \"type\": productUpdate, article, " +
			"reply (with \"articleId\") or moderator (only an \"id\"). A field that is absent or null has its empty value. FILE is - for stdin.\n\n" +
			"A record replaces the one of the same type and id, so that importing again does no harm. A record of a type, an id and " +
			"\"deleted\": true removes that one instead, and with an article its replies. Everything that is wrong with a record is " +
			"told on stderr as FILE:LINE:COLUMN, and only that record is left out; the exit code is 1 then. A JSON array in which a comma or a " +
			"bracket is wrong cannot be read any further from there.\n\n" +
			"A URL with a password is better set in the environment variable " + contentDB + ", which counts where --db is not given: other users " +
			"of this machine can see the command line.",
		Args: someFiles,
		RunE: func(c *cobra.Command, files []string) error {
			if o.DryRun {
				return a.importFiles(c, nil, files, o)
			}
			store, err := db.open(a, c)
			if err != nil {
				return err
			}
			err = a.importFiles(c, store, files, o)
			return errors.Join(err, store.Close())
		},
	}
	db.add(c, ", which is made if it is not there")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only read and check, without a database")
	c.Flags().BoolVar(&o.IgnoreUnknown, "ignore-unknown", false, "leave out members that are not known, as a dump of another program has them, in place of the records that have them")
	return c
}

// importFiles imports files, and continues after a file with problems. If w is nil, it only checks them.
func (a *app) importFiles(c *cobra.Command, w content.Writer, files []string, o importer.Options) error {
	var failed error
	for _, file := range files {
		in, size, err := a.input(file)
		if err != nil {
			a.printErr("keywright: %v", err)
			failed = errReported
			continue
		}
		result, err := a.importFile(c.Context(), w, file, in, size, o)
		_ = in.Close()
		if err != nil {
			a.printErr("keywright: %v", err)
		}
		if err != nil || result.Problems > 0 {
			failed = errReported
		}
		a.imported(file, w == nil, result)
		if err := a.out.Err(); err != nil {
			return err
		}
		if c.Context().Err() != nil {
			break
		}
	}
	return failed
}

// imported writes the result of the import of a file.
func (a *app) imported(file string, dryRun bool, r importer.Result) {
	done := "written"
	if dryRun {
		done = "checked, not written"
	}
	line := fmt.Sprintf("%s: %s: product updates %d, articles %d, replies %d, moderators %d; deleted %d; bad records %d",
		file, done, r.ProductUpdates, r.Articles, r.Replies, r.Moderators, r.Deleted, r.Bad)
	if r.Unknown > 0 {
		line += fmt.Sprintf("; unknown members left out of %d", r.Unknown)
	}
	a.out.Line("%s", line)
}

// input opens a file, or stdin for "-". The size is in bytes, and -1 if it is unknown.
func (a *app) input(name string) (in io.ReadCloser, size int64, err error) {
	if name == "-" {
		return io.NopCloser(a.in), -1, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file, -1, err
	}
	return file, info.Size(), nil
}

func (a *app) importFile(ctx context.Context, w content.Writer, name string, in io.Reader, size int64, o importer.Options) (importer.Result, error) {
	bar := a.progress(filepath.Base(name), size)
	defer bar.end()
	o.Problem = func(p importer.Problem) {
		bar.hide()
		a.printErr("%s", p)
	}
	o.Progress = func(r importer.Result) { bar.set(r.Bytes) }
	return importer.Import(ctx, w, name, in, o)
}

// progress is a progress bar in a terminal. Elsewhere it does nothing.
type progress struct{ bar *progressbar.ProgressBar }

// progress starts a bar for a file. The size is in bytes, and -1 if it is unknown.
func (a *app) progress(name string, size int64) progress {
	width := a.err.Columns()
	if width == 0 {
		return progress{}
	}
	return progress{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(a.err.Writer),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(max(width-len(name)-60, 5)), // leaves room for the text beside the bar
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSpinnerCustom([]string{"|", "/", "-", `\`}),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p progress) set(bytes int64) {
	if p.bar != nil {
		_ = p.bar.Set64(bytes)
	}
}

// hide removes the bar, so that a line can be written. The bar is shown again at the next step.
func (p progress) hide() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
