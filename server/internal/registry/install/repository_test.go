package install

import (
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
	"strings"
	"testing"

	"aead.dev/minisign"
	fake "github.com/google/go-containerregistry/pkg/registry"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

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
	client, err := registry.New(registry.Options{Anonymous: true, ModuleBytes: host.Limits{}.WithDefaults().ModuleBytes})
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
		artifact.AnnotationVersion: version, artifact.AnnotationSource: "https://git.example/acme", artifact.AnnotationRevision: "0123abc",
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
