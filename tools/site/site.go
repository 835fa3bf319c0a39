// Command site writes the documents of this repository as web pages. DIR gets a directory for each minor version, and a first page.
//
//	go -C tools/site run . VERSION DIR
package main

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"golang.org/x/mod/semver"
)

const (
	root         = "../.." // the top of the repository
	repository   = "https://github.com/keywright/keywright"
	pictures     = "docs/images"
	largest      = 90_000                                              // bytes of a document's HTML, above which its sections become pages of their own
	consoleStyle = "server/internal/operate/console/pages/console.css" // site.css extends it
)

var (
	//go:embed pages
	files     embed.FS
	templates = template.Must(template.ParseFS(files, "pages/*.html"))
)

// A site has the pages of a version, and those before all versions.
type site struct {
	repo      fs.FS
	dir       string
	documents map[string]*document
	// Minor is the name of the version's directory, such as 0.1, and Tag the tag of the release, such as v0.1.0.
	Minor, Tag string
	// Groups are the rows of the table of pages in README.md.
	Groups []group
	// Versions are those in the directory, from the newest on.
	Versions []string
}

type group struct {
	Title string
	Pages []*page
}

func main() {
	err := errors.New("usage: site VERSION DIR, with a version such as 0.1")
	if len(os.Args) == 3 {
		err = write(os.DirFS(root), os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// write writes the site of a repository.
func write(repo fs.FS, version, dir string) error {
	if !semver.IsValid("v" + version) {
		return fmt.Errorf("%q is no version such as 0.1", version)
	}
	s := &site{
		repo: repo, dir: dir, documents: map[string]*document{},
		Minor: semver.MajorMinor("v" + version)[1:], Tag: semver.Canonical("v" + version),
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "sdk/*/README.md", "deploy/*/README.md"} {
		names, _ := fs.Glob(repo, pattern)
		for _, name := range names {
			d, err := s.read(name)
			if err != nil {
				return err
			}
			s.documents[name] = d
		}
	}
	if s.contents(); len(s.Groups) == 0 {
		return errors.New(`README.md has no table below "Pages", of which the list of pages is made: is this tools/site of the repository?`)
	}
	err := errors.Join(os.RemoveAll(filepath.Join(dir, s.Minor)), s.assets())
	for _, d := range s.documents {
		for _, p := range d.Pages {
			err = errors.Join(err, p.write("document.html"))
		}
	}
	return errors.Join(err, s.index(), s.front())
}

// contents sets the groups.
func (s *site) contents() {
	readme := s.documents["README.md"]
	if readme == nil {
		return
	}
	each(readme.Pages[0].tree, func(row *extension.TableRow) {
		if h, ok := row.Parent().PreviousSibling().(*ast.Heading); !ok || readme.ids[h] != "pages" {
			return
		}
		title := readme.text(row.FirstChild())
		g := group{Title: strings.ToUpper(title[:1]) + title[1:]}
		each(row, func(l *ast.Link) {
			if d := s.documents[string(l.Destination)]; d != nil {
				g.Pages = append(g.Pages, d.Pages[0])
			}
		})
		s.Groups = append(s.Groups, g)
	})
}

// assets writes what the pages refer to.
func (s *site) assets() error {
	console, err := fs.ReadFile(s.repo, consoleStyle)
	for name, prefix := range map[string][]byte{"site.css": console, "search.js": nil, "icon.svg": nil} {
		content, failure := files.ReadFile("pages/" + name)
		err = errors.Join(err, failure, s.save(path.Join(s.Minor, name), slices.Concat(prefix, content)))
	}
	images, failure := fs.Sub(s.repo, pictures)
	return errors.Join(err, failure, os.CopyFS(filepath.Join(s.dir, s.Minor, pictures), images))
}

// index makes the index of the search, and removes the interfaces and the worker of pagefind.
func (s *site) index() error {
	found, _ := filepath.Glob("node_modules/@pagefind/*/bin/pagefind_extended")
	if len(found) == 0 {
		return errors.New("pagefind is missing: run npm ci in tools/site")
	}
	pages := filepath.Join(s.dir, s.Minor)
	if out, err := exec.Command(found[0], "--quiet", "--site", pages).CombinedOutput(); err != nil { //nolint:noctx // it ends by itself
		return fmt.Errorf("pagefind: %w: %s", err, out)
	}
	unused, err := filepath.Glob(filepath.Join(pages, "pagefind", "pagefind-[^e]*")) // all but its entry
	for _, name := range unused {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// front writes the pages before those of the versions, if this version is the newest.
func (s *site) front() error {
	found, _ := filepath.Glob(filepath.Join(s.dir, "*", "index.html"))
	for _, name := range found {
		s.Versions = append(s.Versions, filepath.Base(filepath.Dir(name)))
	}
	slices.SortFunc(s.Versions, func(a, b string) int { return semver.Compare("v"+b, "v"+a) })
	if s.Versions[0] != s.Minor {
		return nil
	}
	return errors.Join(
		(&page{site: s, Path: "index.html", heading: heading{Title: "Keywright"}}).write("first.html"),
		(&page{site: s, Path: "versions.html", heading: heading{Title: "Versions"}}).write("versions.html"),
		s.save("newest.css", fmt.Appendf(nil, "[data-version=%q] .outdated { display: none; }\n", s.Minor)),
	)
}

// save writes a file of the site, which everybody may read.
func (s *site) save(name string, content []byte) error {
	name = filepath.Join(s.dir, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644))
}
