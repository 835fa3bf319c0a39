package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeImages writes two images, each for both architectures, as archives in the layout of OCI. The second is for FIPS 140-3.
func (r *release) writeImages(ctx context.Context) error {
	for _, fips := range []bool{false, true} {
		tag, suffix := r.version[1:], "_image.tar"
		if fips {
			tag, suffix = tag+"-fips", "_image-fips.tar"
		}
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, t := range targets {
			if t.os != "linux" || t.fips != fips {
				continue
			}
			image, err := r.image(ctx, t)
			if err != nil {
				return err
			}
			descriptor, err := describeImage(image)
			if err != nil {
				return err
			}
			descriptor.Platform = &v1.Platform{OS: t.os, Architecture: t.arch}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: descriptor})
		}
		dir := filepath.Join(r.work, "layout"+suffix)
		path, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
			return err
		}
		files, err := readTree(dir)
		if err != nil {
			return err
		}
		var archive bytes.Buffer
		err = writeTar(&archive, files, r.date)
		if err := write(r.file(suffix), archive.Bytes(), err); err != nil {
			return err
		}
	}
	return nil
}

// describeImage returns the descriptor of an image, without the artifactType that mutate would derive from its configuration.
func describeImage(image v1.Image) (v1.Descriptor, error) {
	size, err := image.Size()
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := image.Digest()
	return v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: size, Digest: digest}, err
}

// image returns the image of a target: the program, its licence, and nothing else. The program has root certificates.
func (r *release) image(ctx context.Context, t target) (v1.Image, error) {
	program, err := os.ReadFile(r.program(t))
	if err != nil {
		return nil, err
	}
	files := []file{{"keywright", 0o755, program}}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		data, err := r.source(ctx, r.commit, name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, data})
	}
	archive, err := packed(files, r.date)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: r.date}
	config.History = []v1.History{{Created: v1.Time{Time: r.date}, CreatedBy: "tools/release"}}
	config.Config = v1.Config{
		// The user is a number, so that Kubernetes can check that it is not root.
		User: "65532:65532", Entrypoint: []string{"/keywright"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Cmd: []string{"serve", "-c", "/config/connectors.yaml", "--secrets-dir", "/secrets", "--listen", "0.0.0.0:8080"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "keywright", "org.opencontainers.image.version": r.version[1:],
			"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.source": "https://" + topPath,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// readTree returns all files of a directory by their paths in it, in their order.
func readTree(dir string) ([]file, error) {
	var all []file
	err := walkFiles(os.DirFS(dir), func(name string, data []byte) { all = append(all, file{name, 0o644, data}) })
	return all, err
}
