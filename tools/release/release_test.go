package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// trial returns the release of the last commit, without its programs.
func trial(t *testing.T) *release {
	t.Helper()
	r, err := newRelease(t.Context(), "HEAD", "v0.1.0", t.TempDir())
	check(t, err)
	t.Cleanup(r.close)
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The tree of the tags builds without any change of go.mod or go.sum, as packagers build it, and its sums are those of the modules.
func TestModules(t *testing.T) {
	r := trial(t)
	check(t, r.writeProxy(t.Context()))
	env, err := r.environment(t.Context())
	check(t, err)
	dir := filepath.Join(r.work, "tree")
	tree := func(args ...string) (string, error) {
		return command(t.Context(), filepath.Join(dir, "server"), env, nil, "go", args...)
	}
	_, err = git(t.Context(), r.repo, "worktree", "add", "--detach", dir, r.commit)
	check(t, err)
	t.Cleanup(func() { _, _ = git(t.Context(), r.repo, "worktree", "remove", "--force", dir) })
	version, err := tree("list", "-mod=readonly", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/keywright")
	check(t, err)
	if !slices.Contains(strings.Split(version, "\n"), topPath+" v0.1.0") {
		t.Errorf("the command does not need %s v0.1.0, but\n%s", topPath, version)
	}
	sums := filepath.Join(dir, "server", "go.sum")
	text, err := os.ReadFile(sums)
	check(t, err)
	line := strings.Index(string(text), topPath+" v0.1.0 h1:")
	if line < 0 {
		t.Fatal("go.sum has no sum of the library")
	}
	digit := line + len(topPath+" v0.1.0 h1:")
	text[digit] ^= 1
	check(t, os.WriteFile(sums, text, 0o600))
	check(t, os.RemoveAll(filepath.Join(r.work, "go")))
	if _, err := tree("list", "-mod=readonly", "-deps", "./cmd/keywright"); err == nil || !strings.Contains(err.Error(), "checksum mismatch") {
		t.Errorf("a changed sum is not refused: %v", err)
	}
}

// A release of the tag is that of the branch, also if the tag has a message.
func TestReleaseOfTheTag(t *testing.T) {
	r := trial(t)
	text := "object " + r.commit + "\ntype commit\ntag v0.1.0\ntagger Keywright <keywright@example.com> 0 +0000\n\nVersion 0.1.0\n"
	object, err := command(t.Context(), r.repo, nil, strings.NewReader(text), "git", "mktag")
	check(t, err)
	tag, err := newRelease(t.Context(), object, r.version, t.TempDir())
	check(t, err)
	defer tag.close()
	if tag.commit != r.commit || !tag.date.Equal(r.date) {
		t.Errorf("the release of %s is of %s", r.commit, tag.commit)
	}
}

// The chart of a release has its version, and names its image.
func TestChart(t *testing.T) {
	r, err := newRelease(t.Context(), "HEAD", "v0.2.0-rc.1", t.TempDir())
	check(t, err)
	defer r.close()
	check(t, r.writeChart(t.Context()))
	text, err := command(t.Context(), r.dir, nil, nil, "tar", "-xzOf", "keywright-chart_0.2.0-rc.1.tgz", "keywright/Chart.yaml")
	check(t, err)
	for _, line := range []string{"version: 0.2.0-rc.1", "appVersion: 0.2.0-rc.1"} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("Chart.yaml lacks %q:\n%s", line, text)
		}
	}
}

// Packages, images and archives of the same programs are the same bytes in another directory, at another hour.
func TestSameBytes(t *testing.T) {
	sums := func() string {
		r := trial(t)
		for _, t2 := range targets {
			check(t, os.MkdirAll(filepath.Dir(r.program(t2)), 0o755))
			check(t, os.WriteFile(r.program(t2), []byte("program of "+t2.String()), 0o755))
		}
		for _, name := range []string{"man/keywright.1", "completion/keywright.bash", "completion/_keywright"} {
			check(t, os.MkdirAll(filepath.Dir(filepath.Join(r.work, name)), 0o755))
			check(t, os.WriteFile(filepath.Join(r.work, name), []byte(name), 0o644))
		}
		check(t, r.writeArchives(t.Context()))
		check(t, r.writePackages(t.Context()))
		check(t, r.writeImages(t.Context()))
		check(t, r.writeSums(""))
		public, err := minisign.PublicKeyFromFile(filepath.Join(r.dir, "trial.pub"))
		check(t, err)
		text, err := os.ReadFile(filepath.Join(r.dir, "SHA256SUMS"))
		check(t, err)
		signature, err := os.ReadFile(filepath.Join(r.dir, "SHA256SUMS.minisig"))
		check(t, err)
		if !minisign.Verify(public, text, signature) {
			t.Error("the signature is not one of SHA256SUMS")
		}
		if n := strings.Count(string(text), "\n"); n < 13 {
			t.Errorf("there are %d files:\n%s", n, text)
		}
		return string(text)
	}
	if first, second := sums(), sums(); first != second {
		t.Errorf("the first release has\n%sand the second\n%s", first, second)
	}
}
