package fairlru_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/host/internal/fairlru"
)

// An owner with many values pushes out its own, and nothing of others. threats.md 333
func TestManyValuesOfOneOwner_threats_333(t *testing.T) {
	c := fairlru.New[int, string](1000)
	for i := range 10 {
		c.Add(fmt.Sprint("few ", i), 0, "v", 10)
	}
	for i := range 100_000 {
		c.Add("many", i, "v", 10)
	}
	for i := range 10 {
		if _, ok := c.Get(fmt.Sprint("few ", i), 0); !ok {
			t.Errorf("owner %d has lost its only value", i)
		}
	}
	if _, ok := c.Get("many", 99_999); !ok || c.Len() != 100 {
		t.Errorf("the last value of many is there: %t; there are %d values", ok, c.Len())
	}
	c.Resize(50)
	if c.Len() != 5 {
		t.Errorf("after the bytes became fewer, there are %d values", c.Len())
	}
}

// Of an owner, the value goes that was not used for longest, and one that is marked as used is passed over once.
func TestEvictionOrder(t *testing.T) {
	c := fairlru.New[string, string](3)
	used, dropped := "", []string{}
	c.Used = func(v string) bool {
		was := v == used
		if was {
			used = ""
		}
		return was
	}
	c.Dropped = func(v string) { dropped = append(dropped, v) }
	for _, k := range []string{"a", "b", "c"} {
		c.Add("o", k, k, 1)
	}
	c.Get("o", "a")
	used = "b"
	c.Peek("o", "c")
	c.Add("o", "d", "d", 1) // c goes
	c.Add("o", "e", "e", 1) // a, since b counts as used after it
	c.Add("o", "b", "b again", 1)
	c.Add("o", "large", "large", 4)
	c.Remove("o", "d")
	if want := []string{"c", "a", "b", "large"}; !slices.Equal(dropped, want) || c.Len() != 2 {
		t.Errorf("dropped %v, want %v; %d are left", dropped, want, c.Len())
	}
}

// Whatever others add, an owner with no more than an equal part of the bytes loses nothing, and what is held fits. threats.md 333
func TestSharesOfOwners_threats_333(t *testing.T) {
	const most, owners = 100, 5
	rapid.Check(t, func(t *rapid.T) {
		c := fairlru.New[int, int64](most)
		var held, modest int64
		c.Dropped = func(size int64) { held -= size }
		var kept []int
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			name, size := rapid.SampledFrom([]string{"modest", "b", "c", "d", "e"}).Draw(t, "owner"), rapid.Int64Range(1, 20).Draw(t, "size")
			if name == "modest" {
				if modest+size > most/owners {
					continue
				}
				modest += size
				kept = append(kept, i)
			}
			c.Add(name, i, size, size)
			if held += size; held > most {
				t.Fatalf("%d bytes are held", held)
			}
		}
		for _, i := range kept {
			if _, ok := c.Peek("modest", i); !ok {
				t.Fatalf("value %d of %v is gone", i, kept)
			}
		}
	})
}
