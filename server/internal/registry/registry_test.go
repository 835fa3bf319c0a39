package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	fake "github.com/google/go-containerregistry/pkg/registry"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry/artifact"
)

const maxModule = 4096

// A repository is a registry on loopback, with something before it that may change what it answers.
type repository struct {
	*testing.T
	server *httptest.Server
	client *Client
	ref    Reference
	// before, if it is set, may answer in place of the registry.
	before func(w http.ResponseWriter, r *http.Request) bool
	mu     sync.Mutex
	asked  []string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	w := &repository{T: t}
	behind := fake.New(fake.Logger(log.New(io.Discard, "", 0)))
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked = append(w.asked, r.Method+" "+r.URL.Path)
		w.mu.Unlock()
		if w.before == nil || !w.before(out, r) {
			behind.ServeHTTP(out, r)
		}
	}))
	t.Cleanup(w.server.Close)
	w.client = w.newClient(Options{Anonymous: true})
	w.ref = w.reference("1.2.0")
	return w
}

func (w *repository) newClient(o Options) *Client {
	w.Helper()
	o.ModuleBytes = maxModule
	return testworld.Must(New(o))(w)
}

func (w *repository) reference(tag string) Reference {
	w.Helper()
	return testworld.Must(ParseReference(strings.TrimPrefix(w.server.URL, "http://") + "/acme/hmac:" + tag))(w)
}

func made(t *testing.T) artifact.Made {
	t.Helper()
	return testworld.Must(artifact.Make([]byte("\x00asm module"), []byte(`{"type":"acme"}`), map[string]string{artifact.AnnotationVersion: "1.2.0"}))(t)
}

func (w *repository) push() artifact.Made {
	w.Helper()
	m := made(w.T)
	testworld.Must(w.client.Push(w.Context(), w.ref, m))(w)
	return m
}

// A plugin that was pushed is the same when somebody gets it, by its tag and by its digest, and its description needs no module.
func TestPushAndGet(t *testing.T) {
	w := newRepository(t)
	m := w.push()
	byDigest := w.ref
	byDigest.Tag, byDigest.Digest = "", artifact.Digest(m.Manifest)
	for _, ref := range []Reference{w.ref, byDigest} {
		w.asked = nil
		p := testworld.Must(w.client.Resolve(t.Context(), ref))(t)
		text, err := w.client.Description(t.Context(), ref, p)
		if err != nil || string(text) != string(m.Description) || p.Digest != artifact.Digest(m.Manifest) || p.Annotations[artifact.AnnotationVersion] != "1.2.0" {
			t.Errorf("%s: text = %q, err = %v", ref, text, err)
		}
		if asked := strings.Join(w.asked, "\n"); strings.Contains(asked, artifact.Digest(m.Module)) {
			t.Errorf("the module was asked for:\n%s", asked)
		}
		module, err := w.client.Module(t.Context(), ref, p)
		if err != nil || string(module) != string(m.Module) {
			t.Errorf("%s: module = %q, err = %v", ref, module, err)
		}
	}
	testworld.Fails(w.client.Resolve(t.Context(), w.reference("9.9.9")))(t, "does not have it")
	if _, err := w.client.Push(t.Context(), byDigest, m); err == nil {
		t.Error("a plugin is pushed by its digest")
	}
}

