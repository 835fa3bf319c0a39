package sqlstore

import (
	"database/sql"
	"fmt"
	"reflect"
	"testing"
)

// chunksOf returns chunks with these numbers of articles. Their ends have descending ids. The last is "1".
func chunksOf(articles ...int64) []span {
	all := make([]span, len(articles))
	for i, n := range articles {
		all[i] = span{key{id: fmt.Sprint(len(articles) - i)}, n}
	}
	return all
}

func articlesOf(all []span) []int64 {
	var counts []int64
	for _, s := range all {
		counts = append(counts, s.articles)
	}
	return counts
}

// Neighbouring chunks are merged if the result is at most half full.
func TestMergedChunks(t *testing.T) {
	l := limits{articles: 10, chunks: 4}
	for _, test := range []struct{ chunks, want []int64 }{
		{[]int64{2, 3}, []int64{5}},
		{[]int64{2, 4}, []int64{2, 4}},
		{[]int64{1, 1, 1, 3, 1}, []int64{3, 4}},
		{[]int64{10}, []int64{10}},
	} {
		if got := articlesOf(l.merge(chunksOf(test.chunks...))); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v become %v, want %v", test.chunks, got, test.want)
		}
	}
}

// A section has at most limits.chunks chunks. It ends where an old one did, unless it would be less than a quarter full.
func TestSectionsOfChunks(t *testing.T) {
	l := limits{articles: 10, chunks: 8}
	chunks := chunksOf(1, 1, 1, 1, 1, 1, 1, 1, 1, 1) // with the ends 10, 9, … 1
	for _, test := range []struct {
		old  []string
		want []int64
	}{
		{nil, []int64{8, 2}},
		{[]string{"9"}, []int64{2, 8}},
		{[]string{"10"}, []int64{8, 2}},
		{[]string{"8", "7"}, []int64{3, 7}},
		{[]string{"5"}, []int64{6, 4}},
		{[]string{"5", "4", "3"}, []int64{6, 2, 2}},
	} {
		var old []span
		for _, id := range test.old {
			old = append(old, span{end: key{id: id}})
		}
		if got := articlesOf(l.sections(chunks, old)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("with the old ends %v, sections have %v, want %v", test.old, got, test.want)
		}
	}
}

// SelectArticles is the statement that reads a page.
var SelectArticles = selectArticles

// The statements that read records for content.Everybody.
const (
	SelectShownProductUpdate = selectShownProductUpdate
	SelectShownReply         = selectShownReply
)

// SmallChunks makes a store split and merge chunks of a few articles, and sections of a few chunks.
func (s *Store) SmallChunks() { s.limits = limits{articles: 6, chunks: 4} }

// Reads returns the database for reading.
func (s *Store) Reads() *sql.DB { return s.config.Reads }

// OneConnection returns the database for writing, and limits it to one connection.
func (s *Store) OneConnection() *sql.DB {
	s.config.Writes.SetMaxOpenConns(1)
	return s.config.Writes
}
