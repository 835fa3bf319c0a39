package sqlstate_test

import (
	"testing"
	"time"

	hoststate "github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/host/state/statetest"
	"github.com/keywright/keywright/server/state"
)

// Both stores keep what the interface promises.
func TestSuite(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			var db database
			statetest.Run(t, statetest.Suite{
				New: func(t *testing.T) hoststate.Store {
					db = empty(t, name)
					return db.open(t)
				},
				Advance: func(t *testing.T, _ hoststate.Store, d time.Duration) { db.later(t, d) },
				Sweep: func(t *testing.T, s hoststate.Store) {
					if _, err := s.(state.Database).Sweep(t.Context(), 1000); err != nil {
						t.Fatal(err)
					}
				},
			})
		})
	}
}
