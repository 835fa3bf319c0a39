package admission

import (
	"runtime"
	"strings"
	"testing"
)

// threats.md 2: each is refused by looking at it, within 64 MiB. (Within 100 ms, too: BenchmarkAttacks shows that, since
// other tests run beside this one.)
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

// BenchmarkAttacks is how long it takes to refuse each of the modules that would take long to compile.
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
