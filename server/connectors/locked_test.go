package connectors

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/go-json-experiment/json"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

const (
	acmeRef  = "registry.example/acme/hmac:1.0.0"
	acmeFile = `connectors:
  - {name: a, url: 'https://api.example.com', auth: {type: acme_hmac, config: {key_id: a, secret: "{{ get_secret('x') }}"}}}
plugins:
  - name: acme
    ref: registry.example/acme/hmac:1.0.0
`
)

// installed returns a directory as keywright plugin add and vendor leave it, with a plugin that is signed.
func installed(t *testing.T) (dir string, l *lock.Lock) {
	t.Helper()
	wasm := testworld.Must(os.ReadFile("../../examples/acme_hmac/acme_hmac.wasm"))(t)
	return installedModule(t, wasm)
}

func installedModule(t *testing.T, wasm []byte) (dir string, l *lock.Lock) {
	t.Helper()
	dir = t.TempDir()
	info := testworld.Must(host.Inspect(t.Context(), host.Plugin{Name: "acme", Wasm: wasm}, host.Limits{}))(t)
	description := testworld.Must(json.Marshal(info.Description))(t)
	made := testworld.Must(artifact.Make(wasm, description, nil))(t)
	p := lock.Describe(info)
	p.Name, p.Ref, p.Manifest = "acme", acmeRef, artifact.Digest(made.Manifest)
	_, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := private.MarshalText()
	signer := testworld.Must(signature.ParsePrivate(text, nil))(t)
	signed := testworld.Must(signer.Sign(rand.Reader, made.Manifest, "registry.example/acme/hmac", "acme"))(t)
	p.Signer = &signed
	l = &lock.Lock{}
	l.Put(p)
	vendor := filepath.Join(dir, lock.VendorDir)
	testworld.Check(t, errors.Join(l.Write(dir), lock.Store(vendor, made.Manifest), lock.Store(vendor, wasm)))
	return dir, l
}

func vendored(dir, digest string) string {
	return filepath.Join(dir, lock.VendorDir, "sha256-"+lock.Hex(digest))
}

// A file loads what keywright.lock has accepted, from the directory beside it or from the cache, without a network.
func TestAPluginFromARegistry(t *testing.T) {
	dir, l := installed(t)
	read := func(cache string) (*Set, error) {
		set, err := Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(acmeFile), Options{PluginCache: cache})
		if err == nil {
			t.Cleanup(func() { _ = set.Close(t.Context()) })
		}
		return set, err
	}
	set := testworld.Must(read(""))(t)
	p := l.Find("acme")
	want := []string{filepath.Join(dir, lock.Name), vendored(dir, p.Manifest), vendored(dir, p.Module)}
	if strings.Join(set.Files, "\n") != strings.Join(want, "\n") {
		t.Errorf("a change of these is noticed: %q, and not of %q", set.Files, want)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	testworld.Check(t, os.Rename(filepath.Join(dir, lock.VendorDir), cache))
	if _, err := read(cache); err != nil {
		t.Errorf("from the cache: %v", err)
	}
	testworld.Fails(read(""))(t, "connectors.yaml:5:10: plugins[0].ref: its manifest "+p.Manifest+": is not on this machine: run `keywright plugin vendor`")
}

// Nothing is fetched when a file is loaded, even if the registry is there (threats.md 166, specification.md "bytes that are missing").
func TestLoadingAsksNoRegistry(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	dir, l := installed(t)
	ref := strings.TrimPrefix(server.URL, "http://") + "/acme/hmac:1.0.0"
	p := *l.Find("acme")
	p.Ref = ref
	l.Put(p)
	file := []byte(strings.Replace(acmeFile, acmeRef, ref, 1))
	testworld.Check(t, l.Write(dir))
	set := testworld.Must(Read(t.Context(), filepath.Join(dir, "connectors.yaml"), file, Options{}))(t)
	_ = set.Close(t.Context())
	testworld.Check(t, os.RemoveAll(filepath.Join(dir, lock.VendorDir)))
	if _, err := Read(t.Context(), filepath.Join(dir, "connectors.yaml"), file, Options{}); err == nil || asked > 0 {
		t.Errorf("%v, and the registry was asked %d times", err, asked)
	}
}

