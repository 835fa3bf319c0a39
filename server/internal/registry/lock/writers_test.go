package lock

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// Of two processes that read a lock and write it, the second one is refused, and undoes nothing of the first (threats.md 193).
func TestTwoWriters(t *testing.T) {
	for name, before := range map[string][]Plugin{"a new lock": nil, "one that is there": {named("other")}} {
		dir := t.TempDir()
		if before != nil {
			testworld.Check(t, (&Lock{Plugins: before}).Write(dir))
		}
		first := testworld.Must(Read(dir))(t)
		second := testworld.Must(Read(dir))(t)
		first.Put(named("one"))
		second.Put(named("two"))
		testworld.Check(t, first.Write(dir))
		if err := second.Write(dir); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: the second one writes: %v", name, err)
		}
		first.Put(named("three"))
		if err := first.Write(dir); err != nil {
			t.Errorf("%s: the first one does not write again: %v", name, err)
		}
		got, err := Read(dir)
		if err != nil || len(got.Plugins) != len(before)+2 || got.Find("one") == nil || got.Find("three") == nil {
			t.Errorf("%s: there is %+v, %v", name, got, err)
		}
	}
}

// Of many writers at one time, each is refused or loses nothing of the others.
func TestManyWriters(t *testing.T) {
	const writers = 20
	dir := t.TempDir()
	var all sync.WaitGroup
	wrote := make([]bool, writers)
	for n := range writers {
		all.Go(func() {
			l, err := Read(dir)
			if err != nil {
				t.Error(err)
				return
			}
			l.Put(named(fmt.Sprint("p", n)))
			if err := l.Write(dir); err != nil && !errors.Is(err, ErrChanged) {
				t.Error(err)
			} else {
				wrote[n] = err == nil
			}
		})
	}
	all.Wait()
	got := testworld.Must(Read(dir))(t)
	for n, wrote := range wrote {
		if there := got.Find(fmt.Sprint("p", n)) != nil; there != wrote {
			t.Errorf("%d wrote: %t, and is there: %t", n, wrote, there)
		}
	}
}
