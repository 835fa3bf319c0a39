package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"image/png"
	"io/fs"
	"net/url"
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
	repository = "https://github.com/keywright/keywright"
	// consoleStyle is the style of the console's pages, which site.css extends.
	consoleStyle = "server/internal/operate/console/pages/console.css"
)

var (
	//go:embed pages
	files     embed.FS
	templates = template.Must(template.ParseFS(files, "pages/*.html"))
)

// A site is the pages of one version, and the pages before those of all versions.
type site struct {
	repo fs.FS
	dir  string
	// Minor is the version of the directory, such as 0.1.
	Minor string
	// Tag is the tag of the release, such as v0.1.0.
	Tag       string
	documents map[string]*document
	Groups    []group
	// Versions are those that the site has, from the newest on.
	Versions []string
}

// A group is a row of the table of pages in README.md.
type group struct {
	Title string
	Pages []*page
}

func newSite(repo fs.FS, version, dir string) (*site, error) {
	s := &site{
		repo: repo, dir: dir, documents: map[string]*document{},
		Minor: strings.TrimPrefix(semver.MajorMinor("v"+version), "v"), Tag: semver.Canonical("v" + version),
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "sdk/*/README.md"} {
		names, err := fs.Glob(repo, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if s.documents[name], err = s.read(name); err != nil {
				return nil, err
			}
		}
	}
	if s.documents["README.md"] == nil {
		return nil, errors.New("README.md is missing: run site in tools/site of the repository")
	}
	return s, s.contents()
}

// contents sets the groups.
func (s *site) contents() error {
	readme := s.documents["README.md"]
	each(readme.pages[0].tree, func(h *ast.Heading) {
		table, ok := h.NextSibling().(*extension.Table)
		if id(h) != "pages" || !ok {
			return
		}
		for row := table.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
			title := readme.text(row.FirstChild())
			g := group{Title: strings.ToUpper(title[:1]) + title[1:]}
			each(row, func(l *ast.Link) {
				if d := s.documents[string(l.Destination)]; d != nil {
					g.Pages = append(g.Pages, d.pages[0])
				}
			})
			s.Groups = append(s.Groups, g)
		}
	})
	if len(s.Groups) == 0 {
		return errors.New(`README.md has no table below "Pages"; the list of pages is made of it`)
	}
	return nil
}

// write writes all files.
func (s *site) write() error {
	if err := os.RemoveAll(filepath.Join(s.dir, s.Minor)); err != nil {
		return err
	}
	for _, d := range s.documents {
		for _, p := range d.pages {
			if err := p.write(); err != nil {
				return err
			}
		}
	}
	style, err := fs.ReadFile(s.repo, consoleStyle)
	if err != nil {
		return err
	}
	for _, name := range []string{"site.css", "search.js", "icon.svg"} {
		content, err := files.ReadFile("pages/" + name)
		if name == "site.css" {
			content = slices.Concat(style, content)
		}
		if err := errors.Join(err, s.save(path.Join(s.Minor, name), content)); err != nil {
			return err
		}
	}
	if err := s.index(); err != nil {
		return err
	}
	return s.front()
}

// front writes the pages before those of the versions, if this version is the newest.
func (s *site) front() error {
	found, err := filepath.Glob(filepath.Join(s.dir, "*", "index.html"))
	if err != nil {
		return err
	}
	for _, name := range found {
		if version := filepath.Base(filepath.Dir(name)); semver.IsValid("v" + version) {
			s.Versions = append(s.Versions, version)
		}
	}
	slices.SortFunc(s.Versions, func(a, b string) int { return semver.Compare("v"+b, "v"+a) })
	if s.Versions[0] != s.Minor {
		return nil
	}
	return errors.Join(
		s.render("first", &page{site: s, Path: "index.html", Title: "Keywright"}),
		s.render("versions", &page{site: s, Path: "versions.html", Title: "Versions"}),
		s.save("newest.css", fmt.Appendf(nil, "[data-version=%q] .outdated { display: none; }\n", s.Minor)),
	)
}

