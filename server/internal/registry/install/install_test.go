package install

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	fake "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// with returns the description of acme with a change, as version 1.3.0.
func with(change func(*abi.Description)) abi.Description {
	d := acme()
	d.Version = "1.3.0"
	change(&d)
	return d
}

func same(*abi.Description) {}

// publishWith returns a function that publishes version 1.3.0 with a change.
func publishWith(change func(*abi.Description)) func(*repository) {
	return func(w *repository) { w.publish("1.3.0", with(change), w.publisher, nil) }
}

// hide makes the registry not have what the end of a path names.
func (w *repository) hide(end string) {
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		hidden := strings.HasSuffix(r.URL.Path, end)
		if hidden {
			http.NotFound(out, r)
		}
		return hidden
	}
}

// Whatever somebody changes on the way from the publisher to the operator, it is refused with the reason (threats.md 160, 161, 162, 163,
// 168, 169, 171 and 173). Cases with a why are refused until the operator accepts them; the others are errors. TestEditedLock of connectors has
// those on the operator's own machine. They show specification.md "a version that may do more", "the same version, other bytes", "signed at
// first, then not", "the publisher's description" and "the name of a built-in type".
func TestThirtyWaysOfTampering(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(w *repository)
		why    string
		err    string
	}{
		// The bytes.
		"bytes of the module": {tamper: func(w *repository) {
			w.answer(artifact.Digest(w.made.Module), "", bytes.Repeat([]byte("x"), len(w.made.Module)))
		}, err: "bytes with another digest"},
		"a module of another size": {tamper: func(w *repository) { w.answer(artifact.Digest(w.made.Module), "", []byte("x")) }, err: "its module:"},
		"bytes of the description": {tamper: func(w *repository) {
			w.answer(artifact.Digest(w.made.Description), "", bytes.Repeat([]byte("x"), len(w.made.Description)))
		}, err: "bytes with another digest"},
		"no module": {tamper: func(w *repository) { w.hide(artifact.Digest(w.made.Module)) }, err: "the registry does not have it"},
		"a swapped layer": {tamper: func(w *repository) {
			other := module(w.T, with(same))
			w.publishModule("1.2.0", other, w.made.Description, "1.2.0", nil)
			w.answer("/manifests/1.2.0", artifact.TypeManifest, bytes.Replace(w.made.Manifest, []byte(artifact.Digest(w.made.Module)), []byte(artifact.Digest(other)), 1))
		}, err: `says that it is version "1.2.0", and its module says "1.3.0"`},
		"a module that is none": {tamper: func(w *repository) {
			w.publishModule("1.2.0", []byte("hello"), w.made.Description, "1.2.0", w.publisher)
		}, err: "no WebAssembly module"},
		"a module that wants files": {tamper: func(w *repository) { w.publishModule("1.2.0", opens(w.T), w.made.Description, "1.2.0", w.publisher) }, err: "path_open"},
		"an index for the manifest": {tamper: func(w *repository) {
			w.answer("/manifests/", artifact.TypeIndex, []byte(`{"schemaVersion":2,"mediaType":"`+artifact.TypeIndex+`","manifests":[]}`))
		}, err: "is an index of several manifests"},
		"an oversized layer": {tamper: func(w *repository) { w.answer("/manifests/", artifact.TypeManifest, resized(w, 1<<40)) }, err: "are allowed"},
		"an oversized manifest": {tamper: func(w *repository) {
			w.answer("/manifests/", artifact.TypeManifest, append(w.made.Manifest, make([]byte, artifact.MaxManifest)...))
		}, err: "larger than 64 KiB"},
		"a layer at a URL": {tamper: func(w *repository) {
			w.answer("/manifests/", artifact.TypeManifest, bytes.Replace(w.made.Manifest, []byte(`"size"`), []byte(`"urls":["https://evil.example/"],"size"`), 2))
		}, err: "is elsewhere"},
		"a path as a digest": {tamper: func(w *repository) {
			w.answer("/manifests/", artifact.TypeManifest, bytes.Replace(w.made.Manifest, []byte(artifact.Digest(w.made.Module)), []byte("sha256:../../../../etc/passwd"), 1))
		}, err: "no SHA-256"},
		"a second list of layers": {tamper: func(w *repository) {
			w.answer("/manifests/", artifact.TypeManifest, bytes.Replace(w.made.Manifest, []byte(`"layers"`), []byte(`"layers":[],"layers"`), 1))
		}, err: "a member twice"},
		// The version.
		"a tag that was moved": {tamper: func(w *repository) {
			d := with(same)
			d.Version, d.Summary = "1.2.0", "Other."
			w.publish("1.2.0", d, w.publisher, nil)
		}, why: lock.WhyLower},
		"a downgrade": {tamper: func(w *repository) { d := with(same); d.Version = "1.1.0"; w.publish("latest", d, w.publisher, nil) }, why: lock.WhyLower},
		"an old version under a new tag": {tamper: func(w *repository) {
			w.before = func(_ http.ResponseWriter, r *http.Request) bool {
				r.URL.Path = strings.Replace(r.URL.Path, "/manifests/1.3.0", "/manifests/1.2.0", 1)
				return false
			}
		}, err: "the tag is 1.3.0, and the plugin says that it is version 1.2.0"},
		"a version that is a lie": {tamper: func(w *repository) { w.publishModule("1.3.0", w.made.Module, w.made.Description, "1.3.0", w.publisher) }, err: `says that it is version "1.3.0", and its module says "1.2.0"`},
		"another contract":        {tamper: publishWith(func(d *abi.Description) { d.ABI = 2 }), err: "abi is 2"},
		// The signature.
		"another signer":             {tamper: func(w *repository) { w.publish("1.3.0", with(same), minisigner(w.T), nil) }, why: lock.WhySigner},
		"another kind of signer":     {tamper: func(w *repository) { w.publish("1.3.0", with(same), cosigner(w.T), nil) }, why: lock.WhySigner},
		"no signature":               {tamper: func(w *repository) { w.publish("1.3.0", with(same), nil, nil) }, why: lock.WhyUnsigned},
		"a signature that is hidden": {tamper: func(w *repository) { w.hide(".minisig") }, why: lock.WhyUnsigned},
		"the signature of another version": {tamper: func(w *repository) {
			made := w.publish("1.3.0", with(same), nil, nil)
			w.sign(made.Manifest, w.made.Manifest, w.publisher)
		}, why: lock.WhyUnsigned},
		"the key of the publisher on another signature": {tamper: func(w *repository) {
			made := w.publish("1.3.0", with(same), nil, nil)
			key, _ := w.publisher.Key()
			s, _ := minisigner(w.T).Sign(rand.Reader, made.Manifest, w.name, "acme")
			s.Key = key
			w.pushSignature(made.Manifest, s)
		}, why: lock.WhyUnsigned},
		"a wrong key of the operator": {tamper: func(w *repository) { key, _ := minisigner(w.T).Key(); w.options.Key = &key }, err: "no signature with the key of --key"},
		// What the plugin may do.
		"wider sinks":            {tamper: publishWith(func(d *abi.Description) { d.Fields[0].Sinks = append(d.Fields[0].Sinks, contract.SinkToken) }), why: lock.WhyWider},
		"a field in plain":       {tamper: publishWith(func(d *abi.Description) { d.Fields[0].Sealed = false }), why: lock.WhyWider},
		"another group":          {tamper: publishWith(func(d *abi.Description) { d.Uses = append(d.Uses, contract.GroupSecret) }), why: lock.WhyWider},
		"wider answers":          {tamper: publishWith(answers), why: lock.WhyWider},
		"no credential":          {tamper: publishWith(func(d *abi.Description) { d.Anonymous = true }), why: lock.WhyWider},
		"another type's name":    {tamper: publishWith(func(d *abi.Description) { d.Type = "globex" }), why: lock.WhyWider},
		"a new alias":            {tamper: publishWith(func(d *abi.Description) { d.Aliases = []string{"globex"} }), why: lock.WhyWider},
		"a built-in type":        {tamper: publishWith(func(d *abi.Description) { d.Type = "jwt" }), err: `auth type or alias "jwt" is that of a built-in one`},
		"an alias of a built-in": {tamper: publishWith(func(d *abi.Description) { d.Aliases = []string{"apikey"} }), err: `auth type or alias "apikey" is that of a built-in one`},
		"a lie about its sinks": {tamper: func(w *repository) {
			said, _ := json.Marshal(with(same))
			w.publish("1.3.0", with(func(d *abi.Description) { d.Fields[0].Sinks = append(d.Fields[0].Sinks, contract.SinkToken) }), w.publisher, said)
		}, err: `says that its field secret is "to header", and its module says "to header, to token"`},
		"a description without end": {tamper: func(w *repository) {
			said, _ := json.Marshal(with(func(d *abi.Description) { d.Fields = make([]abi.Field, 5000) }))
			w.publish("1.3.0", with(same), w.publisher, said)
		}, err: "has 5000 fields, and 256 are allowed"},
		"controls of a terminal in an import": {tamper: func(w *repository) {
			w.publishModule("1.2.0", assemble(w.T, "(module (import \"\u009b31m\" \"\u009b32m\" (func)))"), w.made.Description, "1.2.0", w.publisher)
		}, err: `it imports "\u009b31m"`},
		"a description of no use": {tamper: func(w *repository) { w.publish("1.3.0", with(same), w.publisher, []byte("<html>")) }, err: "no JSON of a description"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRepository(t)
			c.tamper(w)
			tag := "latest"
			for _, other := range []string{"1.3.0", "1.2.0"} {
				if _, err := w.options.Client.Resolve(t.Context(), w.ref(tag)); err != nil {
					tag = other
				}
			}
			r, err := w.get(tag)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), w.name) {
					t.Errorf("%v\nand not %s", err, c.err)
				}
				return
			}
			testworld.Check(t, err)
			refused := lock.Refused(r.Changes)
			if len(refused) != 1 || refused[0].Why != c.why {
				t.Errorf("%+v\nand not %s", refused, c.why)
			}
		})
	}
}

