package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"

	"github.com/keywright/keywright/internal/testworld"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

// output returns the directory of the site of the repository, which it writes once.
func output(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "site"); built.err == nil {
			built.err = write(os.DirFS(root), "0.1", built.dir)
		}
	})
	testworld.Check(t, built.err)
	return built.dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(built.dir)
	os.Exit(code)
}

// content returns the files below a directory with the end of a name, by their names.
func content(t *testing.T, dir, end string) map[string]string {
	t.Helper()
	all := map[string]string{}
	testworld.Check(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, end) {
			all[strings.TrimPrefix(name, dir+"/")] = string(testworld.Must(os.ReadFile(name))(t))
		}
		return err
	}))
	return all
}

// attributes returns the values of an attribute in a page.
func attributes(page string, names ...string) (values []string) {
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		for _, a := range z.Token().Attr {
			if slices.Contains(names, a.Key) {
				values = append(values, a.Val)
			}
		}
	}
	return values
}

// Each link of a page leads to a page and an anchor, or to a file of the repository. A page has at most 100 kB, and each has a link to it.
func TestLinks(t *testing.T) {
	dir := output(t)
	all := content(t, dir, ".html")
	ids := map[string][]string{}
	for name, page := range all {
		ids[name] = attributes(page, "id")
		if unique := slices.Compact(slices.Sorted(slices.Values(ids[name]))); len(unique) < len(ids[name]) {
			t.Errorf("%s has an id twice: %q", name, ids[name])
		}
		if len(page) > 100_000 {
			t.Errorf("%s has %d bytes", name, len(page))
		}
	}
	linked := map[string]bool{}
	ours := regexp.MustCompile(`^https://github\.com/keywright/keywright(?:/(?:blob|tree)/v0\.1\.0/(.+))?$`)
	for name, page := range all {
		for _, link := range attributes(page, "href", "src") {
			if match := ours.FindStringSubmatch(link); match != nil {
				if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
					t.Errorf("%s has the link %s, to nothing in the repository: %v", name, link, err)
				}
				continue
			}
			if strings.Contains(link, "://") {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			linked[file] = linked[file] || file != name
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil || anchor != "" && !slices.Contains(ids[file], anchor) {
				t.Errorf("%s has the dead link %s", name, link)
			}
		}
	}
	for name := range all {
		if !linked[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
}

// A link to a section of a document that is divided leads on from the document's page.
func TestDividedDocument(t *testing.T) {
	page := string(testworld.Must(os.ReadFile(filepath.Join(output(t), "0.1/docs/auth-types.html")))(t))
	if want := `<li id="oauth_jwt_bearer"><a href="../../0.1/docs/auth-types/oauth_jwt_bearer.html">`; !strings.Contains(page, want) {
		t.Errorf("the page of the auth types has no %s", want)
	}
}

// The site of a commit is the same bytes each time, the index of the search too.
func TestSameBytes(t *testing.T) {
	repeated := t.TempDir()
	testworld.Check(t, write(os.DirFS(root), "0.1", repeated))
	first, second := content(t, output(t), ""), content(t, repeated, "")
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if first[name] != second[name] {
			t.Errorf("%s is not the same", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("there are %d files, and then %d", len(first), len(second))
	}
}

// repositoryWith returns a small repository with a document.
func repositoryWith(document string) fs.FS {
	return fstest.MapFS{
		"README.md":         {Data: []byte("# Keywright\n\n## Install it\n\n## Pages\n\n| if you | read |\n|---|---|\n| use it | [docs](docs/audit.md) |\n")},
		"docs/audit.md":     {Data: []byte("# A\n\n" + document)},
		"docs/images/a.png": {},
		consoleStyle:        {},
	}
}

func TestDeadLinks(t *testing.T) {
	for document, want := range map[string]string{
		"[b](b.go)":             "docs/audit.md: the link b.go leads nowhere",
		"[b](../README.md#b)":   "docs/audit.md: README.md has no heading for the link ../README.md#b",
		"[b](#B)\n\n## B":       "docs/audit.md: docs/audit.md has no heading for the link #B",
		"![b](images/b.png)":    "docs/audit.md: the link images/b.png leads nowhere",
		"[b]\n\n[b]: ../deploy": "docs/audit.md: the link ../deploy leads nowhere",
	} {
		if err := write(repositoryWith(document), "0.1", t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want %s", document, err, want)
		}
	}
}

// The anchors are those of GitHub.
func TestAnchors(t *testing.T) {
	for heading, want := range map[string]string{
		"## `oauth_password`":                    "oauth_password",
		"## What's *new*, and what isn't?":       "whats-new-and-what-isnt",
		"## A - B":                               "a---b",
		"## The [gateway](gateway.md)'s ~~URL~~": "the-gateways-url",
		"## Größe 2":                             "größe-2",
		"## Keys\n\n### Keys":                    "keys-1",
		"## Keys-1\n\n## Keys\n\n## Keys":        "keys-2",
	} {
		s := &site{repo: fstest.MapFS{"SECURITY.md": {Data: []byte(heading)}}}
		d := testworld.Must(s.read("SECURITY.md"))(t)
		if d.places[want] == "" {
			t.Errorf("%s: places = %q, want %s", heading, d.places, want)
		}
	}
}

// A new version is beside the older ones. Their pages stay as they are, and a stylesheet of all versions shows that there is a newer one.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"0.9", "0.10.0", "0.9.1"} {
		testworld.Check(t, write(repositoryWith(version), version, dir))
	}
	all := content(t, dir, "")
	for name, want := range map[string]string{
		"versions.html":        `<a href="0.10/index.html">0.10</a>, the newest</li>` + "\n" + `<li><a href="0.9/index.html">0.9</a></li>`,
		"index.html":           "keywright@v0.10.0 demo",
		"newest.css":           `[data-version="0.10"] .outdated { display: none; }`,
		"0.9/docs/audit.html":  "<p>0.9.1</p>",
		"0.10/docs/audit.html": "<p>0.10.0</p>",
		"0.10/index.html":      `<p class="notice outdated">`,
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s is %s, want %s", name, all[name], want)
		}
	}
	if err := write(repositoryWith(""), "next", dir); err == nil {
		t.Error("next is a version")
	}
}
