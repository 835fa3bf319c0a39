package plugins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/plugins"
)

var update = flag.Bool("update", false, "write the golden descriptions anew")

// builtIn are the plugins and their directories, in the order in which hosts load them.
var builtIn = []struct {
	dir      string
	wasm     []byte
	authType string
	kiB      int // the maximum size of the module
}{
	{"none", plugins.None, "none", 32},
	{"apikey", plugins.APIKey, "api_key", 32},
	{"oauthcc", plugins.OAuthCC, "oauth_client_credentials", 72},
	{"jwt", plugins.JWT, "jwt", 32},
	{"jwtbearer", plugins.JWTBearer, "oauth_jwt_bearer", 72},
}

func TestModulesAreSmall(t *testing.T) {
	for _, p := range builtIn {
		if len(p.wasm) > p.kiB<<10 {
			t.Errorf("%s has %d bytes, %d KiB are the most", p.dir, len(p.wasm), p.kiB)
		}
	}
}

// The modules import nothing but the functions of the contract (threats.md 7).
func TestModulesImportOnlyTheContract(t *testing.T) {
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	for _, p := range builtIn {
		module, err := runtime.CompileModule(ctx, p.wasm)
		if err != nil {
			t.Errorf("%s: %v", p.dir, err)
			continue
		}
		for _, f := range module.ImportedFunctions() {
			from, name, _ := f.Import()
			if from != abi.ModuleEnv && from != abi.ModuleUser {
				t.Errorf("%s imports %s from %s", p.dir, name, from)
			}
		}
		if n := len(module.ImportedMemories()); n != 0 {
			t.Errorf("%s imports %d memories", p.dir, n)
		}
	}
}

// The descriptions equal the golden files. Users configure against them, so a change has to show in review.
func TestDescriptions(t *testing.T) {
	h, err := host.New(context.Background(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	loaded := h.Plugins()
	if len(loaded) != len(builtIn) {
		t.Fatalf("%d plugins are loaded", len(loaded))
	}
	for i, p := range builtIn {
		if loaded[i].Type != p.authType || !loaded[i].BuiltIn {
			t.Errorf("plugin %d has the type %s", i, loaded[i].Type)
		}
		got, err := json.MarshalIndent(loaded[i].Description, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Join(p.dir, "testdata", "describe.json"), append(got, '\n'))
	}
}

// compare compares a description with a golden file, or writes the file with -update.
func compare(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the plugin says; if the change is meant: go test ./plugins -update\n%s", golden, got)
	}
}

// Every built-in module is in the directory, embedded and returned by All. Other modules are not embedded.
func TestBuiltInModulesAreEmbedded(t *testing.T) {
	files, err := filepath.Glob("*/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range builtIn {
		if want := filepath.Join(p.dir, p.dir+".wasm"); !slices.Contains(files, want) {
			t.Errorf("%s is not among %v", want, files)
		}
	}
	for i, wasm := range plugins.All() {
		if !bytes.Equal(wasm, builtIn[i].wasm) {
			t.Errorf("All gives another module than that of %s at place %d", builtIn[i].dir, i)
		}
	}
}