// What an operator accepts has a digest. It is another one if the registry answers in another way once they have decided (threats.md
// 170, specification.md "what is accepted").
func TestAcceptShownUpdate(t *testing.T) {
	w := newRepository(t)
	wide := with(func(d *abi.Description) { d.Fields[0].Sinks = append(d.Fields[0].Sinks, contract.SinkToken) })
	digest := func() string {
		t.Helper()
		r := testworld.Must(w.get("1.3.0"))(t)
		digest, err := r.Plugin.Digest()
		if err != nil || !artifact.IsDigest(digest) {
			t.Fatalf("digest = %q, err = %v", digest, err)
		}
		return digest
	}
	w.publish("1.3.0", wide, w.publisher, nil)
	shown := digest()
	if digest() != shown {
		t.Error("the same answers have another digest")
	}
	w.hide(".minisig")
	if digest() == shown {
		t.Error("the signature is gone, and the digest is the same")
	}
	w.before = nil
	wider := wide
	wider.Uses = append(wider.Uses, contract.GroupSecret)
	w.publish("1.3.0", wider, w.publisher, nil)
	if digest() == shown {
		t.Error("another plugin has the same digest")
	}
}

// The next version of the same publisher, who changes nothing that matters, is not refused.
func TestAcceptedUpdate(t *testing.T) {
	w := newRepository(t)
	w.publish("1.3.0", with(func(d *abi.Description) { d.Summary = "It signs better." }), w.publisher, nil)
	r, err := w.get("1.3.0")
	if err != nil || len(lock.Refused(r.Changes)) > 0 || len(r.Changes) == 0 {
		t.Errorf("r = %+v, err = %v", r, err)
	}
	if r.Plugin.Version != "1.3.0" || r.Plugin.Source != "https://git.example/acme" || r.Plugin.Revision != "0123abc" || !r.Plugin.Signer.Same(w.accepted.Signer) {
		t.Errorf("r.Plugin = %+v", r.Plugin)
	}
}

