package records_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// open returns a store in a file of SQLite with state keys.
func open(t *testing.T, path string, keys ...string) *records.Store {
	t.Helper()
	db := testworld.Must(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
	config := host.StateConfig{Store: db}
	for _, key := range keys {
		config.Keys = append(config.Keys, []byte(key))
	}
	state := testworld.Must(host.NewState(t.Context(), config))(t)
	t.Cleanup(func() { _ = errors.Join(state.Close(context.Background()), db.Close()) })
	return &records.Store{Records: db, State: state}
}

const oneKey, newKey = "a state key of 32 bytes, for all", "another state key of 32 bytes..."

type visit struct{ ID, Place string }

var visits = records.Table[visit]{
	Kind: statedb.KindAct, Key: func(v visit) []string { return []string{v.ID} },
	Tags: func(v visit) (tags [statedb.Tags][]string) {
		tags[1] = []string{v.Place}
		return tags
	},
	Mark: func(v visit) int16 { return int16(len(v.ID)) },
}

// Pages of records join to the whole list, and each record is found by its key and by its ID.
func TestTable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "state.db"), oneKey)
	for n := range 25 {
		testworld.Check(t, visits.Put(t.Context(), s, visit{fmt.Sprint(n), []string{"a", "b"}[n%2]}))
	}
	ids, cursor := "", ""
	for pages := 0; pages < 9; pages++ {
		var entries []records.Entry[visit]
		var err error
		if entries, cursor, err = visits.List(t.Context(), s, records.Query{Place: 1, Parts: []string{"a"}}, cursor, 5); err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if found, ok, err := visits.GetID(t.Context(), s, entry.ID); err != nil || !ok || found.Value != entry.Value {
				t.Errorf("the record %s: %+v, %t, %v", entry.ID, found, ok, err)
			}
			ids += entry.Value.ID + " "
		}
		if cursor == "" {
			break
		}
	}
	if want := "24 22 20 18 16 14 12 10 8 6 4 2 0 "; ids != want {
		t.Errorf("list = %s, want %s", ids, want)
	}
	counts := map[string]int{}
	testworld.Check(t, visits.Count(t.Context(), s, 1, []string{"a", "none"}, func(tag string, mark int16, n int) { counts[fmt.Sprint(tag, mark)] = n }))
	if got := fmt.Sprint(counts); got != "map[a1:5 a2:8]" {
		t.Errorf("counts = %s", got)
	}
	if _, _, err := visits.List(t.Context(), s, records.Query{}, "x", 5); !errors.Is(err, records.ErrCursor) {
		t.Errorf("a made-up cursor: %v", err)
	}
	testworld.Check(t, visits.Delete(t.Context(), s, "3"))
	if _, ok, err := visits.Get(t.Context(), s, "3"); err != nil || ok {
		t.Errorf("a deleted record: %t, %v", ok, err)
	}
}

// A new state key seals all records, and the old one is no longer needed.
func TestRekey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	old := open(t, path, oneKey)
	for n := range 250 {
		testworld.Check(t, visits.Put(t.Context(), old, visit{fmt.Sprint(n), strings.Repeat("long ", 500)}))
	}
	last := visits
	last.Kind = statedb.KindFile // of the kind that is the newest
	testworld.Check(t, last.Put(t.Context(), old, visit{"last", ""}))
	both := open(t, path, newKey, oneKey)
	var counts, second host.Rekeyed
	testworld.Check(t, records.Rekey(t.Context(), both, &counts))
	testworld.Check(t, records.Rekey(t.Context(), both, &second))
	if counts.Sealed != 251 || second.Sealed != 0 || second.Current != 251 || second.Unopened != 0 {
		t.Errorf("counts = %+v, then %+v", counts, second)
	}
	testworld.Must(both.State.Rekey(t.Context()))(t)
	if found, ok, err := visits.Get(t.Context(), open(t, path, newKey), "7"); err != nil || !ok || found.Value.ID != "7" {
		t.Errorf("with the new key: %+v, %t, %v", found, ok, err)
	}
}
