package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

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
