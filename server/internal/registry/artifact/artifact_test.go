package artifact

import (
	"fmt"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	maxModule = 100
	noDigest  = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// The same plugin is the same manifest each time, and what was made is read again.
func TestMakeAndParse(t *testing.T) {
	annotations := map[string]string{ocispec.AnnotationVersion: "1.2.0", ocispec.AnnotationTitle: "acme", ocispec.AnnotationSource: "https://git.example"}
	one := testworld.Must(Make([]byte("module"), []byte("description"), annotations))(t)
	for range 10 {
		if two, err := Make([]byte("module"), []byte("description"), annotations); err != nil || string(two.Manifest) != string(one.Manifest) || string(two.Config) != string(one.Config) {
			t.Fatalf("%s\nand\n%s, %v", one.Manifest, two.Manifest, err)
		}
	}
	p, err := Parse(one.Manifest, maxModule)
	if err != nil || p.Module.Digest.String() != Digest([]byte("module")) || p.Module.Size != 6 || p.Description.Digest.String() != Digest([]byte("description")) || p.Annotations[ocispec.AnnotationVersion] != "1.2.0" {
		t.Errorf("p = %+v, err = %v", p, err)
	}
	if want := `{"architecture":"wasm","os":"wasip1","layerDigests":["` + Digest([]byte("module")) + `","` + Digest([]byte("description")) + `"]}`; string(one.Config) != want || p.Config.Digest.String() != Digest(one.Config) {
		t.Errorf("one.Config = %s", one.Config)
	}
}

// layer returns a layer of a manifest.
func layer(mediaType string, size int) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, mediaType, noDigest, size)
}

// manifest returns a manifest with layers.
func manifest(layers ...string) string {
	return `{"schemaVersion":2,"mediaType":"` + TypeManifest + `","config":` + layer(TypeConfig, 2) + `,"layers":[` + strings.Join(layers, ",") + `]}`
}

// A manifest has the layers of a plugin, within their bounds, and nothing else (threats.md 163).
func TestParse(t *testing.T) {
	module, description := layer(TypeModule, maxModule), layer(TypeDescription, MaxDescription)
	many := func(n int) string {
		return manifest(append([]string{module}, strings.Split(strings.Repeat("x,", n-1)+"x", ",")...)...)
	}
	padded := manifest(module) + strings.Repeat(" ", MaxManifest-len(manifest(module)))
	for name, c := range map[string]struct{ text, want string }{
		"a module":                          {manifest(module), ""},
		"with a description":                {manifest(description, module), ""},
		"of the largest size":               {padded, ""},
		"with a large module":               {manifest(layer(TypeModule, maxModule+1)), "its module has 101 bytes, and at most 100 are allowed"},
		"with an empty module":              {manifest(layer(TypeModule, 0)), "its module has 0 bytes"},
		"with a large description":          {manifest(module, layer(TypeDescription, MaxDescription+1)), "its description has 524289 bytes"},
		"with two modules":                  {manifest(module, module), "a layer that a plugin does not have"},
		"with two descriptions":             {manifest(module, description, description), "a layer that a plugin does not have"},
		"with something else":               {manifest(module, layer("text/plain", 1)), "a layer that a plugin does not have"},
		"without a module":                  {manifest(description), "has no layer of the type application/wasm"},
		"with a size below 0":               {manifest(layer(TypeModule, -1)), "a size below 0"},
		"of another schema":                 {strings.Replace(manifest(module), `:2,"media`, `:1,"media`, 1), "no OCI image manifest"},
		"of docker":                         {strings.Replace(manifest(module), TypeManifest, "application/vnd.docker.distribution.manifest.v2+json", 1), "no OCI image manifest"},
		"that is an index":                  {strings.Replace(manifest(module), TypeManifest, TypeIndex, 1), "an index of several manifests"},
		"of an image":                       {strings.Replace(manifest(module), TypeConfig, "application/vnd.oci.image.config.v1+json", 1), "it is no WebAssembly"},
		"with a layer elsewhere":            {strings.Replace(manifest(module), `"size":100`, `"size":100,"urls":["https://x.example"]`, 1), "is elsewhere"},
		"with a digest in capitals":         {strings.Replace(manifest(module), noDigest, strings.Replace(noDigest, "00", "AA", 1), 2), "no SHA-256"},
		"with a configuration by no digest": {strings.Replace(manifest(module), noDigest, "sha256:0", 1), "no SHA-256"},
		"with a member twice":               {strings.Replace(manifest(module), `"layers"`, `"layers":[],"layers"`, 1), "has a member twice"},
		"with something behind it":          {manifest(module) + "{}", "no JSON of a manifest"},
		"with another case":                 {strings.Replace(manifest(module), `"layers"`, `"Layers"`, 1), "has no layer of the type"},
		"that is none":                      {many(2), "no JSON of a manifest"},
		"with 16 layers":                    {manifest(strings.Split(strings.Repeat(module+"|", 15)+module, "|")...), "a layer that a plugin does not have"},
		"with 17 layers":                    {manifest(strings.Split(strings.Repeat(module+"|", 16)+module, "|")...), "more than 16 layers"},
	} {
		testworld.WantError(t, name, testworld.ErrorOf(Parse([]byte(c.text), maxModule)), c.want)
	}
}
