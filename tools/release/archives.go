package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"github.com/CycloneDX/cyclonedx-go"
)

// A file is one of an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// tarred returns an archive whose bytes depend on nothing but its files and the date.
func tarred(files []file, date time.Time) []byte {
	var all bytes.Buffer
	archive := tar.NewWriter(&all)
	for _, f := range files {
		require(archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: date, Format: tar.FormatUSTAR,
		}))
		must(archive.Write(f.data))
	}
	require(archive.Close())
	return all.Bytes()
}

// zipped is like packed, for a zip archive.
func zipped(files []file, date time.Time) []byte {
	var all bytes.Buffer
	archive := zip.NewWriter(&all)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(f.mode)
		must(must(archive.CreateHeader(header)).Write(f.data))
	}
	require(archive.Close())
	return all.Bytes()
}

// packed returns an archive in tar and gzip.
func packed(files []file, date time.Time) []byte { return compress(tarred(files, date)) }

// compress compresses a file without its name and date.
func compress(data []byte) []byte {
	var compressed bytes.Buffer
	w := must(gzip.NewWriterLevel(&compressed, gzip.BestCompression))
	must(w.Write(data))
	require(w.Close())
	return compressed.Bytes()
}

// writeArchives writes an archive for each target, and one of the chart.
func (r *release) writeArchives(ctx context.Context) (err error) {
	defer catch(&err)
	for _, t := range targets {
		if t.fips {
			continue // images alone have it
		}
		files := r.files(ctx, t)
		name := r.file("_" + t.String())
		for i := range files {
			files[i].name = filepath.Base(name) + "/" + files[i].name
		}
		pack, suffix := packed, ".tar.gz"
		if t.os == "windows" {
			pack, suffix = zipped, ".zip"
		}
		write(name+suffix, pack(files, r.date))
	}
	return r.writeChart(ctx)
}

// writeChart writes the archive of the chart. Its version and that of its program are the release's.
func (r *release) writeChart(ctx context.Context) (err error) {
	defer catch(&err)
	chart := r.tree(ctx, "deploy/chart")
	for i, f := range chart {
		chart[i].name = "keywright/" + f.name
		if f.name == "Chart.yaml" {
			chart[i].data = chartVersion.ReplaceAll(f.data, []byte("${1} "+r.version[1:]))
		}
	}
	write(filepath.Join(r.dir, "keywright-chart_"+r.version[1:]+".tgz"), packed(chart, r.date))
	return nil
}

// chartVersion matches the lines of Chart.yaml with the version of the chart, and that of its program.
var chartVersion = regexp.MustCompile(`(?m)^((?:appV|v)ersion:) .*$`)

// files returns what the archive of a target has.
func (r *release) files(ctx context.Context, t target) []file {
	files := []file{{filepath.Base(r.program(t)), 0o755, must(os.ReadFile(r.program(t)))}}
	for _, dir := range []string{"completion", "man"} {
		for _, f := range filesIn(filepath.Join(r.work, dir)) {
			f.name = dir + "/" + f.name
			files = append(files, f)
		}
	}
	for _, path := range []string{"LICENSE", "NOTICE", "deploy/keywright.service", "deploy/keywright-content.service", "deploy/connectors.yaml"} {
		files = append(files, file{path, 0o644, r.source(ctx, r.commit, path)})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

// source returns a file of a commit.
func (r *release) source(ctx context.Context, rev, path string) []byte {
	return must(output(ctx, r.repo, nil, nil, "git", "show", rev+":"+path))
}

// tree returns the files of the commit in a directory, by their paths in it.
func (r *release) tree(ctx context.Context, dir string) (files []file) {
	for path := range strings.SplitSeq(must(git(ctx, r.repo, "ls-tree", "-r", "--name-only", r.commit, dir+"/")), "\n") {
		files = append(files, file{strings.TrimPrefix(path, dir+"/"), 0o644, r.source(ctx, r.commit, path)})
	}
	return files
}

// write writes a file of the release.
func write(path string, data []byte) { require(os.WriteFile(path, data, 0o644)) }

// filesIn returns all files of a directory by their paths in it, in their order.
func filesIn(dir string) (all []file) {
	root := os.DirFS(dir)
	require(fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all = append(all, file{name, 0o644, must(fs.ReadFile(root, name))})
		return nil
	}))
	return all
}

// writeBills writes a bill of materials for each program: the modules that the go command recorded in it.
func (r *release) writeBills(context.Context) (err error) {
	defer catch(&err)
	for _, t := range targets {
		info := must(buildinfo.ReadFile(r.program(t)))
		main := component(info.Main.Path, info.Main.Version)
		main.Type = cyclonedx.ComponentTypeApplication
		sum := sha256.Sum256(must(os.ReadFile(r.program(t))))
		main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}}
		components := []cyclonedx.Component{component("std", info.GoVersion)}
		refs := []string{components[0].BOMRef}
		for _, m := range info.Deps {
			c := component(m.Path, m.Version)
			components, refs = append(components, c), append(refs, c.BOMRef)
		}
		bom := cyclonedx.NewBOM()
		bom.SpecVersion = cyclonedx.SpecVersion1_6
		bom.Metadata = &cyclonedx.Metadata{Timestamp: r.date.Format("2006-01-02T15:04:05Z"), Component: &main}
		bom.Components, bom.Dependencies = &components, &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
		var text bytes.Buffer
		require(cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6))
		write(r.file("_"+t.String()+".cdx.json"), text.Bytes())
	}
	return nil
}

// component returns a module as a component, by its package URL.
func component(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}

// readKey returns the key that signs. If no file is named, it is a new one, and its public key is written into the directory.
func readKey(name, dir string) minisign.PrivateKey {
	if name != "" {
		return must(minisign.PrivateKeyFromFile(os.Getenv("KEYWRIGHT_RELEASE_PASSWORD"), name))
	}
	public, key, err := minisign.GenerateKey(rand.Reader)
	require(err)
	write(filepath.Join(dir, "trial.pub"), must(public.MarshalText()))
	return key
}

// writeSums writes the digests of all files, in the form of sha256sum, and a signature of them. A new key is none of these files.
func (r *release) writeSums(key string) (err error) {
	defer catch(&err)
	var sums bytes.Buffer
	for _, f := range filesIn(r.dir) {
		if !strings.Contains(f.name, "/") { // the proxy is for trials
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
		}
	}
	signer := readKey(key, r.dir)
	signature := minisign.SignWithComments(signer, sums.Bytes(), "Keywright "+r.version, "signature from the key of Keywright's releases")
	write(filepath.Join(r.dir, "SHA256SUMS"), sums.Bytes())
	write(filepath.Join(r.dir, "SHA256SUMS.minisig"), signature)
	return nil
}
