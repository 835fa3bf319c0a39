package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/importer"
)

// importRounds limits the rounds of imports, because each is long.
const importRounds = 3

// importRows returns the rows for importing a file into an empty database. The goal is a minute for 100,000 records.
func importRows(databases contents) []row {
	var all []row
	for _, d := range databases {
		records := d.community.articles / 10
		most := time.Minute * time.Duration(records) / 100_000
		bound := nanoseconds.format(float64(most))
		all = append(all, row{
			work: fmt.Sprintf("import of %s records into %s: time ÷ %s", thousands(records), d.name, bound), against: bound, unit: nanoseconds, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) {
				s.count = min(s.count, importRounds)
				return d.imports(ctx, s, records, most)
			},
		})
	}
	return all
}

func (d *contentServer) imports(ctx context.Context, s session, records int, most time.Duration) (result, error) {
	directory, err := os.MkdirTemp("", "keywright-bench-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "records.ndjson")
	if err := writeRecords(path, d.community, records); err != nil {
		return result{}, err
	}
	measured, err := s.bound(ctx, float64(most), func() (float64, error) {
		took, err := d.importOnce(ctx, path, records)
		return float64(took), err
	})
	measured.note = fmt.Sprintf("%s records a second, in %d rounds.", thousands(int(float64(records)/measured.ours*float64(time.Second))), s.count)
	return measured, err
}

// importOnce imports a file into a new database. It returns the time of the import alone.
func (d *contentServer) importOnce(ctx context.Context, path string, records int) (took time.Duration, err error) {
	db, err := d.engine.create(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.remove(ctx)) }()
	store, err := db.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	begin := time.Now()
	imported, err := importer.Import(ctx, store, path, file, importer.Options{})
	took = time.Since(begin)
	if err == nil && (imported.Written() != records || imported.Problems > 0) {
		err = fmt.Errorf("of %d records, %d were imported, with %d problems", records, imported.Written(), imported.Problems)
	}
	return took, err
}

// writeRecords writes the first records of a community, as NDJSON.
func writeRecords(path string, c community, records int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	lines := json.NewEncoder(buffered)
	n := 0
	for record := range c.records() {
		if n++; n > records {
			break
		}
		if err := lines.Encode(importable(record)); err != nil {
			return err
		}
	}
	return errors.Join(buffered.Flush(), file.Close())
}

// importable returns a record with its type, in the form that the importer reads.
func importable(r content.Record) any {
	switch {
	case r.ProductUpdate != nil:
		return struct {
			Type string `json:"type"`
			*content.ProductUpdate
		}{"productUpdate", r.ProductUpdate}
	case r.Article != nil:
		return struct {
			Type string `json:"type"`
			*content.Article
		}{"article", r.Article}
	}
	return struct {
		Type      string `json:"type"`
		ArticleID string `json:"articleId"`
		*content.Reply
	}{"reply", r.ArticleID, r.Reply}
}
