package sandbox_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/sandbox"
)

// No more guests run at once than there are slots, and each released slot is used again.
func TestGuestsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, calls = 3, 10
		m := loadIn(t, newRuntime(t, limits(func(l *sandbox.Limits) { l.ConcurrentGuests = slots })), plugin(`(drop (call $time_now)) i32.const 0`))
		var running atomic.Int32
		leave := make(chan struct{})
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				_, err := m.Call(t.Context(), abi.ExportAuthenticate, &env{on: map[string]func(){"TimeNow": func() {
					running.Add(1)
					<-leave
					running.Add(-1)
				}}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		for waiting := calls; waiting > 0; waiting-- {
			synctest.Wait()
			if n := running.Load(); n != int32(min(slots, waiting)) {
				t.Errorf("%d guests run while %d have not ended, of at most %d", n, waiting, slots)
			}
			leave <- struct{}{}
		}
		all.Wait()
	})
}
