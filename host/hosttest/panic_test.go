package hosttest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/sdk"
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
func TestSandboxPanicLog(t *testing.T) {
	wasm, err := exec.Command("wat2wasm", "--output=-", filepath.Join("testdata", "panics.wat")).Output()
	if err != nil {
		t.Fatalf("wat2wasm (install wabt): %v", err)
	}
	s := &shown{TB: t}
	h := newHarness(s, "", host.Plugin{Name: "panics.wasm", Wasm: wasm}, false)
	h.Canary("crm")
	failure := h.AuthenticateError(Config{"value": "{{ get_secret('crm') }}"}, GET("https://api.test"))
	if got := strings.Join(s.lines, "; "); !strings.Contains(got, "panic: no such key") || strings.Contains(failure.Error(), "no such key") {
		t.Errorf("the test's log is %q, after the error %v", got, failure)
	}
}

// A panic of a native plugin is reported like a trap in the sandbox. A host function that ends the call also panics,
// but not as a failure of the plugin.
func TestNativePanic(t *testing.T) {
	got := complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(func(*sdk.Call) (sdk.Mutation, error) { panic("oh") }))
		h.Canary("crm")
		err := h.AuthenticateError(config, GET("https://api.test"))
		if err.Stage != host.StagePlugin || !errors.Is(err, sandbox.ErrTrap) {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
	})
	if len(got) != 0 {
		t.Errorf("complaints: %q", got)
	}
	got = complaints(func(tb TB) {
		h := nativeHarness(tb, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
			c.Reveal(c.Config("value"))
			t.Error("a call without the grant went on")
			return sdk.Mutation{}, nil
		}))
		h.Canary("crm")
		err := h.AuthenticateError(config, GET("https://api.test"))
		if err.Stage != host.StagePlugin || errors.Is(err, sandbox.ErrTrap) || !strings.Contains(err.Error(), `"reveal"`) {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
	})
	if len(got) != 0 {
		t.Errorf("complaints: %q", got)
	}
}
