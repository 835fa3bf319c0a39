package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// largest is the size of a document's HTML from which its sections become pages of their own.
const largest = 90_000

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// A document is a Markdown file of the repository.
type document struct {
	name   string
	source []byte
	// pages has the page of the document and those of its sections, if it is divided.
	pages []*page
	// places has the address of each heading by its anchor, and that of the document by "".
	places map[string]string
}

// A page is a file of the site.
type page struct {
	*site
	document *document
	// Path is the place of the page below the directory of the site.
	Path  string
	Title string
	// ID is the anchor of the page's first heading.
	ID string
	// Headings are those below the title.
	Headings []heading
	tree     ast.Node
}

type heading struct{ ID, Title string }

// Parts returns the pages of the sections of a divided document, if this is its first page.
func (p *page) Parts() []*page {
	if p.document == nil || p != p.document.pages[0] {
		return nil
	}
	return p.document.pages[1:]
}

// Whole returns the first page of the page's document.
func (p *page) Whole() *page {
	if p.document == nil {
		return nil
	}
	return p.document.pages[0]
}

// Source returns the address of the page's document in the repository.
func (p *page) Source() string { return p.remote("blob", p.document.name) }

// read reads a document, and divides it if it is large.
func (s *site) read(name string) (*document, error) {
	source, err := fs.ReadFile(s.repo, name)
	if err != nil {
		return nil, err
	}
	d := &document{name: name, source: source, places: map[string]string{}}
	tree := markdown.Parser().Parse(text.NewReader(source))
	var html bytes.Buffer
	if err := markdown.Renderer().Render(&html, source, tree); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stem := path.Join(s.Minor, strings.TrimSuffix(name, ".md"))
	if path.Base(name) == "README.md" {
		stem = path.Join(path.Dir(stem), "index")
	}
	d.pages = []*page{{site: s, document: d, Path: stem + ".html", tree: tree}}
	d.places[""] = stem + ".html"
	d.number(tree)
	for n, next := tree.FirstChild(), ast.Node(nil); n != nil && html.Len() > largest; n = next {
		next = n.NextSibling()
		if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
			d.pages = append(d.pages, &page{site: s, document: d, Path: path.Join(stem, id(h)+".html"), tree: ast.NewDocument()})
		}
		if part := d.pages[len(d.pages)-1].tree; part != tree {
			part.AppendChild(part, n)
		}
	}
	for i, p := range d.pages {
		p.outline(i > 0)
	}
	return d, nil
}

// outline sets what depends on the headings of a page. Those of a section rise by one level.
func (p *page) outline(section bool) {
	each(p.tree, func(h *ast.Heading) {
		if section {
			h.Level--
		}
		title := p.document.text(h)
		p.document.places[id(h)] = p.Path + "#" + id(h)
		switch {
		case p.Title == "":
			p.Title, p.ID = title, id(h)
		case h.Level == 2:
			p.Headings = append(p.Headings, heading{id(h), title})
		}
	})
}

var punctuation = regexp.MustCompile(`[^\pL\pN\pM _-]`)

// anchor returns the anchor that GitHub makes of the text of a heading.
func anchor(title string) string {
	return strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}

// number sets the anchors of all headings. As on GitHub, a number follows one that the document already has.
func (d *document) number(tree ast.Node) {
	taken := map[string]bool{}
	each(tree, func(h *ast.Heading) {
		base := anchor(d.text(h))
		unique := base
		for n := 1; taken[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", base, n)
		}
		taken[unique] = true
		h.SetAttributeString("id", unique)
	})
}

func id(h *ast.Heading) string {
	value, _ := h.AttributeString("id")
	text, _ := value.(string)
	return text
}

// text returns the text of a node, without its formatting.
func (d *document) text(n ast.Node) string {
	var b strings.Builder
	each(n, func(t *ast.Text) {
		b.Write(t.Value(d.source))
		if t.SoftLineBreak() {
			b.WriteByte(' ')
		}
	})
	return b.String()
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
