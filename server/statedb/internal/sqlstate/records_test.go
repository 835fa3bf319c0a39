package sqlstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

func recordName(b byte) statedb.RecordName { return statedb.RecordName{0: b, 15: 1} }

// names returns the first bytes of the names of records.
func names(records []statedb.Record) (all []byte) {
	for _, r := range records {
		all = append(all, r.Name[0])
	}
	return all
}

// Records are listed by each tag, the newest first and page by page, and counted by tag and mark.
func TestRecords(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		tenant, user := recordName(200), recordName(201)
		for i := range byte(5) {
			r := statedb.Record{Name: recordName(i), Kind: statedb.KindConnection, Mark: int16(i % 2), Value: []byte{i}}
			r.Tags[0] = tenant
			if i >= 3 {
				r.Tags[2] = user
			}
			testworld.Check(t, store.PutRecords(t.Context(), r))
		}
		testworld.Check(t, store.PutRecords(t.Context(), statedb.Record{Name: recordName(9), Kind: statedb.KindAct, Value: []byte("act")}))
		list := func(l statedb.List) []statedb.Record {
			t.Helper()
			return testworld.Must(store.ListRecords(t.Context(), l))(t)
		}
		first := list(statedb.List{Kind: statedb.KindConnection, Name: tenant, Limit: 3})
		second := list(statedb.List{Kind: statedb.KindConnection, Name: tenant, Limit: 3, Last: &first[2]})
		ofUser := list(statedb.List{Kind: statedb.KindConnection, Tag: 2, Name: user, Limit: 3})
		marked := list(statedb.List{Kind: statedb.KindConnection, Name: tenant, Mark: 1, Limit: 9})
		all := list(statedb.List{Kind: statedb.KindConnection, Limit: 9})
		for what, lists := range map[string][2][]byte{
			"the first page": {names(first), {4, 3, 2}}, "the second page": {names(second), {1, 0}}, "those of a user": {names(ofUser), {4, 3}}, "those with a mark": {names(marked), {3, 1}}, "all": {names(all), {4, 3, 2, 1, 0}},
		} {
			if !slices.Equal(lists[0], lists[1]) {
				t.Errorf("%s: %v, want %v", what, lists[0], lists[1])
			}
		}
		counts := testworld.Must(store.CountRecords(t.Context(), statedb.KindConnection, 2))(t)
		slices.SortFunc(counts, func(a, b statedb.Count) int { return int(a.Tag[0])*2 + int(a.Mark) - int(b.Tag[0])*2 - int(b.Mark) })
		if want := []statedb.Count{{Mark: 0, Count: 2}, {Mark: 1, Count: 1}, {Tag: user, Count: 1}, {Tag: user, Mark: 1, Count: 1}}; !slices.Equal(counts, want) {
			t.Errorf("counts = %v, want %v", counts, want)
		}
	})
}

// A record that is written again is the new one alone. It is resealed only if nobody has written it meanwhile, and gone once it has
// expired or was deleted.
func TestRecordChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		name, tag := recordName(1), recordName(2)
		r := statedb.Record{Name: name, Kind: statedb.KindFailure, Value: []byte("first")}
		r.Tags[1] = tag
		testworld.Check(t, store.PutRecords(t.Context(), r))
		r.Tags[1], r.Value = statedb.RecordName{}, []byte("second")
		testworld.Check(t, store.PutRecords(t.Context(), r, statedb.Record{Name: recordName(3), Kind: statedb.KindFailure, Value: []byte("short"), Lifetime: time.Microsecond}))
		if found := testworld.Must(store.ListRecords(t.Context(), statedb.List{Kind: statedb.KindFailure, Tag: 1, Name: tag, Limit: 9}))(t); len(found) > 0 {
			t.Error("a tag that was taken away still leads to the record")
		}
		for _, try := range []struct {
			previous string
			ok       bool
		}{{"first", false}, {"second", true}} {
			if ok := testworld.Must(store.ResealRecord(t.Context(), name, []byte(try.previous), []byte("third")))(t); ok != try.ok {
				t.Errorf("%s was resealed: %t", try.previous, ok)
			}
		}
		if found, ok, err := store.Record(t.Context(), name); err != nil || !ok || string(found.Value) != "third" {
			t.Errorf("record = %s, ok = %t, err = %v", found.Value, ok, err)
		}
		if _, ok, err := store.Record(t.Context(), recordName(3)); err != nil || ok {
			t.Errorf("an expired record is there: %t, %v", ok, err)
		}
		if n := testworld.Must(store.Sweep(t.Context(), 10))(t); n != 1 {
			t.Errorf("%d records were swept, want 1", n)
		}
		testworld.Check(t, store.DeleteRecord(t.Context(), name))
		if _, ok, err := store.Record(t.Context(), name); err != nil || ok {
			t.Errorf("a deleted record is there: %t, %v", ok, err)
		}
	})
}

// A page of records is found by an index, not by reading all of them.
func TestRecordPlan(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t).(*sqlstate.Store)
		explain := "EXPLAIN QUERY PLAN "
		if db.name == "postgres" {
			explain = "EXPLAIN "
			db.exec(t, `INSERT INTO state_records (name, kind, written, mark, tag1, value) SELECT substr(sha256(n::text::bytea), 1, 16), 3, n, 0, sha256((n % 100)::text::bytea), '' FROM generate_series(1, 20000) AS n`)
			db.exec(t, `ANALYZE state_records`)
		}
		rows := testworld.Must(store.Reads().QueryContext(t.Context(), explain+store.RecordsQuery()))(t)
		defer rows.Close()
		plan := ""
		for rows.Next() {
			columns := testworld.Must(rows.Columns())(t)
			line := make([]any, len(columns))
			for n := range line {
				line[n] = new(any)
			}
			testworld.Check(t, rows.Scan(line...))
			plan += fmt.Sprintln(*line[len(line)-1].(*any))
		}
		testworld.Check(t, rows.Err())
		if !strings.Contains(plan, "state_records_tag1") || strings.Contains(plan, "Sort") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("plan = %s", plan)
		}
	})
}

// Of failures, the newest stay, up to a number.
func TestTrimFailures(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t).(*sqlstate.Store)
		for i := range byte(5) {
			testworld.Check(t, store.PutRecords(t.Context(), statedb.Record{Name: recordName(i), Kind: statedb.KindFailure, Value: []byte{i}}))
		}
		testworld.Check(t, store.PutRecords(t.Context(), statedb.Record{Name: recordName(9), Kind: statedb.KindAct, Value: []byte("act")}))
		for _, step := range []struct{ remaining, want int }{{9, 6}, {3, 4}} {
			testworld.Check(t, store.TrimFailures(t.Context(), statedb.KindFailure, step.remaining))
			all := testworld.Must(store.ListRecords(t.Context(), statedb.List{Kind: statedb.KindFailure, Limit: 9}))(t)
			if len(all)+1 != step.want || all[0].Name[0] != 4 {
				t.Errorf("with %d remaining: %v", step.remaining, names(all))
			}
		}
	})
}
