package hosttest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// shown is a testing.TB that records what is logged.
type shown struct {
	testing.TB
	lines []string
}

func (s *shown) Logf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// The error of a trap does not hold the text of a panic. The test's log has it.
func TestAPanicInTheSandboxIsInTheLogOfTheTest(t *testing.T) {
	wasm, err := exec.Command("wat2wasm", "--output=-", filepath.Join("testdata", "panics.wat")).Output()
	if err != nil {
		t.Fatalf("wat2wasm (install wabt): %v", err)
	}
	s := &shown{TB: t}
	h := newHarness(s, [32]byte{}, func([]string) host.Plugin { return host.Plugin{Name: "panics.wasm", Wasm: wasm} }, false)
	h.Canary("crm")
	failure := h.AuthenticateError(Config{"value": "{{ get_secret('crm') }}"}, GET("https://api.test"))
	if got := strings.Join(s.lines, "; "); !strings.Contains(got, "panic: no such key") || strings.Contains(failure.Error(), "no such key") {
		t.Errorf("the test's log is %q, after the error %v", got, failure)
	}
}
