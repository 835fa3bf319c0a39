package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const maintainer = "Keywright maintainers <keywright@users.noreply.github.com>"

var (
	// overrides says what lintian is to leave out, and why.
	//
	//go:embed debian/overrides
	overrides []byte
	// copyright is the file about the licence in a deb. NOTICE has the works of others.
	//
	//go:embed debian/copyright
	copyright []byte
)

// writePackages writes a deb and an rpm for each architecture of Linux. Neither starts a service: a gateway without connectors is of no use.
// The files in /etc/keywright are the operator's, and stay after removal.
func (r *release) writePackages(ctx context.Context) (err error) {
	defer catch(&err)
	for _, t := range targets {
		if t.os != "linux" || t.fips {
			continue
		}
		all := r.files(ctx, t)
		for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
			stage := filepath.Join(r.work, format, t.arch)
			info := r.info(t, r.stage(stage, format, all))
			info.Changelog = r.changelog(stage)
			var data bytes.Buffer
			require(packager.Package(info, &data))
			write(filepath.Join(r.dir, packager.ConventionalFileName(info)), data.Bytes())
		}
	}
	return nil
}

func (r *release) info(t target, contents files.Contents) *nfpm.Info {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "keywright", Arch: t.arch, Platform: "linux", Version: r.version, Release: "1", Section: "net", Priority: "optional",
		Maintainer: maintainer, Vendor: "Keywright", Homepage: "https://keywright.github.io/keywright", License: "Apache-2.0", MTime: r.date,
		Description: "Gateway that authenticates requests to external APIs\n" +
			"Keywright adds credentials to the requests of other programs. Each auth type is\n" +
			"a plugin in a sandbox, which never sees a secret.",
		DisableGlobbing: true,
	})
	info.Contents = contents
	info.RPM.BuildHost, info.RPM.Summary = "localhost", strings.SplitN(info.Description, "\n", 2)[0]
	info.Recommends = []string{"ca-certificates"}
	return info
}

// changelog writes the file that both formats make their changelog of.
func (r *release) changelog(dir string) string {
	name := filepath.Join(dir, "changelog.yaml")
	text := fmt.Sprintf("- semver: %s-1\n  date: %s\n  packager: %s\n  deb: {urgency: medium, distributions: [stable]}\n"+
		"  changes: [{note: The changes are listed in CHANGELOG.md of the sources.}]\n", r.version[1:], r.date.Format(time.RFC3339), maintainer)
	write(name, []byte(text))
	return name
}

// stage writes the files of a package into a directory, and returns what the package has.
func (r *release) stage(dir, format string, all []file) (contents files.Contents) {
	add := func(to string, mode fs.FileMode, data []byte) {
		from := filepath.Join(dir, filepath.FromSlash(to))
		contents = append(contents, &files.Content{
			Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date},
		})
		require(os.MkdirAll(filepath.Dir(from), 0o700))
		write(from, data)
	}
	require(os.MkdirAll(dir, 0o700))
	for _, f := range all {
		to := place(format, f.name)
		if to == "" {
			continue
		}
		switch path.Ext(f.name) {
		case ".1":
			to, f.data = to+".gz", compress(f.data)
		case ".service":
			f.data = unit(f.data)
		}
		add(to, f.mode, f.data)
	}
	contents = append(contents, &files.Content{
		Destination: "/etc/keywright/secrets", Type: files.TypeDir,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o700, MTime: r.date},
	})
	if format == "deb" {
		add("/usr/share/lintian/overrides/keywright", 0o644, overrides)
		add("/usr/share/doc/keywright/copyright", 0o644, copyright)
	}
	return contents
}

// places has the paths on a system of files of an archive, or the directories for the files with an extension.
var places = map[string]string{
	"keywright": "/usr/bin/keywright", "NOTICE": "/usr/share/doc/keywright/NOTICE", ".1": "/usr/share/man/man1/",
	".service": "/usr/lib/systemd/system/", ".yaml": "/usr/share/doc/keywright/examples/",
	"completion/keywright.bash": "/usr/share/bash-completion/completions/keywright",
	"completion/keywright.fish": "/usr/share/fish/vendor_completions.d/keywright.fish",
	"rpm completion/_keywright": "/usr/share/zsh/site-functions/_keywright", "rpm LICENSE": "/usr/share/licenses/keywright/LICENSE",
	"deb completion/_keywright": "/usr/share/zsh/vendor-completions/_keywright",
}

// place returns the path on a system of a file of an archive, or "" if a package does not have it.
func place(format, name string) string {
	if dir := places[path.Ext(name)]; dir != "" {
		return dir + path.Base(name)
	}
	return cmp.Or(places[name], places[format+" "+name])
}

// unit returns a unit for a package: the program is in /usr/bin, and no secret is named that is not there.
func unit(text []byte) []byte {
	return []byte(strings.NewReplacer("/usr/local/bin/", "/usr/bin/", "\nLoadCredential=", "\n#LoadCredential=").Replace(string(text)))
}

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
