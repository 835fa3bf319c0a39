// Command site writes the documents of this repository as web pages. DIR gets a directory for each minor version, and a first page.
//
//	go -C tools/site run . VERSION DIR
package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
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
	each(readme.Pages[0].tree, func(row *table.TableRow) {
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

var (
	markdown    = goldmark.New(goldmark.WithExtensions(extension.GFM))
	punctuation = regexp.MustCompile(`[^\pL\pN\pM _-]`)
	// finish makes tables and code scroll, with the keyboard too. It leaves out empty headings, and the places of comments.
	finish = strings.NewReplacer(
		"<table>", `<div class="wide" tabindex="0">`+"\n<table>", "</table>", "</table>\n</div>", "<pre>", `<pre tabindex="0">`,
		"<th></th>", "<td></td>", "<!-- raw HTML omitted -->\n", "",
	)
)

// A document is a Markdown file of the repository.
type document struct {
	Name   string
	source []byte
	// ids has the anchors of the headings.
	ids map[*ast.Heading]string
	// Pages has the page of the document and those of its sections, if it is divided.
	Pages []*page
	// places has the address of each heading by its anchor, and that of the document by "".
	places map[string]string
}

// A page is a file of the site.
type page struct {
	*site
	heading
	Document *document
	// Path is the place of the page below the directory of the site.
	Path string
	// Headings are those below the title.
	Headings []heading
	tree     ast.Node
}

type heading struct{ ID, Title string }

// read reads a document, and divides it if it is large.
func (s *site) read(name string) (*document, error) {
	source, err := fs.ReadFile(s.repo, name)
	if err != nil {
		return nil, err
	}
	stem := path.Join(s.Minor, strings.TrimSuffix(name, ".md"))
	if path.Base(name) == "README.md" {
		stem = path.Join(path.Dir(stem), "index")
	}
	d := &document{Name: name, source: source, ids: map[*ast.Heading]string{}, places: map[string]string{"": stem + ".html"}}
	tree := markdown.Parser().Parse(text.NewReader(source))
	d.Pages = []*page{{site: s, Document: d, Path: stem + ".html", tree: tree}}
	d.number(tree)
	var html bytes.Buffer
	err = markdown.Convert(source, &html)
	for n := tree.FirstChild(); n != nil && html.Len() > largest; {
		next := n.NextSibling()
		if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
			d.Pages = append(d.Pages, &page{site: s, Document: d, Path: path.Join(stem, d.ids[h]+".html"), tree: ast.NewDocument()})
		}
		if part := d.Pages[len(d.Pages)-1].tree; part != tree {
			part.AppendChild(part, n)
		}
		n = next
	}
	for i, p := range d.Pages {
		each(p.tree, func(h *ast.Heading) {
			h.Level -= min(i, 1) // the heading of a section is the title of its page
			entry := heading{d.ids[h], d.text(h)}
			d.places[entry.ID] = p.Path + "#" + entry.ID
			if p.Title == "" {
				p.heading = entry
			} else if h.Level == 2 {
				p.Headings = append(p.Headings, entry)
			}
		})
	}
	return d, err
}

// number sets the anchors of all headings to those of GitHub. A number follows one that the document already has.
func (d *document) number(tree ast.Node) {
	used := map[string]bool{}
	each(tree, func(h *ast.Heading) {
		base := strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(d.text(h)), ""), " ", "-")
		unique := base
		for n := 1; used[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", base, n)
		}
		used[unique], d.ids[h] = true, unique
		h.SetAttributeString("id", unique)
	})
}

// text returns the text of a node, without its formatting.
func (d *document) text(n ast.Node) (all string) {
	each(n, func(t *ast.Text) { all += string(t.Value(d.source)) })
	return all
}

// each calls do for each node of a type in a tree.
func each[T ast.Node](tree ast.Node, do func(T)) {
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n, ok := n.(T); ok && entering {
			do(n)
		}
		return ast.WalkContinue, nil
	})
}

// Body returns the HTML of a page's document.
func (p *page) Body() (template.HTML, error) {
	var failures error
	resolve := func(destination *[]byte) {
		address, err := p.Link(p.Document.Name, string(*destination))
		*destination, failures = []byte(address), errors.Join(failures, err)
	}
	each(p.tree, func(l *ast.Link) { resolve(&l.Destination) })
	each(p.tree, func(i *ast.Image) { resolve(&i.Destination) })
	var b bytes.Buffer
	err := markdown.Renderer().Render(&b, p.Document.source, p.tree)
	return template.HTML(finish.Replace(b.String())), errors.Join(failures, err) //nolint:gosec // it is HTML of the repository's documents
}

// Link returns the address on the page for a link of the document name: that of a page or picture, or of a file in the repository.
func (p *page) Link(name, destination string) (string, error) {
	u, err := url.Parse(destination)
	if err != nil || u.Scheme != "" {
		return destination, err
	}
	target := name
	if u.Path != "" {
		target = path.Join(path.Dir(name), u.Path)
	}
	info, err := fs.Stat(p.repo, target)
	d := p.documents[target]
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: the link %s leads nowhere: %w", name, destination, err)
	case d != nil && d.places[u.Fragment] == "":
		return "", fmt.Errorf("%s: %s has no heading for the link %s", name, target, destination)
	case d != nil:
		return p.To(d.places[u.Fragment]), nil
	case path.Dir(target) == pictures:
		return p.To(path.Join(p.Minor, target)), nil
	case info.IsDir():
		return repository + "/tree/" + p.Tag + "/" + target, nil
	}
	return repository + "/blob/" + p.Tag + "/" + target, nil
}

// To returns the address of another place of the site on a page.
func (p *page) To(place string) string {
	if fragment, ok := strings.CutPrefix(place, p.Path+"#"); ok {
		return "#" + fragment
	}
	return strings.Repeat("../", strings.Count(p.Path, "/")) + place
}

// write writes a page by a template.
func (p *page) write(name string) error {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name, p)
	return errors.Join(err, p.save(p.Path, b.Bytes()))
}
