// Package artifact has the form of a plugin in a registry: an OCI image manifest with the module as a layer of its own, and the
// description as another one, so that a description can be read without the module.
package artifact

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Media types. Those of the module and its configuration are those of the CNCF's OCI artifacts for WebAssembly.
const (
	TypeManifest    = "application/vnd.oci.image.manifest.v1+json"
	TypeIndex       = "application/vnd.oci.image.index.v1+json"
	TypeConfig      = "application/vnd.wasm.config.v0+json"
	TypeModule      = "application/wasm"
	TypeDescription = "application/vnd.keywright.description.v1+json"
)

// Bounds of what comes from a registry, in bytes.
const (
	MaxManifest    = 64 << 10
	MaxDescription = 512 << 10
)

// Digest returns the digest of bytes.
func Digest(content []byte) string { return digest.FromBytes(content).String() }

var digestSyntax = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// IsDigest reports whether a text is a digest, sha256: and 64 digits in lower case.
func IsDigest(text string) bool { return digestSyntax.MatchString(text) }

// Describe returns the descriptor of content.
func Describe(mediaType string, content []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
}

// maxLayers limits the layers of a manifest. Signatures may have several.
const maxLayers = 16

// Decode reads a manifest of up to [MaxManifest] bytes with whatever layers. It refuses members that are there twice: another reader may differ.
func Decode(text []byte) (*ocispec.Manifest, error) {
	m := &ocispec.Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, errors.New("its manifest is no JSON of a manifest, or has a member twice")
	}
	switch {
	case m.MediaType == TypeIndex:
		return nil, errors.New("it is an index of several manifests, and a plugin is one manifest: name one of them by its digest")
	case m.SchemaVersion != 2 || m.MediaType != TypeManifest:
		return nil, errors.New("it is no OCI image manifest")
	case len(m.Layers) > maxLayers:
		return nil, fmt.Errorf("its manifest has more than %d layers", maxLayers)
	}
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		switch {
		case !IsDigest(d.Digest.String()):
			return nil, errors.New("its manifest names something by what is no SHA-256")
		case d.Size < 0:
			return nil, errors.New("its manifest has a size below 0")
		case len(d.URLs) > 0:
			return nil, errors.New("its manifest has a layer that is elsewhere, by its urls")
		}
	}
	return m, nil
}

// A Plugin is a manifest that has the form of a plugin.
type Plugin struct {
	ocispec.Manifest
	// Module is the layer with the module, Description that with its description, or nil.
	Module      ocispec.Descriptor
	Description *ocispec.Descriptor
}

// Parse reads the manifest of a plugin, whose module may have maxModule bytes.
func Parse(text []byte, maxModule int) (*Plugin, error) {
	m, err := Decode(text)
	if err != nil {
		return nil, err
	}
	if m.Config.MediaType != TypeConfig {
		return nil, errors.New("it is no WebAssembly: its configuration is not of the type " + TypeConfig)
	}
	p := &Plugin{Manifest: *m}
	for i, layer := range m.Layers {
		switch {
		case layer.MediaType == TypeModule && p.Module.Digest == "":
			p.Module = layer
		case layer.MediaType == TypeDescription && p.Description == nil:
			p.Description = &m.Layers[i]
		default:
			return nil, errors.New("it has a layer that a plugin does not have: one module, and at most one description, are wanted")
		}
	}
	switch {
	case p.Module.Digest == "":
		return nil, errors.New("it has no layer of the type " + TypeModule)
	case p.Module.Size == 0 || p.Module.Size > int64(maxModule):
		return nil, fmt.Errorf("its module has %d bytes, and at most %d are allowed", p.Module.Size, maxModule)
	case p.Description != nil && p.Description.Size > MaxDescription:
		return nil, fmt.Errorf("its description has %d bytes, and at most %d are allowed", p.Description.Size, MaxDescription)
	}
	return p, nil
}

// Made is a plugin as it is pushed.
type Made struct {
	Manifest, Config, Module, Description []byte
}

// Make returns the manifest and the configuration of a plugin. The same arguments result in the same bytes.
func Make(module, description []byte, annotations map[string]string) (Made, error) {
	config, err := json.Marshal(struct {
		Architecture string   `json:"architecture"`
		OS           string   `json:"os"`
		Digests      []string `json:"layerDigests"`
	}{"wasm", "wasip1", []string{Digest(module), Digest(description)}})
	if err != nil {
		return Made{}, err
	}
	manifest, err := Encode(ocispec.Manifest{
		Config:      Describe(TypeConfig, config),
		Layers:      []ocispec.Descriptor{Describe(TypeModule, module), Describe(TypeDescription, description)},
		Annotations: annotations,
	})
	return Made{manifest, config, module, description}, err
}

// Encode writes a manifest.
func Encode(m ocispec.Manifest) ([]byte, error) {
	m.SchemaVersion, m.MediaType = 2, TypeManifest
	return json.Marshal(m, json.Deterministic(true))
}
