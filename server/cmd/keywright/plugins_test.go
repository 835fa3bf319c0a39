package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

var shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```\n")

// signingKey returns a new private key of minisign.
func signingKey(t *testing.T) []byte {
	t.Helper()
	_, private, err := minisign.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	return testworld.Must(private.MarshalText())(t)
}

// The commands of docs/registries.md, from the first to the last, work as they are written, with a registry on this machine for
// registry.example. What they leave behind serves a request with the plugin's mutation once the registry is gone, and a file that
// somebody changes while the registry is asked keeps the change.
func TestThePageOfRegistries(t *testing.T) {
	page := testworld.Must(os.ReadFile("../../../docs/registries.md"))(t)
	wasm := testworld.Must(os.ReadFile("../../../examples/acme_hmac/acme_hmac.wasm"))(t)
	key := signingKey(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ") // the gateway passes no answer on that holds the credential
		_, _ = io.WriteString(w, scheme)
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "connectors.yaml")
	write := func(name string, text []byte) {
		t.Helper()
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	write("acme.wasm", wasm)
	write("acme.key", key)
	write("secret", []byte("hunter2hunter2"))
	connectors := "connectors:\n  - {name: a, url: 'https://api.example.com', auth: {type: acme_hmac, config: {key_id: a, secret: \"{{ get_secret('secret') }}\"}}}\n"
	write("connectors.yaml", []byte(connectors))

	behind := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, err := os.ReadFile(file); err == nil && string(text) == connectors && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			write("connectors.yaml", []byte("# A note that came meanwhile.\n"+connectors))
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, "docker"))
	t.Chdir(dir)

	blocks := shellBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Fatalf("the page has %d blocks of commands", len(blocks))
	}
	for _, block := range blocks {
		commands := strings.NewReplacer("\\\n", " ", "registry.example", strings.TrimPrefix(server.URL, "http://")).Replace(block[1])
		for line := range strings.Lines(commands) {
			args := strings.Fields(line)
			if args[0] != "keywright" {
				t.Fatalf("the page has a command of another program: %s", line)
			}
			if code, out, errs := keywright(t.Context(), args[1:]...); code != exitOK {
				t.Fatalf("%s: exit %d\n%s%s", line, code, out, errs)
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "# A note that came meanwhile.\n") || !strings.Contains(string(text), "/acme/hmac:1.0.0") {
		t.Errorf("err = %v\ntext = %s", err, text)
	}

	server.Close()
	testworld.Check(t, os.RemoveAll(filepath.Join(dir, "cache")))
	write("connectors.yaml", bytes.Replace(text, []byte("https://api.example.com"), []byte(api.URL), 1))
	out, _, end := serveUntil(t, noEnvironment, "/readyz", "serve", "-c", file, "--secrets-dir", dir, "--dev")
	address := curlURL.FindString(out.text.String())
	status, _, answer := curl(t, address+"a")
	if status != http.StatusOK || answer != "ACME-HMAC-SHA256" {
		t.Errorf("%s is answered %d: %s", address, status, answer)
	}
	if code := end(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// inspect and info show where a plugin and its credentials come from, and inspect the rules of each field. The words of a publisher, which nobody has checked, do not
// control the terminal (threats.md 184).
func TestWhereAPluginComesFrom_threats_184(t *testing.T) {
	least, most := int64(1), int64(9)
	d := abi.Description{
		ABI: 1, Type: "acme", Version: "1.0.0", Summary: "Signs.", Homepage: "https://acme.example/", License: "MIT",
		Fields: []abi.Field{
			{Name: "key", Kind: abi.KindString, Doc: "The key.", Obtain: "Under Settings.", Aliases: []string{"secret"}},
			{Name: "days", Kind: abi.KindInteger, Doc: "Days.", Minimum: &least, Maximum: &most},
			{Name: "label", Kind: abi.KindString, Doc: "Label.", Pattern: "[a-z]+", PatternMessage: "is no label"},
		},
	}
	inspected := printed((&inspection{Description: d}).print)
	for _, want := range []string{
		"homepage  https://acme.example/\n", "license   MIT\n", "The key. Formerly secret. Under Settings.",
		"Days. At least 1. At most 9.", "Label. Matches [a-z]+ from beginning to end.",
	} {
		if !strings.Contains(inspected, want) {
			t.Errorf("inspect does not have %q:\n%s", want, inspected)
		}
	}
	d.Homepage, d.Fields[0].Obtain = "https://acme.example/\x1b[2J", "Under\x1b[1A Settings."
	if text := printed((&publication{Description: &d}).print); strings.Contains(text, "\x1b") || !strings.Contains(text, `https://acme.example/\x1b[2J`) || !strings.Contains(text, `Under\x1b[1A Settings.`) {
		t.Errorf("info writes %q", text)
	}
}

