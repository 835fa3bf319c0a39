package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
)

// compile compiles a plugin of testdata and checks that a host would load it, as the command does.
func compile(t *testing.T, name string) ([]byte, error) {
	t.Helper()
	compiler, err := pluginbuild.FindCompiler(t.Context(), "../../"+cache)
	if err != nil {
		t.Fatalf("%v (in this repository: make tinygo)", err)
	}
	wasm := testworld.Must(compiler.Compile(t.Context(), filepath.Join("testdata", name)))(t)
	_, err = accept(t.Context(), name+".wasm", wasm)
	return wasm, err
}

// A host loads an ordinary plugin. Its author need not know which functions the compiler inlines.
func TestOrdinaryPlugin(t *testing.T) {
	if _, err := compile(t, "signer"); err != nil {
		t.Error(err)
	}
}

func TestUnregisteredPlugin(t *testing.T) {
	if _, err := compile(t, "forgotten"); err == nil || !strings.Contains(err.Error(), "no plugin is registered: call sdk.Register in a function init") {
		t.Errorf("error %v", err)
	}
}

// The text of a plugin's panic is logged in one line, without control characters for a terminal (threats.md 70).
func TestPluginPanicLog(t *testing.T) {
	wasm := testworld.Must(compile(t, "panics"))(t)
	for how, want := range map[string]string{
		"index": `panic: runtime error: index out of range`,
		"other": `panic: no such way:\\x1b[31m`,
		"{{ '" + strings.Repeat("long", 1000) + "' }}": `longlong`,
	} {
		var log bytes.Buffer
		h := testworld.Must(host.New(t.Context(), host.Config{
			Plugins: []host.Plugin{{Name: "panics.wasm", Wasm: wasm}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))(t)
		defer h.Close(context.Background())
		c := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{
			Name: "c", Origins: []string{"https://api.test"}, Auth: []host.Auth{{Type: "panics", Config: map[string]any{"how": how}}},
		}))(t)
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/", nil))(t)
		if _, err := c.Transport(nil).RoundTrip(r); err == nil || !strings.Contains(err.Error(), "as after a panic: its text is in the log") { //nolint:bodyclose // there is no response
			t.Errorf("%.20s: error %v", how, err)
		}
		if !strings.Contains(log.String(), want) || log.Len() > 2000 {
			t.Errorf("%.20s: the log has %d bytes: %.2000s", how, log.Len(), log.String())
		}
	}
}

// Building a plugin that a host would not load writes no module.
func TestUnloadableModuleNotWritten(t *testing.T) {
	compiler := testworld.Must(pluginbuild.FindCompiler(t.Context(), "../../"+cache))(t)
	compiler.Accept = accept
	err := compiler.Build(t.Context(), filepath.Join("testdata", "forgotten"))
	testworld.WantError(t, "", err, "the plugin in testdata/forgotten: ")
	if _, err := os.Stat("testdata/forgotten/forgotten.wasm"); err == nil {
		t.Error("it was written")
	}
}
