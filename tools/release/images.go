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
func (r *release) writeImages(ctx context.Context) (err error) {
	defer catch(&err)
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
			image := r.image(ctx, t)
			// The descriptor is without the artifactType that mutate would derive from the image's configuration.
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
				MediaType: types.OCIManifestSchema1, Size: must(image.Size()), Digest: must(image.Digest()),
				Platform: &v1.Platform{OS: t.os, Architecture: t.arch},
			}})
		}
		dir := filepath.Join(r.work, "layout"+suffix)
		path := must(layout.Write(dir, empty.Index))
		require(path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})))
		write(r.file(suffix), tarred(filesIn(dir), r.date))
	}
	return nil
}

// image returns the image of a target: the program, its licence, and nothing else. The program has root certificates.
func (r *release) image(ctx context.Context, t target) v1.Image {
	files := []file{{"keywright", 0o755, must(os.ReadFile(r.program(t)))}}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		files = append(files, file{name, 0o644, r.source(ctx, r.commit, name)})
	}
	archive := packed(files, r.date)
	layer := must(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer)))
	image := must(mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer))
	config := must(image.ConfigFile()).DeepCopy()
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
	return must(mutate.ConfigFile(image, config))
}
