// Command release makes the files of a release from a commit of this repository, and publishes nothing:
//
//	release [-rev REV] [-key FILE] [-modules] VERSION DIR
//
// VERSION is a version such as v0.1.0, REV the commit (HEAD by default), and FILE an unencrypted key of minisign, which is a new one by
// default. With -modules, it makes the first item alone. DIR is a new directory, and gets:
//
//   - proxy: both modules, as a GOPROXY of files;
//   - archives for six targets, with the command, man pages, completion, units and an example file;
//   - deb and rpm, OCI images and the chart;
//   - a bill of materials in CycloneDX for each binary;
//   - SHA256SUMS with its signature.
//
// The same commit and version give the same bytes, but for the signature of a new key.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	rev := flag.String("rev", "HEAD", "the commit")
	key := flag.String("key", "", "the file with the private key of minisign")
	modules := flag.Bool("modules", false, "make the modules alone")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-rev REV] [-key FILE] [-modules] VERSION DIR")
		flag.PrintDefaults()
	}
	flag.Parse()
	err := errors.New("two arguments are needed, VERSION and DIR: release v0.1.0 dist")
	if flag.NArg() == 2 {
		err = run(ctx, *rev, *key, *modules, flag.Arg(0), flag.Arg(1))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the files of a release in a new directory.
func run(ctx context.Context, rev, key string, modules bool, version, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	r, err := newRelease(ctx, rev, version, dir)
	if err != nil {
		return err
	}
	defer r.close()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the release, which must be new: %w", err)
	}
	for _, step := range []struct {
		name string
		make func(context.Context) error
	}{
		{"modules", r.writeProxy},
		{"programs", r.build},
		{"archives", r.writeArchives},
		{"packages", r.writePackages},
		{"images", r.writeImages},
		{"bills of materials", r.writeBills},
		{"sums", func(context.Context) error { return r.writeSums(key) }},
	} {
		began := time.Now()
		if err := step.make(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%-20s %5.1f s\n", step.name, time.Since(began).Seconds())
		if modules {
			break
		}
	}
	fmt.Printf("\nThe commit of the tags %[1]s and server/%[1]s is %[2]s.\n", r.version, r.commit)
	return nil
}

// A release has the commit and the directories of its files.
type release struct {
	// version has the v of a tag. Names of files have it without.
	version string
	// commit is the commit that both tags are to be on. It lies beside the branch.
	commit string
	// date is that of the commit, and the time of all files.
	date time.Time
	// repo is the directory of the repository, dir that of the release, and work one that is removed at the end.
	repo, dir, work string
}

// newRelease returns a release of a revision. It writes the commit of the tags into the repository.
func newRelease(ctx context.Context, rev, version, dir string) (*release, error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return nil, fmt.Errorf("%q is not a version such as v0.1.0", version)
	}
	r := &release{version: version, dir: dir}
	top, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r.repo = top
	if rev, err = git(ctx, top, "rev-parse", "--verify", rev+"^{commit}"); err != nil { // rev may be a tag with a message
		return nil, err
	}
	if r.work, err = os.MkdirTemp("", "keywright-release-"); err != nil {
		return nil, err
	}
	if err := r.writeCommit(ctx, rev); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *release) close() { _ = os.RemoveAll(r.work) }

// file returns the path of a file of the release. Its name begins with that of the program and the version.
func (r *release) file(suffix string) string {
	return filepath.Join(r.dir, "keywright_"+r.version[1:]+suffix)
}