// printed returns what show writes to stdout.
func printed(show func(*app)) string {
	var out bytes.Buffer
	show(newApp(nil, &out, io.Discard, noEnvironment))
	return out.String()
}

// A long text, or one with control characters, hides no right of a plugin (threats.md 169).
func TestShownRights(t *testing.T) {
	rights := []string{"enum of json:/" + strings.Repeat("x", 5000), "is \x1b[2Jblank", "is \r", "to token"}
	text := printed(func(a *app) {
		printChanges(a.out, []lock.Change{{What: "answer\x1b[1A", Now: rights, Why: lock.WhyWider}})
	})
	if !strings.Contains(text, `is \x1b[2Jblank, is \r, to token  wider`) || strings.ContainsAny(text, "\x1b\r") || !strings.Contains(text, "x…, is") || !strings.Contains(text, `answer\x1b[1A`) {
		t.Errorf("text = %q", text)
	}
}

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

// startRegistry starts an empty registry at $REGISTRY, and writes the keys of two publishers, acme.key and other.key with their .pub,
// into the directory of the script. The command unplug ends the registry.
func startRegistry(env *testscript.Env) {
	t := env.T().(testing.TB)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	env.Defer(server.Close)
	env.Values[unplugKey{}] = server.Close
	env.Setenv("REGISTRY", strings.TrimPrefix(server.URL, "http://"))
	env.Setenv("XDG_CACHE_HOME", env.WorkDir+"/cache")
	env.Setenv("DOCKER_CONFIG", env.WorkDir+"/docker")
	for _, name := range []string{"acme", "other"} {
		public, private, err := minisign.GenerateKey(rand.Reader)
		testworld.Check(t, err)
		secret := testworld.Must(private.MarshalText())(t)
		testworld.Check(t, os.WriteFile(env.WorkDir+"/"+name+".key", secret, 0o600))
		testworld.Check(t, os.WriteFile(env.WorkDir+"/"+name+".pub", []byte(public.String()+"\n"), 0o600))
	}
}

type unplugKey struct{}

// unplug ends the registry of a script.
func unplug(ts *testscript.TestScript, _ bool, _ []string) {
	if end, ok := ts.Value(unplugKey{}).(func()); ok {
		end()
	}
}

// module assembles a plugin that has the description in a file, and that fails when it is to authenticate.
func module(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: module DESCRIPTION FILE")
	}
	text := strings.TrimSpace(ts.ReadFile(args[0]))
	source := ts.MkAbs(args[1]) + ".wat"
	ts.Check(os.WriteFile(source, fmt.Appendf(nil, `(module
  (import "extism:host/user" "block_new" (func $block (param i32 i32) (result i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory 1 1)
  (data (i32.const 0) %q)
  (func (export "describe") (result i32)
    (call $output (call $block (i32.const 0) (i32.const %d)) (i64.const %d))
    (i32.const 0))
  (func (export "authenticate") (result i32) unreachable))`, text, len(text), len(text)), 0o600))
	if out, err := exec.Command("wat2wasm", "--output="+ts.MkAbs(args[1]), source).CombinedOutput(); err != nil {
		ts.Fatalf("wat2wasm (install wabt): %v\n%s", err, out)
	}
}
