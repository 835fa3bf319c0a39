package admission

import (
	"runtime"
	"strings"
	"testing"
)

// Admit refuses each attack and allocates at most 64 MiB for it. It also takes at most 100 ms, which BenchmarkAttacks
// shows: here, tests of other packages run at the same time. threats.md 2
func TestModulesThatAreExpensiveToCompileAreRefused(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			wasm := attack.module()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Admit(wasm, testLimits)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), attack.reason) {
				t.Errorf("error %v, want %q", err, attack.reason)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d bytes of memory", used)
			}
		})
	}
}

// BenchmarkAttacks measures how long Admit takes to refuse each attack.
func BenchmarkAttacks(b *testing.B) {
	for name, attack := range attacks {
		b.Run(name, func(b *testing.B) {
			wasm := attack.module()
			for b.Loop() {
				if _, err := Admit(wasm, testLimits); err == nil {
					b.Fatal("it is admitted")
				}
			}
		})
	}
}
