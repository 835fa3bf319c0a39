package registry

import (
	"context"
	"encoding/base64"
	stdjson "encoding/json" // whose omitempty keeps the member config of an image
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	oras "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// Media types and annotations of signatures.
const (
	typeMinisign      = "application/vnd.keywright.minisign.v1"
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeBundle        = "application/vnd.dev.sigstore.bundle.v0.3+json"
	annotationKey     = "io.github.keywright.key"
	annotationCosign  = "dev.cosignproject.cosign/signature"
)

// maxBundles limits how many bundles of cosign are looked at.
const maxBundles = 8

// tagOf returns the tag with the signatures of a manifest, by the convention of cosign, and the type of their layers.
func tagOf(manifest, kind string) (tag, layerType string) {
	tag = strings.Replace(manifest, ":", "-", 1)
	if kind == signature.Minisign {
		return tag + ".minisig", typeMinisign
	}
	return tag + ".sig", typeSimpleSigning
}

// Signatures gets the signatures of a manifest, of all kinds. None of them is verified. A signature that cannot be read is left out,
// because anybody who can write to the repository can add one; a registry that fails is an error.
func (c *Client) Signatures(ctx context.Context, ref Reference, p *Plugin) ([]signature.Signature, error) {
	return ask(ctx, c, ref, "signatures", func(ctx context.Context, r *remote.Repository) (all []signature.Signature, err error) {
		for _, kind := range []string{signature.Minisign, signature.Cosign} {
			found, err := tagged(ctx, r, p.Digest, kind)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		found, err := bundles(ctx, r, p)
		return append(all, found...), err
	})
}

// layersOf gets the layers of a manifest, or none if there is no such manifest or something else.
func layersOf(ctx context.Context, r *remote.Repository, name string) ([]ocispec.Descriptor, error) {
	text, err := manifest(ctx, r, name)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := artifact.Decode(text)
	if err != nil {
		return nil, nil //nolint:nilerr // it is no signature
	}
	return m.Layers, nil
}

// tagged gets the signatures of a kind of a manifest, subject, under their tag.
func tagged(ctx context.Context, r *remote.Repository, subject, kind string) (all []signature.Signature, err error) {
	tag, layerType := tagOf(subject, kind)
	layers, err := layersOf(ctx, r, tag)
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		if layer.Size > signature.MaxBytes || layer.MediaType != layerType {
			continue
		}
		content, err := fetch(ctx, r, layer)
		if err != nil {
			return nil, err
		}
		s := signature.Signature{Key: signature.Key{Kind: kind}, Signature: content}
		if kind == signature.Cosign {
			s.Payload = content
			s.Signature, _ = base64.StdEncoding.DecodeString(layer.Annotations[annotationCosign])
		}
		if key, err := signature.ParseKey([]byte(layer.Annotations[annotationKey])); err == nil && key.Kind == kind {
			s.Key = key
		}
		all = append(all, s)
	}
	return all, nil
}

// bundles gets the signatures that cosign keeps as referrers of a manifest, in the form of sigstore's bundles.
func bundles(ctx context.Context, r *remote.Repository, p *Plugin) (all []signature.Signature, err error) {
	found, err := oras.Referrers(ctx, r, artifact.Describe(artifact.TypeManifest, p.Text), "")
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(d ocispec.Descriptor) bool {
		return d.ArtifactType != typeBundle && d.ArtifactType != ocispec.MediaTypeEmptyJSON // some registries list the type of its configuration
	})
	for _, d := range found[:min(len(found), maxBundles)] {
		layers, err := layersOf(ctx, r, d.Digest.String()) // a list may name what is not there
		if err != nil {
			return nil, err
		}
		if len(layers) != 1 || layers[0].MediaType != typeBundle || layers[0].Size > signature.MaxBytes {
			continue
		}
		content, err := fetch(ctx, r, layers[0])
		if err != nil {
			return nil, err
		}
		var bundle struct {
			Envelope struct {
				Payload    []byte `json:"payload"`
				Signatures []struct {
					Signature []byte `json:"sig"`
				} `json:"signatures"`
			} `json:"dsseEnvelope"`
		}
		if json.Unmarshal(content, &bundle) != nil {
			continue
		}
		for _, s := range bundle.Envelope.Signatures[:min(len(bundle.Envelope.Signatures), 4)] {
			all = append(all, signature.Signature{Key: signature.Key{Kind: signature.Cosign}, Payload: bundle.Envelope.Payload, Signature: s.Signature})
		}
	}
	return all, nil
}

// PushSignature puts a signature of a manifest where [Client.Signatures] and cosign look for it, in place of its kind.
func (c *Client) PushSignature(ctx context.Context, ref Reference, manifest string, s signature.Signature) error {
	tag, layerType := tagOf(manifest, s.Kind)
	content, config, configType, artifactType := s.Signature, []byte("{}"), ocispec.MediaTypeEmptyJSON, layerType
	annotations := map[string]string{annotationKey: s.Text}
	if s.Kind == signature.Cosign {
		content, configType, artifactType = s.Payload, ocispec.MediaTypeImageConfig, ""
		annotations[annotationCosign] = base64.StdEncoding.EncodeToString(s.Signature)
		image := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(content)}}}
		var err error
		if config, err = stdjson.Marshal(image); err != nil {
			return err
		}
	}
	layer := artifact.Describe(layerType, content)
	layer.Annotations = annotations
	text, err := artifact.Encode(ocispec.Manifest{
		ArtifactType: artifactType, Config: artifact.Describe(configType, config), Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return err
	}
	blobs := map[string][]byte{configType: config, layerType: content}
	_, err = ask(ctx, c, ref, "signature", func(ctx context.Context, r *remote.Repository) (struct{}, error) {
		return struct{}{}, push(ctx, r, tag, blobs, text)
	})
	return err
}