// Whatever a registry, or somebody before it, sends in place of what was asked for: it is refused with its reason, in which nothing controls a
// terminal (threats.md 163 and 169).
func TestLyingRegistry(t *testing.T) {
	good := made(t)
	text := string(good.Manifest)
	module, description := artifact.Digest(good.Module), artifact.Digest(good.Description)
	manifest := func(text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			mediaType := artifact.TypeManifest
			if strings.Contains(text, artifact.TypeIndex) {
				mediaType = artifact.TypeIndex
			}
			w.Header().Set("Content-Type", mediaType)
			w.Header().Set("Docker-Content-Digest", artifact.Digest([]byte(text)))
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = io.WriteString(w, text)
			return true
		}
	}
	replace := func(old, now string) func(http.ResponseWriter, *http.Request) bool {
		if !strings.Contains(text, old) {
			t.Fatalf("%s is not in %s", old, text)
		}
		return manifest(strings.Replace(text, old, now, 1))
	}
	blob := func(digest string, content []byte) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, digest) {
				return false
			}
			_, _ = w.Write(content)
			return true
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, module) {
			return false
		}
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return true
			}
		}
	}
	size := fmt.Sprintf(`"digest":"%s","size":%d`, module, len(good.Module))
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		"other bytes of the same length": {blob(module, bytes.Repeat([]byte("x"), len(good.Module))), "bytes with another digest"},
		"fewer bytes":                    {blob(module, good.Module[:5]), "Content-Length"},
		"more bytes":                     {blob(module, append(bytes.Clone(good.Module), 'x')), "Content-Length"},
		"bytes without end":              {endless, "did not send"},
		"another description":            {blob(description, bytes.Repeat([]byte("x"), len(good.Description))), "bytes with another digest"},
		"an index":                       {manifest(`{"schemaVersion":2,"mediaType":"` + artifact.TypeIndex + `","manifests":[]}`), "is an index of several manifests"},
		"an image":                       {replace(artifact.TypeConfig, "application/vnd.oci.image.config.v1+json"), "it is no WebAssembly"},
		"a module of another type":       {replace(artifact.TypeModule, "application/vnd.oci.image.layer.v1.tar"), "a layer that a plugin does not have"},
		"two modules":                    {replace(artifact.TypeDescription, artifact.TypeModule), "a layer that a plugin does not have"},
		"no layers":                      {manifest(`{"schemaVersion":2,"mediaType":"` + artifact.TypeManifest + `","config":{"mediaType":"` + artifact.TypeConfig + `","digest":"` + module + `","size":1},"layers":[]}`), "has no layer of the type application/wasm"},
		"a large module":                 {replace(size, fmt.Sprintf(`"digest":"%s","size":%d`, module, maxModule+1)), "at most 4096 are allowed"},
		"a negative size":                {replace(size, fmt.Sprintf(`"digest":"%s","size":-1`, module)), "size below 0"},
		"a module of no bytes":           {replace(size, fmt.Sprintf(`"digest":"%s","size":0`, module)), "has 0 bytes"},
		"another size":                   {replace(size, fmt.Sprintf(`"digest":"%s","size":%d`, module, len(good.Module)+1)), "Content-Length"},
		"a large manifest":               {manifest(text + strings.Repeat(" ", artifact.MaxManifest)), "larger than 64 KiB"},
		"layers twice":                   {replace(`"layers":`, `"layers":[],"layers":`), "has a member twice"},
		"a path as a digest":             {replace(module, "sha256:../../etc/passwd"), "no SHA-256"},
		"another kind of digest":         {replace(module, "sha512:"+strings.Repeat("0", 128)), "no SHA-256"},
		"a layer that is elsewhere":      {replace(size, size+`,"urls":["https://elsewhere.example/"]`), "is elsewhere"},
		"another schema":                 {replace(`"schemaVersion":2`, `"schemaVersion":1`), "no OCI image manifest"},
		"a page":                         {manifest("<html>"), "no JSON of a manifest"},
		"too many layers":                {replace(`"layers":[`, `"layers":[`+strings.Repeat(`{"mediaType":"x","digest":"`+module+`","size":1},`, 20)), "more than 16 layers"},
		"a failure": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"errors":[{"code":"X","message":"evil words"}]}`)
			return true
		}, "answers with status 500"},
		"a redirect without end": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		}, "redirects without end"},
		"controls of a terminal": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", artifact.TypeManifest)
			w.Header().Set("Docker-Content-Digest", "\u009b31mred")
			_, _ = io.WriteString(w, text)
			return true
		}, "invalid response header value"},
		"a media type with controls": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "\u009b31mred")
			_, _ = io.WriteString(w, text)
			return true
		}, "invalid response `Content-Type` header"},
		"a place for tokens with controls": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+"\u009b31mred"+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, "unsupported scheme"},
		"a redirect to a file": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
			return true
		}, "redirects to file, and http was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRepository(t)
			w.push()
			w.before = c.before
			p, err := w.client.Resolve(t.Context(), w.ref)
			if err == nil {
				_, err = w.client.Description(t.Context(), w.ref, p)
			}
			if err == nil {
				_, err = w.client.Module(t.Context(), w.ref, p)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\u009b\x1b") || strings.Contains(err.Error(), "evil") || !strings.HasPrefix(err.Error(), w.ref.String()) {
				t.Errorf("%v\nand not %s", err, c.want)
			}
		})
	}
}

// What a registry compresses is not expanded: the digest is of the bytes that it sends (threats.md 163).
func TestNoExpansion(t *testing.T) {
	w := newRepository(t)
	m := w.push()
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Errorf("%s may be compressed", r.URL)
		}
		if !strings.HasSuffix(r.URL.Path, artifact.Digest(m.Module)) {
			return false
		}
		out.Header().Set("Content-Encoding", "gzip")
		small := gzip.NewWriter(out)
		_, _ = small.Write(m.Module)
		_ = small.Close()
		return true
	}
	p := testworld.Must(w.client.Resolve(t.Context(), w.ref))(t)
	if _, err := w.client.Module(t.Context(), w.ref, p); err == nil {
		t.Error("bytes with another digest are a module once they are expanded")
	}
}

// A manifest that was asked for by its digest has to have it, whatever the registry says of it (threats.md 163).
func TestManifestDigestMismatch(t *testing.T) {
	w := newRepository(t)
	m := w.push()
	ref := w.ref
	ref.Tag, ref.Digest = "", artifact.Digest(m.Manifest)
	for name, header := range map[string]string{"with its own digest": artifact.Digest([]byte("{}")), "with the digest that was asked for": ref.Digest, "with none": ""} {
		w.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", artifact.TypeManifest)
			if header != "" {
				w.Header().Set("Docker-Content-Digest", header)
			}
			_, _ = io.WriteString(w, "{}")
			return true
		}
		if _, err := w.client.Resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "digest") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// A registry that does not answer holds nobody for longer than the time limit (threats.md 163).
func TestHangingRegistry(t *testing.T) {
	w := newRepository(t)
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	w.before = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-end:
		case <-r.Context().Done():
		}
		return true
	}
	c := w.newClient(Options{Anonymous: true, Timeout: time.Millisecond})
	testworld.Fails(c.Resolve(t.Context(), w.ref))(t, "took longer than 1ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.client.Resolve(ctx, w.ref); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interruption: %v", err)
	}
}

// The credential of docker's file goes to its registry, and not to where that redirects (threats.md 167).
func TestCredentials(t *testing.T) {
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Header.Get("Authorization"))
		_, _ = w.Write(made(t).Module)
	}))
	t.Cleanup(other.Close)
	w := newRepository(t)
	m := w.push()
	const pair = "acme:hunter2hunter2"
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Header.Get("Authorization") != want:
			out.Header().Set("WWW-Authenticate", `Basic realm="acme"`)
			out.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, artifact.Digest(m.Module)):
			http.Redirect(out, r, other.URL+"/blob", http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	testworld.Fails(w.newClient(Options{}).Resolve(t.Context(), w.ref))(t, "wants a credential: run `docker login "+w.ref.Registry)
	write := func(auth string) {
		text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, w.ref.Registry, base64.StdEncoding.EncodeToString([]byte(auth)))
		testworld.Check(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(text), 0o600))
	}
	write("acme:wrongwrong")
	if _, err := w.newClient(Options{}).Resolve(t.Context(), w.ref); err == nil || !strings.Contains(err.Error(), "refuses the credential") || strings.Contains(err.Error(), "wrongwrong") {
		t.Errorf("with a wrong credential: %v", err)
	}
	write(pair)
	c := w.newClient(Options{})
	p := testworld.Must(c.Resolve(t.Context(), w.ref))(t)
	if module, err := c.Module(t.Context(), w.ref, p); err != nil || string(module) != string(m.Module) {
		t.Errorf("module = %q, err = %v", module, err)
	}
	if len(elsewhere) != 1 || elsewhere[0] != "" {
		t.Errorf("elsewhere came %q", elsewhere)
	}
	testworld.Check(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(`{"auths": hunter2`), 0o600))
	if _, err := New(Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}
