package registry

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

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
	cosign := signature.Signature{Kind: signature.Cosign, Payload: []byte("{}"), Signature: []byte("signature")}
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

// A repository may have any number of signatures. A few of them are looked at, and pages without end are an
// error (threats.md 173).
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
		if _, err := w.client.Tags(t.Context(), w.ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v", link, err)
		}
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
		if r, err := ParseReference(text); err != nil || r.local() != local {
			t.Errorf("%s: r.local() = %v, err = %v", text, r.local(), err)
		}
	}
}
