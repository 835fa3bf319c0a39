package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/internal/contentserver"
)

// contents holds the servers of the databases.
type contents []*contentServer

func newContents(articles int, progress io.Writer) contents {
	c := community{articles}
	return contents{
		{name: "SQLite", engine: &sqliteEngine{}, community: c, progress: progress},
		{name: "PostgreSQL", engine: &postgresEngine{}, community: c, progress: progress},
	}
}

func (c contents) close() error {
	var failed error
	for _, s := range c {
		failed = errors.Join(failed, s.close())
	}
	return failed
}

// A contentServer is a database with a community, and the server that "keywright content serve" runs for it. Both are created
// for the first row that needs them, and kept for the others.
type contentServer struct {
	name      string
	engine    engine
	community community
	progress  io.Writer

	// address is the URL of the server. It is empty until the server runs.
	address string
	// note describes how the database was filled.
	note string
	stop func() error
}

const (
	pageSize   = 25
	writeBatch = 1000 // records, as in the importer
)

// lastPage returns the number of the last page.
func (s *contentServer) lastPage() int { return s.community.articles / pageSize }

// work returns the description of the database for rows.
func (s *contentServer) work() string {
	return "content in " + s.name + ", " + thousands(s.community.articles) + " articles"
}

func (s *contentServer) pageWork(number int) string {
	return fmt.Sprintf("%s: page %s of %d", s.work(), thousands(number), pageSize)
}

// run fills the database and starts the server, unless it runs already.
func (s *contentServer) run(ctx context.Context) error {
	if s.address != "" {
		return nil
	}
	db, err := s.fill(ctx)
	if err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	store, err := db.open(ctx)
	if err != nil {
		return err
	}
	if err := s.serve(context.WithoutCancel(ctx), store); err != nil {
		return errors.Join(err, store.Close())
	}
	return s.check(ctx)
}

// fill creates and fills the database.
func (s *contentServer) fill(ctx context.Context) (database, error) {
	_, _ = fmt.Fprintf(s.progress, "%s: writing %s articles and what belongs to them\n", s.name, thousands(s.community.articles))
	db, err := s.engine.create(ctx)
	if err != nil {
		return nil, err
	}
	store, err := db.open(ctx)
	if err != nil {
		return nil, err
	}
	begin, written := time.Now(), 0
	for records := range batches(s.community, writeBatch) {
		if err := store.Write(ctx, records); err != nil {
			return nil, errors.Join(err, store.Close())
		}
		written += len(records)
	}
	took := time.Since(begin)
	if err := store.Close(); err != nil {
		return nil, err
	}
	octets, err := db.settle(ctx)
	s.note = fmt.Sprintf("%s: %s records were written in %.0f s. With what belongs to them, a million articles take %.0f MiB.",
		s.name, thousands(written), took.Seconds(), octets/(1<<20)*1e6/float64(s.community.articles))
	_, _ = fmt.Fprintln(s.progress, s.note)
	return db, err
}

// batches returns the records of a community in batches of size.
func batches(c community, size int) iter.Seq[[]content.Record] {
	return func(yield func([]content.Record) bool) {
		var batch []content.Record
		for record := range c.records() {
			if batch = append(batch, record); len(batch) == size {
				if !yield(batch) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// serve runs the server until close.
func (s *contentServer) serve(ctx context.Context, store content.Database) error {
	ctx, cancel := context.WithCancel(ctx)
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- contentserver.Run(ctx, contentserver.Config{
			Store: store, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
			Started: func(callers, _ string) { started <- callers },
		})
	}()
	select {
	case s.address = <-started:
		s.stop = func() error {
			cancel()
			return errors.Join(<-ended, store.Close())
		}
		return nil
	case err := <-ended:
		cancel()
		return err
	}
}

func (s *contentServer) close() error {
	var failed error
	if s.stop != nil {
		failed = s.stop()
	}
	return errors.Join(failed, s.engine.close())
}

// check returns an error unless the pages that are measured are full and have no article twice.
func (s *contentServer) check(ctx context.Context) error {
	client := newClient()
	defer client.CloseIdleConnections()
	seen := map[string]bool{}
	for _, number := range []int{1, s.lastPage() / 2, s.lastPage()} {
		var body bytes.Buffer
		if err := fetch(ctx, client, s.page(number)(), &body); err != nil {
			return err
		}
		var answer struct{ Result []content.Article }
		if err := json.Unmarshal(body.Bytes(), &answer); err != nil {
			return err
		}
		if len(answer.Result) != pageSize {
			return fmt.Errorf("page %d has %d articles", number, len(answer.Result))
		}
		for _, article := range answer.Result {
			if seen[article.ID] {
				return fmt.Errorf("article %s is on page %d and on another, or twice on it", article.ID, number)
			}
			seen[article.ID] = true
		}
	}
	return nil
}

func (s *contentServer) page(number int) target {
	return always(s.address + "/articles?page=" + strconv.Itoa(number))
}

// update returns the URL of a random product update.
func (s *contentServer) update() string {
	return s.address + "/productUpdates/" + updateID(rand.IntN(s.community.updates()))
}

// reply returns the URL of a random reply.
func (s *contentServer) reply() string {
	article, reply := s.community.replyOf(rand.IntN(s.community.articles))
	return s.address + "/articles/" + article + "/replies/" + reply
}
