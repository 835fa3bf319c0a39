package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/sdk"
)

// TB is the part of [testing.TB] that a [Harness] needs. Programs that test plugins outside of go test implement it.
type TB interface {
	// Helper marks the calling function as one whose place errors do not show.
	Helper()
	// Logf adds a text to the log of the test.
	Logf(format string, args ...any)
	// Errorf fails the test, which goes on.
	Errorf(format string, args ...any)
	// Fatalf fails the test and ends its goroutine.
	Fatalf(format string, args ...any)
	// Cleanup registers a function to be called when the test has ended.
	Cleanup(f func())
}

// Run runs a test of a plugin as two subtests: sandbox runs the module at the path wasm, and native runs p itself. The path is relative to
// the package's directory, which must be the directory of the plugin's sources. Each subtest has a harness of its own.
//
// If p is nil, for a plugin that is not written in Go, only the sandbox subtest runs. It does not check that the module is up to date.
func Run(t *testing.T, p sdk.Plugin, wasm string, test func(*testing.T, *Harness)) {
	t.Helper()
	name := t.Name() // the same for both runs
	ok := t.Run("sandbox", func(t *testing.T) {
		test(t, New(t, name, Module{Name: filepath.Base(wasm), Wasm: readModule(t, wasm, p != nil), Verbose: testing.Verbose()}))
	})
	if p == nil {
		return
	}
	t.Run("native", func(t *testing.T) {
		limit := callTimeout
		if !ok { // perhaps for want of fuel: the stack of a loop is wanted soon
			limit = failedTimeout
		}
		test(t, newNativeHarness(t, name, p, wasm, limit))
	})
}

// A Module is a compiled plugin for [New].
type Module struct {
	// Name is the name of the plugin in errors.
	Name string
	Wasm []byte
	// Verbose is set if what each call does is to be logged.
	Verbose bool
}

// New returns a harness for a compiled plugin in the sandbox. [Run] calls it. Programs that test plugins outside of go test
// call it themselves. Harnesses with the same name get the same random bytes.
func New(tb TB, name string, m Module) *Harness {
	tb.Helper()
	h := newHarness(tb, name, host.Plugin{Name: m.Name, Wasm: m.Wasm}, builtIn(m.Wasm))
	h.verbose = m.Verbose
	return h
}

// NewNative returns a harness for a plugin as plain Go, whose compiled module is the file wasm.
func NewNative(tb TB, name string, p sdk.Plugin, wasm string) *Harness {
	tb.Helper()
	return newNativeHarness(tb, name, p, wasm, callTimeout)
}

// newNativeHarness returns a harness for a plugin as plain Go, whose calls take up to limit. The file wasm is its compiled module.
func newNativeHarness(tb TB, name string, p sdk.Plugin, wasm string, limit time.Duration) *Harness {
	module, _ := os.ReadFile(wasm) // the harness of the sandbox reports what is wrong with it
	return newHarness(tb, name, testhook.NativePlugin("native", newNative(tb, p, limit), nil).(host.Plugin), builtIn(module))
}

// digests has a function by directory that returns the digest of its sources. It computes the digest once in a process,
// because it runs the go command, which takes longer than a test.
var digests sync.Map // of func() (string, error), by directory

// readModule reads the compiled plugin. It fails the test if the module is missing, or if fromGo is set and the module
// was not compiled from the sources beside it.
func readModule(tb TB, path string, fromGo bool) []byte {
	tb.Helper()
	build := howToBuild(path, fromGo)
	wasm, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Fatalf("hosttest: %s is missing: %s", path, build)
	}
	if err != nil {
		tb.Fatalf("hosttest: %v", err)
	}
	if !fromGo {
		return wasm
	}
	recorded, err := pluginbuild.RecordedDigest(wasm)
	if err != nil {
		tb.Fatalf("hosttest: what %s was made of is not known (%v): %s", path, err, build)
	}
	current, err := sourceDigest(filepath.Dir(path))
	if err != nil {
		tb.Fatalf("hosttest: %v", err)
	}
	if recorded != current {
		tb.Fatalf("hosttest: %s is stale, its sources have changed since it was built: %s", path, build)
	}
	return wasm
}

// howToBuild returns how to compile the module at path. The tool names a module after its directory, so it mentions another name of path.
func howToBuild(path string, fromGo bool) string {
	if !fromGo {
		return "compile the plugin"
	}
	place := filepath.Dir(path)
	if absolute, err := filepath.Abs(place); err == nil {
		place = absolute // the command runs in another directory
	}
	text := "`keywright plugin build " + place + "` builds it (in a checkout of Keywright, `go run ./tools/plugin build " + place +
		"` does, and `make plugins` when it is one of its own)"
	if out, err := pluginbuild.OutputPath(place); err == nil && filepath.Base(out) != filepath.Base(path) {
		text += fmt.Sprintf(", but as %s: test that file, or call the directory %s", out, strings.TrimSuffix(filepath.Base(path), ".wasm"))
	}
	return text
}

func sourceDigest(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	take, _ := digests.LoadOrStore(absolute, sync.OnceValues(func() (string, error) {
		return pluginbuild.SourceDigest(context.Background(), absolute)
	}))
	return take.(func() (string, error))()
}

func builtIn(wasm []byte) bool {
	return slices.ContainsFunc(plugins.Types(), func(name string) bool { return bytes.Equal(plugins.Of(name), wasm) })
}
