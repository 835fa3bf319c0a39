package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// A guest that waits for a token holds no slot, so that it does not hold up guests that only compute.
func TestATokenRequestGivesItsSlotToOthers(t *testing.T) {
	r := newRuntime(t, limits(func(l *sandbox.Limits) { l.ConcurrentGuests = 1 }))
	m := loadIn(t, r, plugin(`(if (i64.ne (call $input_length) (i64.const 0)) (then
		(drop (call $token_request (i64.const 0))))) i32.const 0`))
	asking, answer, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := m.Call(context.Background(), contract.ExportAuthenticate, &env{input: "x", on: map[string]func(){
			"TokenRequest": func() { close(asking); <-answer },
		}})
		ended <- err
	}()
	<-asking
	authenticate(t, m, &env{})
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// keyEnv is an env with a store of keys.
type keyEnv struct {
	*env
	pause func(func())
}

func (e *keyEnv) Waits() bool                  { return true }
func (e *keyEnv) PauseWith(pause func(func())) { e.pause = pause }

// threats.md 94: a call leaves its slot to others only while it waits for a store of keys. All else that a call does with a
// key, such as a signature with another key, holds the slot, so that there is no more such work at once than there are slots.
func TestOnlyTheWaitForAKeyGivesTheSlotToOthers(t *testing.T) {
	r := newRuntime(t, limits(func(l *sandbox.Limits) { l.ConcurrentGuests = 1 }))
	m := loadIn(t, r, plugin(`(if (i64.ne (call $input_length) (i64.const 0)) (then
		(drop (call $sign (i64.const 0) (i64.const 0))))) i32.const 0`))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	others := func() error {
		_, err := m.Call(gone, contract.ExportAuthenticate, &env{})
		return err
	}
	e := &keyEnv{env: &env{input: "x"}}
	e.on = map[string]func(){"Sign": func() {
		for range 2 {
			testworld.WantError(t, "another guest, during the work", others(), "guests that run at once")
			e.pause(func() { authenticate(t, m, &env{}) })
		}
	}}
	if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); err != nil {
		t.Error(err)
	}

	e.on["Sign"] = func() {
		e.pause(func() {})
		panic(errors.New("the env ends the call"))
	}
	if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("after the wait, the env ends the call: %v", err)
	}
	authenticate(t, m, &env{}) // the slot is free again
}

func TestWaitingForASlotEndsWithTheContext(t *testing.T) {
	r := newRuntime(t, limits(func(l *sandbox.Limits) { l.ConcurrentGuests = 1 }))
	m := loadIn(t, r, plugin(`(if (i64.ne (call $input_length) (i64.const 0)) (then
		(drop (call $token_request (i64.const 0))))) (drop (call $time_now)) i32.const 0`))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	e := &env{on: map[string]func(){"TimeNow": func() {
		if _, err := m.Call(gone, contract.ExportAuthenticate, &env{}); !errors.Is(err, sandbox.ErrTime) || !errors.Is(err, context.Canceled) {
			t.Errorf("waiting to begin: %v", err)
		}
	}}}
	authenticate(t, m, e)

	// After its token request, the guest waits for the only slot, which another guest holds, and is stopped.
	back, stop := context.WithCancel(context.Background())
	holding, release, held := make(chan struct{}), make(chan struct{}), make(chan error)
	_, err := m.Call(back, contract.ExportAuthenticate, &env{input: "x", on: map[string]func(){"TokenRequest": func() {
		go func() {
			_, err := m.Call(context.Background(), contract.ExportAuthenticate, &env{on: map[string]func(){
				"TimeNow": func() { close(holding); <-release },
			}})
			held <- err
		}()
		<-holding
		stop()
	}}})
	if !errors.Is(err, sandbox.ErrTime) {
		t.Errorf("waiting to go on: %v", err)
	}
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	authenticate(t, m, &env{}) // the slot is free again
}

func TestObserveLeftovers(t *testing.T) {
	c := limits(nil)
	var memory, arena []byte
	c.Observe = func(m, a []byte) { memory, arena = bytes.Clone(m), bytes.Clone(a) }
	r := newRuntime(t, c)
	for name, end := range map[string]string{"well": "i32.const 0", "badly": "unreachable"} {
		m := loadIn(t, r, plugin(`(i32.store8 (i32.const 1000) (i32.const 0x4d)) (call $store_u8 (call $alloc (i64.const 1)) (i32.const 0x41)) `+end))
		_, _ = m.Call(context.Background(), contract.ExportAuthenticate, &env{})
		if len(memory) != 65536 || memory[1000] != 'M' || !bytes.Contains(arena, []byte("A")) {
			t.Errorf("%s: %d bytes of memory, arena %q", name, len(memory), arena)
		}
	}
}

// Ten thousand failing calls leave no goroutines and no memory behind (threats.md 14).
func TestTenThousandFailingCallsLeaveNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	m := load(t, plugin(`
		(drop (memory.grow (i32.const 1)))
		(drop (call $alloc (i64.const 10000)))
		(drop (call $time_now))
		(if (i64.eq (call $input_length) (i64.const 1)) (then unreachable))
		(if (i64.eq (call $input_length) (i64.const 2)) (then (drop (call $load_u8 (i64.const 0)))))
		(drop (call $secret_get (i64.const 0))) i32.const 0`))
	e := &env{on: map[string]func(){"SecretGet": func() { panic("over") }}}
	calls := func(n int) {
		for i := range n {
			e.input, e.asked = "xx"[:i%3], nil
			if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); err == nil {
				t.Fatal("a call ended well")
			}
		}
	}
	calls(500)
	before := heap()
	calls(10_000)
	if grown := int64(heap()) - int64(before); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // a sync.Pool keeps its values until the second collection
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestCallsAtOnceDoNotMeet(t *testing.T) {
	c := limits(func(l *sandbox.Limits) { l.ConcurrentGuests = 4 })
	m := loadIn(t, newRuntime(t, c), plugin(`
		(if (call $remember) (then (return (i32.const 1))))
		(call $give (call $config_get (call $input_offset)))
		(drop (call $token_request (call $input_offset)))
		i32.const 0`, remembering))
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			name := fmt.Sprint("caller ", caller)
			for range 50 {
				e := &env{input: name, config: map[string]string{name: "value of " + name}}
				got, err := m.Call(context.Background(), contract.ExportAuthenticate, e)
				if err != nil || got.Code != 0 || string(got.Output) != "value of "+name {
					t.Errorf("%s got %q, code %d, error %v", name, got.Output, got.Code, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCall(b *testing.B) {
	for name, wat := range map[string]string{
		"nothing": plugin(`i32.const 0`),
		"api_key": plugin(`(drop (call $config_get (call $a))) (drop (call $config_get (call $b)))
			(drop (call $config_get (call $c))) (call $give (call $c)) i32.const 0`, abcd),
	} {
		m := load(b, wat)
		b.Run(name, func(b *testing.B) {
			e := quiet{&env{}}
			b.ReportAllocs()
			for b.Loop() {
				testworld.Must(m.Call(context.Background(), contract.ExportAuthenticate, e))(b)
			}
		})
	}
}

// quiet is an env whose ConfigGet does not record its calls, so that a benchmark does not measure that.
type quiet struct{ *env }

func (quiet) ConfigGet(string) (string, bool) { return "value", true }
