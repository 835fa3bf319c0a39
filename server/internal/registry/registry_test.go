package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aead.dev/minisign"
	fake "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
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
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	w.client = w.newClient(Options{})
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
	return testworld.Must(artifact.Make([]byte("\x00asm module"), []byte(`{"type":"acme"}`), map[string]string{ocispec.AnnotationVersion: "1.2.0"}))(t)
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
	byDigest.Reference = artifact.Digest(m.Manifest)
	for _, ref := range []Reference{w.ref, byDigest} {
		w.asked = nil
		p := testworld.Must(w.client.Resolve(t.Context(), ref))(t)
		text, err := w.client.Description(t.Context(), ref, p)
		if err != nil || string(text) != string(m.Description) || p.Digest != artifact.Digest(m.Manifest) || p.Annotations[ocispec.AnnotationVersion] != "1.2.0" {
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

// Whatever a registry sends is refused with its reason, in which nothing controls a terminal (threats.md 163 and 169).
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
		"a negative size":                {replace(size, fmt.Sprintf(`"digest":"%s","size":-1`, module)), "size below 0"},
		"another size":                   {replace(size, fmt.Sprintf(`"digest":"%s","size":%d`, module, len(good.Module)+1)), "Content-Length"},
		"a large manifest":               {manifest(text + strings.Repeat(" ", artifact.MaxManifest)), "larger than 64 KiB"},
		"a path as a digest":             {replace(module, "sha256:../../etc/passwd"), "no SHA-256"},
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
	ref.Reference = artifact.Digest(m.Manifest)
	for name, header := range map[string]string{"with its own digest": artifact.Digest([]byte("{}")), "with the digest that was asked for": ref.Reference, "with none": ""} {
		w.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", artifact.TypeManifest)
			if header != "" {
				w.Header().Set("Docker-Content-Digest", header)
			}
			_, _ = io.WriteString(w, "{}")
			return true
		}
		testworld.WantError(t, name, testworld.ErrorOf(w.client.Resolve(t.Context(), ref)), "digest")
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
	c := w.newClient(Options{Timeout: time.Millisecond})
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

// A redirect leads from https to https only, without a password in it, and not without end (threats.md 167).
func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		from, to string
		hops     int
		want     string
	}{
		{"https://a.example/x", "https://b.example/y", 1, ""},
		{"https://a.example/x", "http://a.example/y", 1, "redirects to http, and https was asked for"},
		{"https://a.example/x", "file:///etc/passwd", 1, "redirects to file"},
		{"http://127.0.0.1/x", "http://127.0.0.1/y", 1, ""},
		{"http://127.0.0.1/x", "https://b.example/y", 1, ""},
		{"https://a.example/x", "https://u:p@b.example/y", 1, "with a password"},
		{"https://a.example/x", "https://b.example/y", maxRedirects, ""},
		{"https://a.example/x", "https://b.example/y", maxRedirects + 1, "redirects without end"},
	} {
		from, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.from, http.NoBody)
		to, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.to, http.NoBody)
		via := slices.Repeat([]*http.Request{from}, c.hops)
		testworld.WantError(t, c.from+" to "+c.to, checkRedirect(to, via), c.want)
	}
}

// Signatures of both kinds are found with the manifest, and what is no signature is left out.
func TestSignaturesInARegistry(t *testing.T) {
	w := newRepository(t)
	m := w.push()
	p := testworld.Must(w.client.Resolve(t.Context(), w.ref))(t)
	if all, err := w.client.Signatures(t.Context(), w.ref, p); err != nil || len(all) != 0 {
		t.Errorf("before: %v, %v", all, err)
	}
	_, private, err := minisign.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	file, _ := private.MarshalText()
	signer := testworld.Must(signature.ParsePrivate(file, nil))(t)
	signed := testworld.Must(signer.Sign(rand.Reader, m.Manifest, w.ref.Name(), "acme 1.2.0"))(t)
	cosign := signature.Signature{Key: signature.Key{Kind: signature.Cosign}, Payload: []byte("{}"), Signature: []byte("signature")}
	for _, s := range []signature.Signature{signed, cosign} {
		testworld.Check(t, w.client.PushSignature(t.Context(), w.ref, p.Digest, s))
	}
	all, err := w.client.Signatures(t.Context(), w.ref, p)
	if err != nil || len(all) != 2 || all[0].Verify(signed.Key, p.Text) != nil || all[0].Key != signed.Key || string(all[1].Payload) != "{}" || string(all[1].Signature) != "signature" {
		t.Fatalf("all = %v, err = %v", all, err)
	}
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".minisig") {
			return false
		}
		out.Header().Set("Content-Type", artifact.TypeManifest)
		_, _ = io.WriteString(out, "[]")
		return true
	}
	if all, err := w.client.Signatures(t.Context(), w.ref, p); err != nil || len(all) != 1 {
		t.Errorf("with one that is none: %v, %v", all, err)
	}
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".minisig") {
			out.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	}
	testworld.Fails(w.client.Signatures(t.Context(), w.ref, p))(t, "status 502")
}

