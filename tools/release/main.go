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
	"runtime"
	"strings"
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
	r, err := newRelease(ctx, rev, version, dir)
	if err != nil {
		return err
	}
	defer r.close()
	if err := os.Mkdir(r.dir, 0o755); err != nil {
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
func newRelease(ctx context.Context, rev, version, dir string) (r *release, err error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return nil, fmt.Errorf("%q is not a version such as v0.1.0", version)
	}
	r = &release{version: version}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	defer catch(&err)
	r.dir = must(filepath.Abs(dir))
	r.repo = must(git(ctx, ".", "rev-parse", "--show-toplevel"))
	commit := must(git(ctx, r.repo, "rev-parse", "--verify", rev+"^{commit}")) // rev may be a tag with a message
	r.work = must(os.MkdirTemp("", "keywright-release-"))
	r.writeCommit(ctx, commit)
	return r, nil
}

func (r *release) close() { _ = os.RemoveAll(r.work) }

// A failure is the error that ends a step. It is a panic up to the step, which returns it by catch.
type failure struct{ error }

func catch(err *error) {
	switch problem := recover().(type) {
	case nil:
	case failure:
		*err = problem.error
	default:
		panic(problem)
	}
}

// require ends the step if there is an error.
func require(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns a value, or ends the step if there is an error.
func must[T any](value T, err error) T {
	require(err)
	return value
}

// file returns the path of a file of the release. Its name begins with that of the program and the version.
func (r *release) file(suffix string) string {
	return filepath.Join(r.dir, "keywright_"+r.version[1:]+suffix)
}

// toolchain is the compiler of releases. With another one, the bytes differ.
const toolchain = "go1.26.8"

// fips is the version of Go's cryptographic module in programs for FIPS 140-3.
const fips = "v1.0.0"

// A target is a system that a program is built for.
type target struct {
	os, arch string
	// fips reports whether the program has a validated version of Go's cryptographic module.
	fips bool
}

var targets = []target{
	{"linux", "amd64", false},
	{"linux", "arm64", false},
	{"darwin", "amd64", false},
	{"darwin", "arm64", false},
	{"windows", "amd64", false},
	{"windows", "arm64", false},
	{"linux", "amd64", true},
	{"linux", "arm64", true},
}

func (t target) String() string {
	if t.fips {
		return t.os + "_" + t.arch + "_fips"
	}
	return t.os + "_" + t.arch
}

// program returns the path of the program for a target.
func (r *release) program(t target) string {
	name := "keywright"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, "programs", t.String(), name)
}

// build builds the program for all targets, and the man pages and completion.
func (r *release) build(ctx context.Context) (err error) {
	defer catch(&err)
	for _, t := range targets {
		r.install(ctx, t)
	}
	r.describe(ctx)
	return nil
}

// install builds the program as `go install` by version does, so that the program knows its version, and is the one that users of
// `go install` get.
func (r *release) install(ctx context.Context, t target) {
	env := append(must(r.environment(ctx)), "GOOS="+t.os, "GOARCH="+t.arch)
	if t.fips {
		env = append(env, "GOFIPS140="+fips)
	}
	program := topPath + "/server/cmd/keywright@" + r.version
	must(command(ctx, r.work, env, nil, "go", "install", "-trimpath", "-ldflags=-s", "-buildvcs=false", program))
	bin := filepath.Join(r.work, "go", "bin") // with a directory for each target but that of this machine
	if must(command(ctx, r.work, env, nil, "go", "env", "GOHOSTOS", "GOHOSTARCH")) != t.os+"\n"+t.arch {
		bin = filepath.Join(bin, t.os+"_"+t.arch)
	}
	to := r.program(t)
	require(os.MkdirAll(filepath.Dir(to), 0o755))
	require(os.Rename(filepath.Join(bin, filepath.Base(to)), to))
}

// environment returns the variables on which the bytes of a program depend, and those by which the go command finds both modules. Other
// modules come from the machine's cache or its GOPROXY.
func (r *release) environment(ctx context.Context) ([]string, error) {
	cache, err := command(ctx, r.work, nil, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	modules, proxy, _ := strings.Cut(cache, "\n")
	path := filepath.Join(r.work, "go")
	return []string{
		"GOPATH=" + path, "GOMODCACHE=" + filepath.Join(path, "pkg", "mod"), "GOBIN=", "GOFLAGS=-modcacherw", "GOWORK=off",
		fmt.Sprintf("GOPROXY=file://%s,file://%s,%s", filepath.Join(r.dir, "proxy"), filepath.Join(modules, "cache", "download"), proxy),
		"GONOSUMDB=" + topPath, "GONOPROXY=none", "GOTOOLCHAIN=" + toolchain,
		"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
	}, nil
}

// describe runs the program of this machine for its man pages and the files of completion.
func (r *release) describe(ctx context.Context) {
	program := r.program(target{os: runtime.GOOS, arch: runtime.GOARCH})
	man := filepath.Join(r.work, "man")
	completion := filepath.Join(r.work, "completion")
	require(errors.Join(os.Mkdir(man, 0o755), os.Mkdir(completion, 0o755)))
	must(command(ctx, r.work, nil, nil, program, "man", "--date", r.date.Format(time.DateOnly), man))
	for shell, name := range map[string]string{"bash": "keywright.bash", "zsh": "_keywright", "fish": "keywright.fish", "powershell": "keywright.ps1"} {
		write(filepath.Join(completion, name), must(output(ctx, r.work, nil, nil, program, "completion", shell)))
	}
}
