package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A file is one of an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// writeTar writes an archive whose bytes depend on nothing but its files and the date.
func writeTar(w io.Writer, files []file, date time.Time) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: date, Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// zipped is like packed, for a zip archive.
func zipped(files []file, date time.Time) ([]byte, error) {
	var all bytes.Buffer
	archive := zip.NewWriter(&all)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return all.Bytes(), err
}

// packed returns an archive in tar and gzip.
func packed(files []file, date time.Time) ([]byte, error) {
	var all bytes.Buffer
	if err := writeTar(&all, files, date); err != nil {
		return nil, err
	}
	return compress(all.Bytes())
}

// compress compresses a file without its name and date.
func compress(data []byte) ([]byte, error) {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return compressed.Bytes(), err
}

// writeArchives writes an archive for each target, and one of the chart.
func (r *release) writeArchives(ctx context.Context) error {
	for _, t := range targets {
		if t.fips {
			continue // images alone have it
		}
		files, err := r.files(ctx, t)
		if err != nil {
			return err
		}
		name := r.file("_" + t.String())
		for i := range files {
			files[i].name = filepath.Base(name) + "/" + files[i].name
		}
		pack, suffix := packed, ".tar.gz"
		if t.os == "windows" {
			pack, suffix = zipped, ".zip"
		}
		data, err := pack(files, r.date)
		if err := write(name+suffix, data, err); err != nil {
			return err
		}
	}
	return r.writeChart(ctx)
}

// writeChart writes the archive of the chart. Its version and that of its program are the release's.
func (r *release) writeChart(ctx context.Context) error {
	chart, err := r.tree(ctx, "deploy/chart")
	if err != nil {
		return err
	}
	for i, f := range chart {
		chart[i].name = "keywright/" + f.name
		if f.name == "Chart.yaml" {
			chart[i].data = chartVersion.ReplaceAll(f.data, []byte("${1} "+r.version[1:]))
		}
	}
	data, err := packed(chart, r.date)
	return write(filepath.Join(r.dir, "keywright-chart_"+r.version[1:]+".tgz"), data, err)
}

// chartVersion matches the lines of Chart.yaml with the version of the chart, and that of its program.
var chartVersion = regexp.MustCompile(`(?m)^((?:appV|v)ersion:) .*$`)

// files returns what the archive of a target has.
func (r *release) files(ctx context.Context, t target) ([]file, error) {
	program, err := os.ReadFile(r.program(t))
	if err != nil {
		return nil, err
	}
	files := []file{{filepath.Base(r.program(t)), 0o755, program}}
	for _, dir := range []string{"completion", "man"} {
		err := walkFiles(os.DirFS(filepath.Join(r.work, dir)), func(name string, data []byte) { files = append(files, file{dir + "/" + name, 0o644, data}) })
		if err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"LICENSE", "NOTICE", "deploy/keywright.service", "deploy/keywright-content.service", "deploy/connectors.yaml"} {
		data, err := r.source(ctx, r.commit, path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{path, 0o644, data})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// source returns a file of a commit.
func (r *release) source(ctx context.Context, rev, path string) ([]byte, error) {
	return output(ctx, r.repo, nil, nil, "git", "show", rev+":"+path)
}

// tree returns the files of the commit in a directory, by their paths in it.
func (r *release) tree(ctx context.Context, dir string) ([]file, error) {
	list, err := git(ctx, r.repo, "ls-tree", "-r", "--name-only", r.commit, dir+"/")
	if err != nil || list == "" {
		return nil, err
	}
	var files []file
	for path := range strings.SplitSeq(list, "\n") {
		data, err := r.source(ctx, r.commit, path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{strings.TrimPrefix(path, dir+"/"), 0o644, data})
	}
	return files, nil
}

// write writes a file of the release, unless its contents could not be made.
func write(path string, data []byte, err error) error {
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
