package sqlite

import (
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/statedb"
)

// Two databases in memory have nothing in common.
func TestMemory(t *testing.T) {
	first, second := testworld.Must(OpenMemory(t.Context(), Options{}))(t), testworld.Must(OpenMemory(t.Context(), Options{}))(t)
	t.Cleanup(func() { _, _ = first.Close(), second.Close() })
	r := statedb.Record{Name: statedb.RecordName{1}, Kind: statedb.KindAct, Value: []byte("act")}
	testworld.Check(t, first.PutRecords(t.Context(), r))
	for want, db := range map[bool]statedb.Database{true: first, false: second} {
		if _, ok, err := db.Record(t.Context(), r.Name); err != nil || ok != want {
			t.Errorf("ok = %t, err = %v, want %t", ok, err, want)
		}
	}
}