// A signature of cosign's brings its key if keywright pushed it, and otherwise needs that of the operator (specification.md "which key").
func TestTheFirstKey(t *testing.T) {
	w := newRepository(t)
	w.accepted = nil
	signer := cosigner(t)
	key, _ := signer.Key()
	d := acme()
	d.Version = "2.0.0"
	w.publish("2.0.0", d, signer, nil)
	if r, err := w.get("2.0.0"); err != nil || r.Plugin.Signer.String() != key.String() {
		t.Errorf("with its key: %+v, %v", r, err)
	}
	d.Version = "3.0.0"
	made := w.publish("3.0.0", d, nil, nil)
	s, _ := signer.Sign(rand.Reader, made.Manifest, w.name, "")
	s.Text = ""
	w.pushSignature(made.Manifest, s)
	testworld.Fails(w.get("3.0.0"))(t, "name the file of the public key with --key")
	w.options.Key = &key
	if r, err := w.get("3.0.0"); err != nil || r.Plugin.Signer.String() != key.String() {
		t.Errorf("with the key of the operator: %+v, %v", r, err)
	}
	w.options.Key = nil
	d.Version = "4.0.0"
	made = w.publish("4.0.0", d, nil, nil)
	w.sign(made.Manifest, []byte("{}"), w.publisher)
	testworld.Fails(w.get("4.0.0"))(t, "its signature is not one of this manifest")
}

