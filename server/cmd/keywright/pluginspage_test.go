package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
)

// The commands of docs/plugins.md work as they are written, from an empty directory to a plugin in a registry on this machine that
// somebody else installs.
func TestThePageOfPlugins(t *testing.T) {
	page := testworld.Must(os.ReadFile("../../../docs/plugins.md"))(t)
	commands, _, found := strings.Cut(string(page), "\n## Record a failure") // the records have a test of their own
	if !found {
		t.Fatal("the page has no section about records")
	}
	program := build(t)
	compiler := testworld.Must(pluginbuild.FindCompiler(t.Context(), "../../../.build"))(t)
	cache := testworld.Must(exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output())(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	lines := []string{"set -euo pipefail"}
	for _, block := range shellBlock.FindAllStringSubmatch(commands, -1) {
		lines = append(lines, block[1])
		if strings.Contains(block[1], "cd acme-token") { // what the page takes for granted: a key, and a file of the other person
			lines = append(lines, "cp ../acme.key . && mkdir elsewhere && sed /plugins:/,//d connectors.yaml >elsewhere/connectors.yaml")
		}
	}
	checkout, err := filepath.Abs("../../..") // a program that is built with -trimpath does not know it
	testworld.Check(t, err)
	script := strings.NewReplacer("registry.example", strings.TrimPrefix(server.URL, "http://"), "plugin new acme-token", "plugin new acme-token --keywright "+checkout).
		Replace(strings.Join(lines, "\n"))
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "acme.key"), signingKey(t), 0o600))
	c := exec.CommandContext(t.Context(), "bash", "-c", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), pluginbuild.CompilerVariable+"="+compiler.Path,
		"GOCACHE="+strings.TrimSpace(string(cache)), "XDG_CACHE_HOME="+dir, "DOCKER_CONFIG="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("err = %v\nscript = %s\nout = %s", err, script, out)
	}
	for _, want := range []string{
		"acme-token.wasm: auth type acme_token", "2 passed, 0 failed", "Authorization: Key base64(k1:{{ get_secret('acme_token') }})", "acme-token.wasm conforms",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
	locked, err := os.ReadFile(filepath.Join(dir, "acme-token/elsewhere/keywright.lock"))
	if err != nil || !strings.Contains(string(locked), `"minisign"`) {
		t.Errorf("the lock is %s, %v", locked, err)
	}
	installed, err := os.ReadFile(filepath.Join(dir, "acme-token/elsewhere/connectors.yaml"))
	if err != nil || !strings.Contains(string(installed), "/acme/token:0.1.0") {
		t.Errorf("the file is %s, %v", installed, err)
	}
}
