package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// startRegistry starts an empty registry at $REGISTRY, and writes the keys of two publishers, acme.key and other.key with their .pub,
// into the directory of the script. The command unplug ends the registry.
func startRegistry(env *testscript.Env) error {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	env.Defer(server.Close)
	env.Values[unplugKey{}] = server.Close
	env.Setenv("REGISTRY", strings.TrimPrefix(server.URL, "http://"))
	env.Setenv("XDG_CACHE_HOME", env.WorkDir+"/cache")
	env.Setenv("DOCKER_CONFIG", env.WorkDir+"/docker")
	for _, name := range []string{"acme", "other"} {
		public, private, err := minisign.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		secret, err := private.MarshalText()
		if err != nil {
			return err
		}
		for file, text := range map[string]string{name + ".key": string(secret), name + ".pub": public.String() + "\n"} {
			if err := os.WriteFile(env.WorkDir+"/"+file, []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
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