// A few signatures of a repository are looked at, and pages without end are an error (threats.md 173).
func TestManySignatures(t *testing.T) {
	w := newRepository(t)
	w.push()
	p := testworld.Must(w.client.Resolve(t.Context(), w.ref))(t)
	endless, pages := false, 0
	w.before = func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		pages++
		var all []string
		for i := range 100 {
			all = append(all, fmt.Sprintf(`{"mediaType":%q,"artifactType":%q,"digest":%q,"size":1}`, artifact.TypeManifest, typeBundle, artifact.Digest(fmt.Append(nil, pages, i))))
		}
		if endless {
			out.Header().Set("Link", fmt.Sprintf("<%s?page=%d>; rel=next", r.URL.Path, pages))
		}
		out.Header().Set("Content-Type", artifact.TypeIndex)
		_, _ = fmt.Fprintf(out, `{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, artifact.TypeIndex, strings.Join(all, ","))
		return true
	}
	w.asked = nil
	if all, err := w.client.Signatures(t.Context(), w.ref, p); err != nil || len(all) != 0 || pages != 1 || len(w.asked) != 3+maxBundles {
		t.Errorf("%d signatures of %d pages, with %d requests: %v", len(all), pages, len(w.asked), err)
	}
	endless = true
	testworld.Fails(w.client.Signatures(t.Context(), w.ref, p))(t, "referrer listing exceeded 4 pages")
}

// The tags of a repository are listed from all pages, which stay with the registry and have an end (threats.md 167 and 173).
func TestTags(t *testing.T) {
	w := newRepository(t)
	w.push()
	testworld.Must(w.client.Push(t.Context(), w.reference("latest"), made(t)))(t)
	if all, err := w.client.Tags(t.Context(), w.ref); err != nil || strings.Join(all, " ") != "1.2.0 latest" {
		t.Errorf("all = %q, err = %v", all, err)
	}
	next := ""
	w.before = func(out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Link", fmt.Sprintf("<%s>; rel=next", next))
		_, _ = io.WriteString(out, `{"tags":["1.2.0"]}`)
		return true
	}
	for link, want := range map[string]string{
		"/v2/acme/hmac/tags/list?last=1.2.0": "tag listing exceeded 16 pages",
		"http://evil.example/v2/":            "not the same origin",
		"file:///etc/passwd":                 "not the same origin",
	} {
		next = link
		testworld.WantError(t, link, testworld.ErrorOf(w.client.Tags(t.Context(), w.ref)), want)
	}
}

// References name their registry and one of tag and digest. Names that are paths are refused (threats.md 168).
func TestReferences(t *testing.T) {
	digest := artifact.Digest(nil)
	for _, good := range []string{
		"registry.example/acme/hmac:1.2.0", "registry.example:5000/hmac:v1", "localhost/hmac:1", "127.0.0.1:5000/a/b/c:x",
		"registry.example/acme/hmac@" + digest,
	} {
		if r, err := ParseReference(good); err != nil || r.String() != good {
			t.Errorf("%s: r = %v, err = %v", good, r, err)
		}
	}
	for _, bad := range []string{
		"", "hmac", "hmac:1.2.0", "acme/hmac:1.2.0", "registry.example/acme/hmac", "registry.example/acme/../hmac:1", "registry.example/../hmac:1",
		"registry.example//hmac:1", "registry.example/acme/hmac:../1", "registry.example/acme/hmac:1.2.0@" + digest, "registry.example/acme/hmac@sha256:0",
		"https://registry.example/acme/hmac:1", "oci://registry.example/acme/hmac:1", "registry.example/acme/hmac@sha512:" + strings.Repeat("0", 128),
		"user:password@registry.example/acme/hmac:1", "registry.example/acme/hmac:1 2", "registry.example/Acme:1", "registry.example/a\n:1",
		"registry.example/" + strings.Repeat("a", 600) + ":1", "registry.example?x/acme:1", "/etc/passwd:1", "./a.wasm:1",
	} {
		if r, err := ParseReference(bad); err == nil {
			t.Errorf("%q is a reference: %+v", bad, r)
		}
	}
	for text, local := range map[string]bool{
		"localhost:5000/a:1": true, "127.0.0.1:5000/a:1": true, "localhost/a:1": true, "127.1.2.3/a:1": true, "registry.example/a:1": false, "10.0.0.1:5000/a:1": false,
		"localhost.example/a:1": false, "127.0.0.1.example/a:1": false,
	} {
		if r, err := ParseReference(text); err != nil || urlcheck.Loopback(r.Registry) != local {
			t.Errorf("%s: on this machine: %v, err = %v", text, !local, err)
		}
	}
}