// A version that nobody signed can be the first one, and a signature later is not refused (specification.md "signed at first, then not").
func TestUnsignedPlugin(t *testing.T) {
	w := newRepository(t)
	w.accepted = nil
	d := acme()
	d.Summary = "By nobody."
	w.publish("1.2.0", d, nil, nil)
	r, err := w.get("1.2.0")
	if err != nil || r.Plugin.Signer != nil {
		t.Fatalf("r = %+v, err = %v", r, err)
	}
	w.accepted = &r.Plugin
	w.publish("1.3.0", with(same), w.publisher, nil)
	if r, err = w.get("1.3.0"); err != nil || r.Plugin.Signer == nil || len(lock.Refused(r.Changes)) > 0 {
		t.Errorf("r = %+v, err = %v", r, err)
	}
}

// sign puts a signature of some text where the one of a manifest belongs.
func (w *repository) sign(manifest, text []byte, signer *signature.Signer) {
	w.Helper()
	s := testworld.Must(signer.Sign(rand.Reader, text, w.name, "acme"))(w)
	w.pushSignature(manifest, s)
}

func (w *repository) pushSignature(manifest []byte, s signature.Signature) {
	w.Helper()
	testworld.Check(w, w.options.Client.PushSignature(w.Context(), w.ref("1.2.0"), artifact.Digest(manifest), s))
}

func answers(d *abi.Description) {
	d.Answers = []abi.Answer{{Name: "token", From: "json:/token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}}
}

// resized returns the manifest with another size of the module.
func resized(w *repository, size int64) []byte {
	var m map[string]any
	testworld.Check(w, json.Unmarshal(w.made.Manifest, &m))
	m["layers"].([]any)[0].(map[string]any)["size"] = size
	return testworld.Must(json.Marshal(m))(w)
}

// opens returns a module that imports a function of WASI for files.
func opens(t *testing.T) []byte {
	t.Helper()
	return assemble(t, `(module
  (import "wasi_snapshot_preview1" "path_open" (func (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (func (export "describe") (result i32) (i32.const 0)) (func (export "authenticate") (result i32) (i32.const 0)))`)
}

// The bytes of a lock are put back from the registry by their digests, wherever the tag leads by then, and from this machine without it.
func TestRestore(t *testing.T) {
	w := newRepository(t)
	w.publish("1.2.0", with(same), nil, nil) // the tag moves
	const most = 1 << 20
	vendor, cache := filepath.Join(t.TempDir(), "vendor"), filepath.Join(t.TempDir(), "cache")
	restore := func(dir string, places ...string) (bool, error) {
		return Restore(t.Context(), w.options.Client, w.accepted, dir, places, most)
	}
	if asked, err := restore(cache, cache); err != nil || !asked {
		t.Fatalf("from the registry: %v, %v", asked, err)
	}
	w.before = func(out http.ResponseWriter, r *http.Request) bool { http.NotFound(out, r); return true }
	if asked, err := restore(vendor, vendor, cache); err != nil || asked {
		t.Errorf("from the cache: %v, %v", asked, err)
	}
	if wasm, _, err := w.accepted.Open(lock.Places{vendor}, most); err != nil || string(wasm) != string(w.made.Module) {
		t.Errorf("err = %v", err)
	}
	testworld.Fails(restore(filepath.Join(t.TempDir(), "other"), t.TempDir()))(t, "does not have it")
}

// A repository is a registry on loopback with a publisher, an operator who has accepted version 1.2.0, and somebody between them.
type repository struct {
	*testing.T
	options   Options
	publisher *signature.Signer
	// before, if it is set, may answer in place of the registry.
	before func(w http.ResponseWriter, r *http.Request) bool
	name   string
	// accepted is the version in the lock of the operator, and made the plugin as it was pushed.
	accepted *lock.Plugin
	made     artifact.Made
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	w := &repository{T: t, publisher: minisigner(t)}
	behind := fake.New(fake.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.before == nil || !w.before(out, r) {
			behind.ServeHTTP(out, r)
		}
	}))
	t.Cleanup(server.Close)
	w.name = strings.TrimPrefix(server.URL, "http://") + "/acme/hmac"
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	client, err := registry.New(registry.Options{ModuleBytes: host.Limits{}.WithDefaults().ModuleBytes})
	testworld.Check(t, err)
	w.options = Options{Client: client}
	w.made = w.publish("1.2.0", acme(), w.publisher, nil)
	r := testworld.Must(w.get("1.2.0"))(t)
	w.accepted = &r.Plugin
	return w
}

