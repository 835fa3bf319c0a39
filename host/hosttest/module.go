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

	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/plugins"
)

// digests has a function by directory that returns the digest of its sources. It computes the digest once in a process,
// because it runs the go command, which takes longer than a test.
var digests sync.Map // of func() (string, error), by directory

// readModule reads the compiled plugin. It fails the test if the module is missing, or if fromGo is set and the module
// was not compiled from the sources beside it.
func readModule(tb TB, path string, fromGo bool) []byte {
	tb.Helper()
	dir := filepath.Dir(path)
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
	current, err := sourceDigest(dir)
	if err != nil {
		tb.Fatalf("hosttest: %v", err)
	}
	if recorded != current {
		tb.Fatalf("hosttest: %s is stale, its sources have changed since it was built: %s", path, build)
	}
	return wasm
}

// howToBuild says how to compile the module at path. The tool names a module after its directory, so it says so if path
// has another name.
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

// sourceDigest returns the digest of the sources in a directory.
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

// builtIn reports whether a module is one of the host's own.
func builtIn(wasm []byte) bool {
	return slices.ContainsFunc(plugins.Types(), func(name string) bool { return bytes.Equal(plugins.Of(name), wasm) })
}