// A lock that somebody has edited, or bytes that somebody has changed, are refused with the line of the plugin (threats.md 162, 164 and 165).
func TestEditedLock(t *testing.T) {
	_, other := installed(t)
	for name, c := range map[string]struct {
		edit func(dir string, p *lock.Plugin) error
		want string
	}{
		"no lock":           {func(dir string, _ *lock.Plugin) error { return os.Remove(filepath.Join(dir, lock.Name)) }, "is not in keywright.lock: run `keywright plugin add`"},
		"another name":      {func(_ string, p *lock.Plugin) error { p.Name = "acme2"; return nil }, "is not in keywright.lock: run `keywright plugin add`"},
		"another reference": {func(_ string, p *lock.Plugin) error { p.Ref = "registry.example/acme/hmac:2.0.0"; return nil }, "which has registry.example/acme/hmac:2.0.0: run `keywright plugin update`"},
		"a right more": {func(_ string, p *lock.Plugin) error {
			p.Capabilities["field secret"] = append(p.Capabilities["field secret"], "to token")
			return nil
		}, "its field secret is"},
		"a right less":     {func(_ string, p *lock.Plugin) error { delete(p.Capabilities, "uses"); return nil }, "its uses is"},
		"another version":  {func(_ string, p *lock.Plugin) error { p.Version = "9.0.0"; return nil }, `its version is "9.0.0" in keywright.lock`},
		"another contract": {func(_ string, p *lock.Plugin) error { p.Contract = 2; return nil }, `its contract is "2" in keywright.lock`},
		"another module":   {func(_ string, p *lock.Plugin) error { p.Module = artifact.Digest(nil); return nil }, "another module than the manifest of " + acmeRef + ": it was edited"},
		"another manifest": {func(_ string, p *lock.Plugin) error { p.Manifest = artifact.Digest(nil); return nil }, "is not on this machine"},
		"another signer":   {func(_ string, p *lock.Plugin) error { p.Signer.Key = other.Find("acme").Signer.Key; return nil }, "the signature is not one of this manifest with this key"},
		"another signature": {func(_ string, p *lock.Plugin) error {
			p.Signer.Signature = other.Find("acme").Signer.Signature
			return nil
		}, "the signature is not one of this manifest with this key"},
		"no signature":      {func(_ string, p *lock.Plugin) error { p.Signer.Signature = nil; return nil }, "the signature is not one of this manifest with this key"},
		"a kind of its own": {func(_ string, p *lock.Plugin) error { p.Signer.Kind = "trusted"; return nil }, `there are no signatures of the kind "trusted"`},
		"a changed module": {func(dir string, p *lock.Plugin) error {
			return os.WriteFile(vendored(dir, p.Module), []byte("x"), 0o600)
		}, "was changed"},
		"a changed manifest": {func(dir string, p *lock.Plugin) error {
			return os.WriteFile(vendored(dir, p.Manifest), []byte("{}"), 0o600)
		}, "was changed"},
		"no module": {func(dir string, p *lock.Plugin) error { return os.Remove(vendored(dir, p.Module)) }, "is not on this machine: run `keywright plugin vendor`"},
		"no JSON": {func(dir string, _ *lock.Plugin) error {
			return os.WriteFile(filepath.Join(dir, lock.Name), []byte("no"), 0o600)
		}, "keywright.lock cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, l := installed(t)
			p := *l.Find("acme")
			edited := &lock.Lock{}
			before, _ := os.ReadFile(filepath.Join(dir, lock.Name))
			testworld.Check(t, c.edit(dir, &p))
			edited.Put(p)
			if now, _ := os.ReadFile(filepath.Join(dir, lock.Name)); string(now) == string(before) {
				testworld.Check(t, edited.Write(dir))
			}
			said, _ := told(t, dir, acmeFile)
			if first, _, _ := strings.Cut(said, "\n"); !strings.Contains(first, "connectors.yaml:5:10: plugins[0].ref: ") || !strings.Contains(first, c.want) {
				t.Errorf("%s\nand not %s", said, c.want)
			}
		})
	}
}

