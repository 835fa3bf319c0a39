package sqlstate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/host/state/statetest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
)

// Both stores keep what the interface promises.
func TestSuite(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres", "postgres behind a pooler"} {
		t.Run(name, func(t *testing.T) {
			var db database
			statetest.Run(t, statetest.Suite{
				New: func(t *testing.T) state.Store {
					db = empty(t, strings.Fields(name)[0])
					if strings.HasSuffix(name, "pooler") {
						db.address, db.options.Pooler = postgrestest.Pooler(t, db.address), true
					}
					return db.open(t)
				},
				Advance: func(t *testing.T, _ state.Store, d time.Duration) { db.later(t, d) },
				Sweep: func(t *testing.T, s state.Store) {
					testworld.Must(s.(statedb.Database).Sweep(t.Context(), 1000))(t)
				},
			})
		})
	}
}
