package admission

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// threats.md 2: each is refused by looking at it, within 100 ms and 64 MiB.
func TestModulesThatAreExpensiveToCompileAreRefused(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			wasm := attack.module()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			_, err := Admit(wasm, DefaultLimits())
			took := time.Since(begin)
			runtime.ReadMemStats(&after)
			for try := 0; try < 3 && took > 100*time.Millisecond; try++ { // other tests run too
				begin = time.Now()
				_, err = Admit(wasm, DefaultLimits())
				took = time.Since(begin)
			}
			if err == nil || !strings.Contains(err.Error(), attack.reason) {
				t.Errorf("error %v, want %q", err, attack.reason)
			}
			if took > 100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d bytes of memory", used)
			}
		})
	}
}