// index makes the index of the search, and removes what only the interfaces of pagefind use.
func (s *site) index() error {
	found, err := filepath.Glob("node_modules/@pagefind/*/bin/pagefind_extended*")
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(name string) bool { return strings.HasSuffix(name, ".sha256") })
	if len(found) == 0 {
		return errors.New("pagefind is missing: run npm ci in tools/site")
	}
	at := filepath.Join(s.dir, s.Minor)
	if out, err := exec.Command(found[0], "--quiet", "--site", at).CombinedOutput(); err != nil {
		return fmt.Errorf("pagefind: %w: %s", err, out)
	}
	unused, err := filepath.Glob(filepath.Join(at, "pagefind", "pagefind-[^e]*")) // its interfaces and its worker, not its entry
	for _, name := range unused {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// finish makes tables and code scroll, with the keyboard too, and leaves out empty headings.
var finish = strings.NewReplacer(
	"<table>", `<div class="wide" tabindex="0">`+"\n<table>", "</table>", "</table>\n</div>",
	"<th></th>", "<td></td>", "<pre>", `<pre tabindex="0">`,
)

// write writes a page of a document.
func (p *page) write() (err error) {
	each(p.tree, func(l *ast.Link) {
		address, failure := p.Link(p.document.name, string(l.Destination))
		l.Destination, err = []byte(address), errors.Join(err, failure)
	})
	each(p.tree, func(i *ast.Image) { err = errors.Join(err, p.picture(i)) })
	var comments []ast.Node
	each(p.tree, func(b *ast.HTMLBlock) { comments = append(comments, b) })
	for _, c := range comments {
		c.Parent().RemoveChild(c.Parent(), c)
	}
	if err != nil {
		return err
	}
	return p.render("document", p)
}

// Body returns the HTML of a page's document.
func (p *page) Body() (template.HTML, error) {
	var b bytes.Buffer
	err := markdown.Renderer().Render(&b, p.document.source, p.tree)
	return template.HTML(finish.Replace(b.String())), err //nolint:gosec // it is HTML of the repository's documents
}

// Link returns the address on a page for a link of the document name: of another page, or of a file in the repository.
func (p *page) Link(name, destination string) (string, error) {
	u, err := url.Parse(destination)
	if err != nil || u.Scheme != "" {
		return destination, err
	}
	target := name
	if u.Path != "" {
		target = path.Join(path.Dir(name), u.Path)
	}
	if d := p.documents[target]; d != nil {
		place := d.places[u.Fragment]
		if place == "" {
			return "", fmt.Errorf("%s: %s has no heading for the link %s", name, target, destination)
		}
		return p.To(place), nil
	}
	info, err := fs.Stat(p.repo, target)
	if err != nil {
		return "", fmt.Errorf("%s: the link %s leads nowhere: %w", name, destination, err)
	}
	if info.IsDir() {
		return p.remote("tree", target), nil
	}
	return p.remote("blob", target), nil
}

// remote returns the address of a file in the repository.
func (s *site) remote(kind, name string) string {
	return repository + "/" + kind + "/" + s.Tag + "/" + name
}

// To returns the address of another place of the site on a page.
func (p *page) To(place string) string {
	if fragment, ok := strings.CutPrefix(place, p.Path+"#"); ok {
		return "#" + fragment
	}
	up := strings.Repeat("../", strings.Count(p.Path, "/"))
	return up + place
}

// picture copies a picture of a document.
func (p *page) picture(i *ast.Image) error {
	name := path.Join(path.Dir(p.document.name), string(i.Destination))
	content, err := fs.ReadFile(p.repo, name)
	if err != nil {
		return fmt.Errorf("%s: %w", p.document.name, err)
	}
	size, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	i.Destination = []byte(p.To(path.Join(p.Minor, name)))
	i.SetAttributeString("width", fmt.Sprint(size.Width))
	i.SetAttributeString("height", fmt.Sprint(size.Height))
	i.SetAttributeString("loading", "lazy")
	return p.save(path.Join(p.Minor, name), content)
}

// render writes a page by a template.
func (s *site) render(name string, p *page) error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name+".html", p); err != nil {
		return err
	}
	return s.save(p.Path, b.Bytes())
}

// save writes a file of the site.
func (s *site) save(name string, content []byte) error {
	name = filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // everybody may read the site
		return err
	}
	return os.WriteFile(name, content, 0o644) //nolint:gosec // everybody may read the site
}
