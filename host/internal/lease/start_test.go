package lease_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
)

// interrupted is a source of randomness whose reader does something else before its first reading.
type interrupted struct {
	io.Reader
	first sync.Once
	by    func()
}

func (i *interrupted) Read(p []byte) (int, error) {
	i.first.Do(i.by)
	return i.Reader.Read(p)
}

// A node that starts while another one makes the key of the names waits for it. Both have the same names.
func TestANodeWaitsForTheKeyOfTheNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := lease.Config{Store: state.NewMemory(time.Now), Keys: [][]byte{stateKey()}}
		var partition [32]byte
		var starting sync.WaitGroup
		first := config
		first.Random = &interrupted{Reader: rand.Reader, by: func() {
			starting.Go(func() {
				second, err := lease.NewNode(t.Context(), config)
				if err != nil {
					t.Error(err)
					return
				}
				partition = second.Partition("a")
			})
			synctest.Wait()
		}}
		node := configured(t, first)
		starting.Wait()
		if node.Partition("a") != partition {
			t.Error("the nodes have different names")
		}
	})
}

// A node that starts waits for the key of the names for twice the time of a lease and a call of the store, and no longer.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, begin := state.NewMemory(time.Now), time.Now()
		if _, taken, err := store.Acquire(t.Context(), state.ID{}, 0, 5*time.Minute); !taken || err != nil {
			t.Fatal(taken, err)
		}
		_, err := lease.NewNode(t.Context(), lease.Config{
			Store: store, Keys: [][]byte{stateKey()}, Lease: 30 * time.Second, StoreTimeout: 2 * time.Second,
		})
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 62*time.Second {
			t.Errorf("after %s the error is %v", took, err)
		}
	})
}