// acme returns a description as its publisher and its module have it.
func acme() abi.Description {
	return abi.Description{ABI: 1, Type: "acme", Version: "1.2.0", Summary: "It signs.", Uses: []string{contract.GroupSign}, Fields: []abi.Field{
		{Name: "secret", Kind: abi.KindString, Sealed: true, Required: true, Sinks: []string{contract.SinkHeader}},
	}}
}

func minisigner(t *testing.T) *signature.Signer {
	t.Helper()
	_, private, err := minisign.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	text, _ := private.MarshalText()
	return signerOf(t, text)
}

func cosigner(t *testing.T) *signature.Signer {
	t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return signerOf(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func signerOf(t *testing.T, text []byte) *signature.Signer {
	t.Helper()
	return testworld.Must(signature.ParsePrivate(text, nil))(t)
}

// module returns a module with a description, assembled with wat2wasm, of the Debian package wabt.
func module(t *testing.T, d abi.Description) []byte {
	t.Helper()
	text := testworld.Must(json.Marshal(d))(t)
	return assemble(t, fmt.Sprintf(`(module
  (import "extism:host/user" "block_new" (func $block (param i32 i32) (result i64)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory 1 1)
  (data (i32.const 0) %q)
  (func (export "describe") (result i32)
    (call $output (call $block (i32.const 0) (i32.const %d)) (i64.const %d))
    (i32.const 0))
  (func (export "authenticate") (result i32) unreachable))`, text, len(text), len(text)))
}

func assemble(t *testing.T, text string) []byte {
	t.Helper()
	source := testworld.File(t, "module.wat", text)
	wasm, err := exec.CommandContext(t.Context(), "wat2wasm", "--output=-", source).Output()
	if err != nil {
		t.Fatalf("wat2wasm (install wabt): %v", err)
	}
	return wasm
}

// publish pushes a plugin under a tag. It is signed if signer is not nil. If said is not nil, it is the description beside the module.
func (w *repository) publish(tag string, d abi.Description, signer *signature.Signer, said []byte) artifact.Made {
	w.Helper()
	if said == nil {
		said, _ = json.Marshal(d)
	}
	return w.publishModule(tag, module(w.T, d), said, d.Version, signer)
}

func (w *repository) publishModule(tag string, wasm, said []byte, version string, signer *signature.Signer) artifact.Made {
	w.Helper()
	made, err := artifact.Make(wasm, said, map[string]string{
		ocispec.AnnotationVersion: version, ocispec.AnnotationSource: "https://git.example/acme", ocispec.AnnotationRevision: "0123abc",
	})
	if err == nil {
		_, err = w.options.Client.Push(w.Context(), w.ref(tag), made)
	}
	if err == nil && signer != nil {
		var s signature.Signature
		if s, err = signer.Sign(rand.Reader, made.Manifest, w.name, "acme"); err == nil {
			err = w.options.Client.PushSignature(w.Context(), w.ref(tag), artifact.Digest(made.Manifest), s)
		}
	}
	if err != nil {
		w.Fatal(err)
	}
	return made
}

func (w *repository) ref(tag string) registry.Reference {
	w.Helper()
	return testworld.Must(registry.ParseReference(w.name + ":" + tag))(w)
}

// get gets a version as plugin update does.
func (w *repository) get(tag string) (*Result, error) {
	return Get(w.Context(), w.options, "acme", w.name+":"+tag, w.accepted)
}

// answer answers requests whose path has a part, in place of the registry.
func (w *repository) answer(part, mediaType string, content []byte) {
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		out.Header().Set("Content-Type", mediaType)
		out.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = out.Write(content)
		return true
	}
}