// The members of a plugin are those of one source.
func TestWhereAPluginComesFrom(t *testing.T) {
	dir, _ := installed(t)
	for text, want := range map[string]string{
		"{name: acme, ref: 'r.example/a:1', path: a.wasm}":                                "plugins[0].ref: stands beside path",
		"{ref: 'r.example/a:1'}":                                                          "plugins[0].name: is missing",
		"{name: ../acme, ref: 'r.example/a:1'}":                                           "plugins[0].name: is no name of a plugin",
		"{name: '', ref: 'r.example/a:1'}":                                                "plugins[0].name: is empty",
		"{name: acme, path: a.wasm}":                                                      "plugins[0].name: is for a plugin with ref",
		"{name: acme, ref: '" + acmeRef + "', sha256: '" + strings.Repeat("0", 64) + "'}": "plugins[0].sha256: is for a plugin with path",
		"{grants: []}":                        "plugins[0].path: is missing",
		"{name: acme, reff: 'r.example/a:1'}": `plugins[0].reff: is not known here; did you mean "ref"?`,
		"{name: acme, ref: '" + acmeRef + "'}, {name: acme, ref: '" + acmeRef + "'}":            "plugins[1].name: is also that of the plugin on line 2",
		"{name: acme, ref: '" + acmeRef + "', grants: [all]}":                                   `plugins[0].grants[0]: there is no grant "all"`,
		"{name: acme, ref: '" + acmeRef + "'}, {path: ../../examples/acme_hmac/acme_hmac.wasm}": "plugins[1].path: names a file that does not exist",
	} {
		said, _ := told(t, dir, oneConnector+"plugins: ["+text+"]")
		if !strings.Contains(said, want) || strings.Count(said, "\n") > 0 {
			t.Errorf("%s\n%s\nand not %s", text, said, want)
		}
	}
}

// A module that describes itself in another way once some time has passed is refused then (threats.md 162).
func TestChangingDescription(t *testing.T) {
	const now, later = `{"abi":1,"type":"acme_hmac","version":"1.0.0","summary":"x","fields":[{"name":"secret","kind":"string","sealed":true,"sinks":["header"]}]}`,
		`{"abi":1,"type":"acme_hmac","version":"1.0.0","summary":"x","fields":[{"name":"secret","kind":"string","sealed":true,"sinks":["header","token"]}]}`
	source := filepath.Join(t.TempDir(), "module.wat")
	text := fmt.Sprintf(`(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "extism:host/user" "block_new" (func $block (param i32 i32) (result i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1 1)
  (data (i32.const 1000) %q) (data (i32.const 2000) %q)
  (func (export "describe") (result i32)
    (drop (call $clock (i32.const 0) (i64.const 1) (i32.const 0)))
    (if (i64.lt_u (i64.load (i32.const 0)) (i64.const %d))
      (then (call $output (call $block (i32.const 1000) (i32.const %d)) (i64.const %d)))
      (else (call $output (call $block (i32.const 2000) (i32.const %d)) (i64.const %d))))
    (i32.const 0))
  (func (export "authenticate") (result i32) unreachable))`, now, later, time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), len(now), len(now), len(later), len(later))
	testworld.Check(t, os.WriteFile(source, []byte(text), 0o600))
	wasm, err := exec.CommandContext(t.Context(), "wat2wasm", "--output=-", source).Output()
	if err != nil {
		t.Fatalf("wat2wasm (install wabt): %v", err)
	}
	dir, _ := installedModule(t, wasm)
	file := []byte(strings.Replace(acmeFile, "key_id: a, ", "", 1))
	for when, want := range map[time.Time]string{
		time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC): "",
		time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC): `its field secret is "to header" in keywright.lock, and "to header, to token" in the module`,
	} {
		set, err := Read(t.Context(), filepath.Join(dir, "connectors.yaml"), file, Options{Host: host.Config{Clock: func() time.Time { return when }}})
		if err == nil {
			_ = set.Close(t.Context())
		}
		testworld.WantError(t, when.String(), err, want)
	}
}
