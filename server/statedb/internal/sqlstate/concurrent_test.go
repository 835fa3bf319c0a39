package sqlstate_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

const (
	// countEnv is the environment variable that makes the test binary run count.
	countEnv = "STATE_TEST_COUNT"
	workers  = 4
	turns    = 10
)

// count counts up the value of one row, as a process beside others.
func count(db database) error {
	ctx := context.Background()
	var store statedb.Database
	var err error
	if db.name == "postgres" {
		store, err = postgres.Open(ctx, db.address, postgres.Options{})
	} else {
		store, err = sqlite.Open(ctx, db.address, sqlite.Options{})
	}
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	failed := make([]error, workers)
	for n := range workers {
		all.Go(func() {
			for range turns {
				if err := countUp(ctx, store); err != nil {
					failed[n] = err
				}
			}
		})
	}
	all.Wait()
	return errors.Join(append(failed, store.Close())...)
}

// countUp waits for the lease, reads the number under it, and writes the next one.
func countUp(ctx context.Context, store state.Store) error {
	for {
		row, err := store.Get(ctx, id("number"))
		if err != nil {
			return err
		}
		lease, taken, err := store.Acquire(ctx, id("number"), row.Generation, time.Minute)
		if err != nil {
			return err
		}
		if !taken {
			if err := store.Wait(ctx, id("number"), row.Generation); err != nil {
				return err
			}
			continue
		}
		number, _ := strconv.Atoi(string(row.Value))
		ok, err := store.Put(ctx, lease, []byte(strconv.Itoa(number+1)), 0, true)
		if err == nil && !ok {
			err = errors.New("the holder of the lease may not write")
		}
		return err
	}
}

// Several processes, each with several workers, lose no update.
func TestProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t)
		const processes = 3
		var all sync.WaitGroup
		for range processes {
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), countEnv+"="+db.name, countEnv+"_ADDRESS="+db.address)
			command.Stderr = os.Stderr
			all.Go(func() {
				if err := command.Run(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		row := get(t, store, id("number"))
		if string(row.Value) != strconv.Itoa(processes*workers*turns) {
			t.Errorf("they counted to %s", row.Value)
		}
	})
}
