//go:build !race

// Under the race detector these tests take minutes, and nothing in them runs concurrently. make test runs them without
// it.

package connectors

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// refused reports whether a file is over a limit.
func refused(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.Message, ": split ") })
}

// The cost of reading a file is bounded, and grows no faster than the file, whatever the file contains (threats.md 54).
func TestCostOfAnyFile(t *testing.T) {
	const mib = 1 << 20
	h := newHost(t)
	bounded := func(t *testing.T, text string) []Problem {
		_, problems := costOf(t, h, text)
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		if memory.HeapSys > 256*mib {
			t.Fatalf("%d bytes have made the heap %d MiB large", len(text), memory.HeapSys/mib)
		}
		if len(problems) > maxProblems+1 {
			t.Errorf("%d problems", len(problems))
		}
		return problems
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			largest := attack(maxFile)
			bounded(t, largest[:min(maxFile, len(largest))])
			half, _ := costOf(t, h, attack(64<<10))
			if whole, _ := costOf(t, h, attack(128<<10)); whole > 3*half+mib {
				t.Errorf("128 KiB cost %d bytes, 64 KiB %d", whole, half)
			}
		})
	}
	// Files with the highest cost per byte, just below the limits.
	for name, size := range map[string]int{
		"names only": 190_000, "names in filters": 500_000, "long expressions": 500_000, "api keys": 550_000, "comments in a list": 220_000, "anchors in a row": 280_000,
	} {
		t.Run(name+" below the limits", func(t *testing.T) {
			if problems := bounded(t, attacks[name](size)); refused(problems) {
				t.Error(problems[0])
			}
		})
	}
}
