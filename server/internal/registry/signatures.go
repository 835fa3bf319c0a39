package registry

import (
	"context"
	"encoding/base64"
	stdjson "encoding/json" // whose omitempty keeps the member config of an image
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// Media types and annotations of signatures.
const (
	typeMinisign      = "application/vnd.keywright.minisign.v1"
	typeEmpty         = ocispec.MediaTypeEmptyJSON
	typeImageConfig   = ocispec.MediaTypeImageConfig
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeBundle        = "application/vnd.dev.sigstore.bundle.v0.3+json"
	annotationKey     = "io.github.keywright.key"
	annotationCosign  = "dev.cosignproject.cosign/signature"
)

// maxBundles limits how many bundles of cosign are looked at.
const maxBundles = 8

// tagOf returns the tag with the signatures of a manifest, by the convention of cosign.
func tagOf(manifest, kind string) string {
	suffix := map[string]string{signature.Minisign: ".minisig", signature.Cosign: ".sig"}[kind]
	return strings.Replace(manifest, ":", "-", 1) + suffix
}

// Signatures gets the signatures of a manifest, of all kinds. None of them is verified. A signature that cannot be read is left out,
// because anybody who can write to the repository can add one; a registry that fails is an error.
func (c *Client) Signatures(ctx context.Context, ref Reference, p *Plugin) (all []signature.Signature, err error) {
	err = c.ask(ctx, ref, func(ctx context.Context, r *remote.Repository) error {
		if all, err = signatures(ctx, r, p); err != nil {
			return fmt.Errorf("its signatures: %w", err)
		}
		return nil
	})
	return all, err
}

func signatures(ctx context.Context, r *remote.Repository, p *Plugin) (all []signature.Signature, err error) {
	for _, kind := range []string{signature.Minisign, signature.Cosign} {
		found, err := tagged(ctx, r, tagOf(p.Digest, kind), kind)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	found, err := bundles(ctx, r, p)
	return append(all, found...), err
}

// tagged gets the signatures under a tag.
func tagged(ctx context.Context, r *remote.Repository, tag, kind string) (all []signature.Signature, err error) {
	text, err := manifest(ctx, r, tag)
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
	for _, layer := range m.Layers {
		if layer.Size > signature.MaxBytes || layer.MediaType != map[string]string{signature.Minisign: typeMinisign, signature.Cosign: typeSimpleSigning}[kind] {
			continue
		}
		content, err := fetch(ctx, r, layer)
		if err != nil {
			return nil, err
		}
		s := signature.Signature{Kind: kind, Signature: content}
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
	subject := artifact.Describe(artifact.TypeManifest, p.Text)
	var found []ocispec.Descriptor
	err = r.Referrers(ctx, subject, "", func(some []ocispec.Descriptor) error {
		for _, d := range some {
			if d.ArtifactType == typeBundle || d.ArtifactType == typeEmpty { // some registries list the type of its configuration
				found = append(found, d)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	for _, d := range found[:min(len(found), maxBundles)] {
		text, err := manifest(ctx, r, d.Digest.String())
		if errors.Is(err, errdef.ErrNotFound) {
			continue // a list may name what is not there
		}
		if err != nil {
			return nil, err
		}
		m, err := artifact.Decode(text)
		if err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != typeBundle || m.Layers[0].Size > signature.MaxBytes {
			continue
		}
		content, err := fetch(ctx, r, m.Layers[0])
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
			all = append(all, signature.Signature{Kind: signature.Cosign, Payload: bundle.Envelope.Payload, Signature: s.Signature})
		}
	}
	return all, nil
}

// PushSignature puts a signature of a manifest into a registry, where [Client.Signatures] and cosign look for it. It replaces those
// of the same kind that are there.
func (c *Client) PushSignature(ctx context.Context, ref Reference, manifest string, s signature.Signature) error {
	content, config := s.Signature, []byte("{}")
	configType, layer := typeEmpty, artifact.Describe(typeMinisign, content)
	layer.Annotations = map[string]string{annotationKey: s.Key.Text}
	if s.Kind == signature.Cosign {
		content, configType, layer = s.Payload, typeImageConfig, artifact.Describe(typeSimpleSigning, s.Payload)
		layer.Annotations = map[string]string{annotationKey: s.Key.Text, annotationCosign: base64.StdEncoding.EncodeToString(s.Signature)}
		image := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}}}
		var err error
		if config, err = stdjson.Marshal(image); err != nil {
			return err
		}
	}
	artifactType := ""
	if s.Kind == signature.Minisign {
		artifactType = typeMinisign
	}
	text, err := artifact.Encode(ocispec.Manifest{
		ArtifactType: artifactType, Config: artifact.Describe(configType, config), Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return err
	}
	blobs := map[string][]byte{configType: config, layer.MediaType: content}
	return c.ask(ctx, ref, func(ctx context.Context, r *remote.Repository) error {
		if err := push(ctx, r, tagOf(manifest, s.Kind), blobs, text); err != nil {
			return fmt.Errorf("its signature: %w", err)
		}
		return nil
	})
}
