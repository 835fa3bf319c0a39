package plugins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

var update = flag.Bool("update", false, "write the golden descriptions anew")

// builtIn are the auth types, without aliases, and the directories of their plugins, in the order of plugins.Types.
var builtIn = []struct {
	authType, dir string
	kiB           int // the maximum size of the module
}{
	{"none", "none", 32},
	{"api_key", "apikey", 32},
	{"oauth_client_credentials", "oauthcc", 72},
	{"jwt", "jwt", 32},
	{"oauth_jwt_bearer", "jwtbearer", 72},
	{"basic", "basic", 32},
	{"bearer", "bearer", 32},
	{"login", "login", 72},
	{"oauth_password", "oauthpassword", 72},
	{"oauth_refresh_token", "refreshtoken", 72},
	{"token_exchange", "tokenexchange", 72},
	{"dpop", "dpop", 72},
	{"signature", "signature", 72},
	{"http_signature", "httpsignature", 72},
	{"jws", "jws", 32},
	{"oauth1", "oauth1", 72},
	{"digest", "digest", 72},
	{"aws_sigv4", "awssigv4", 72},
	{"aws_assume_role", "awsassumerole", 72},
	{"github_app", "githubapp", 72},
	{"google_service_account", "googleserviceaccount", 72},
	{"oauth_authorization_code", "authcode", 72},
}

func TestModuleSizes(t *testing.T) {
	for _, p := range builtIn {
		if size := len(plugins.Of(p.authType)); size > p.kiB<<10 {
			t.Errorf("%s has %d bytes, %d KiB are the most", p.dir, size, p.kiB)
		}
	}
}

// The compiler has made the descriptions: the modules have them as data, and none of the code that writes them.
func TestDescriptionData(t *testing.T) {
	for _, p := range builtIn {
		if !bytes.Contains(plugins.Of(p.authType), []byte(`{"abi":1,"type":"`+p.authType+`",`)) {
			t.Errorf("%s makes its description while it runs: does its Describe, or what it calls, have an append that grows a slice?", p.dir)
		}
	}
}

// The modules import nothing but the functions of the contract (threats.md 7).
func TestModulesImportOnlyTheContract(t *testing.T) {
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	for _, p := range builtIn {
		module, err := runtime.CompileModule(ctx, plugins.Of(p.authType))
		if err != nil {
			t.Errorf("%s: err = %v", p.dir, err)
			continue
		}
		for _, f := range module.ImportedFunctions() {
			from, name, _ := f.Import()
			if from != contract.ModuleEnv && from != contract.ModuleUser {
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
	var config host.Config
	for _, p := range builtIn {
		config.BuiltIns = append(config.BuiltIns, host.Plugin{Name: p.dir, Wasm: plugins.Of(p.authType)})
	}
	h := testworld.Must(host.New(context.Background(), config))(t)
	defer h.Close(context.Background())
	var types []string
	for i, loaded := range h.Plugins() {
		types = append(append(types, loaded.Type), loaded.Aliases...)
		if loaded.Type != builtIn[i].authType || !loaded.BuiltIn {
			t.Errorf("plugin %d has the type %s", i, loaded.Type)
		}
		got := testworld.Must(json.MarshalIndent(loaded.Description, "", "  "))(t)
		compare(t, filepath.Join(builtIn[i].dir, "testdata", "describe.json"), append(got, '\n'))
	}
	if !slices.Equal(types, plugins.Types()) {
		t.Errorf("the modules have the types %q, and Types returns %q", types, plugins.Types())
	}
	for _, name := range types {
		if plugins.Of(name) == nil {
			t.Errorf("Of(%q) is nil", name)
		}
	}
	if plugins.Of("API_KEY") != nil {
		t.Error("there is a module for API_KEY")
	}
}

// compare compares a description with a golden file, or writes the file with -update.
func compare(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		testworld.Check(t, os.MkdirAll(filepath.Dir(golden), 0o755))
		testworld.Check(t, os.WriteFile(golden, got, 0o644))
	}
	want := testworld.Must(os.ReadFile(golden))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the plugin says; if the change is meant: go test ./plugins -update\n%s", golden, got)
	}
}

// Each compiled plugin in the directory is a built-in module.
func TestEmbeddedModules(t *testing.T) {
	files := testworld.Must(filepath.Glob("*/*.wasm"))(t)
	if len(files) != len(builtIn) {
		t.Errorf("the directory has %d modules, and %d are built in", len(files), len(builtIn))
	}
	for _, p := range builtIn {
		file := testworld.Must(os.ReadFile(filepath.Join(p.dir, p.dir+".wasm")))(t)
		if !bytes.Equal(file, plugins.Of(p.authType)) {
			t.Errorf("Of(%q) is not the module in %s", p.authType, p.dir)
		}
	}
	for i, module := range plugins.Default() {
		if !bytes.Equal(module, plugins.Of(builtIn[i].authType)) {
			t.Errorf("module %d of Default is not %s", i, builtIn[i].authType)
		}
	}
}

// Each type for OAuth takes the token_type of Apigee (cloud.google.com/apigee/docs/api-platform/security/oauth/access-tokens), and any
// with token_type: any.
func TestTypesOfTokens(t *testing.T) {
	const tokenURL = "https://login.test/token"
	for _, name := range []string{"oauth_client_credentials", "oauth_jwt_bearer", "oauth_password", "oauth_refresh_token", "token_exchange"} {
		for _, c := range []struct {
			tokenType, field string
			refused          bool
		}{{"BearerToken", "bearer", false}, {"bot", "bearer", true}, {"bot", "any", false}, {"BearerToken", "any", false}} {
			t.Run(name+" "+c.tokenType+" "+c.field, func(t *testing.T) {
				h := hosttest.New(t, name, hosttest.Module{Name: name, Wasm: plugins.Of(name)})
				h.Canary("s")
				h.Canary("seed")
				h.TokenEndpoint(tokenURL, hosttest.JSON(200, `{"access_token":"the-access-token","token_type":"`+c.tokenType+`","expires_in":"3599"}`))
				config := maps.Clone(testworld.AuthTypes(tokenURL)[name])
				config["token_type"] = c.field
				got, err := h.Try(config, hosttest.GET("https://api.test/v1"))
				if c.refused {
					if err == nil || got != nil && got.Attempts > 0 {
						t.Errorf("a request was sent, %v", err)
					}
					return
				}
				if err != nil || got.Header("Authorization") != "Bearer the-access-token" {
					t.Errorf("got = %v, err = %v", got, err)
				}
			})
		}
	}
}
