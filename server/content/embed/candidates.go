package embed

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// candidate is a URL that stands alone and that a provider may embed.
type candidate struct {
	url      string
	endpoint *endpoint
	// line holds the siblings that make up the line: the URL and the white space around it.
	line []*html.Node
}

var (
	// containers are the elements in which URLs are replaced.
	containers = []atom.Atom{atom.P, atom.Div, atom.Figure, atom.Section, atom.Article}
	// blocks are the elements that end a line: all that the sanitiser keeps and that are not inline.
	blocks = append([]atom.Atom{
		atom.Aside, atom.Blockquote, atom.Dd, atom.Details, atom.Dl, atom.Dt, atom.Figcaption, atom.H1, atom.H2, atom.H3,
		atom.H4, atom.H5, atom.H6, atom.Hgroup, atom.Hr, atom.Li, atom.Ol, atom.Pre, atom.Summary, atom.Table, atom.Ul,
	}, containers...)
)

// find returns the first maxEmbeds candidates in a container.
func (r *Resolver) find(container *html.Node) []candidate {
	var found []candidate
	var line []*html.Node
	end := func() {
		if text := soleText(line); text != "" {
			if e := r.providers.match(text); e != nil {
				found = append(found, candidate{text, e, line})
			}
		}
		line = nil
	}
	splitLines(container)
	for n := range container.ChildNodes() {
		switch {
		case n.DataAtom == atom.Br:
			end()
		case slices.Contains(blocks, n.DataAtom):
			end()
			if slices.Contains(containers, n.DataAtom) {
				found = append(found, r.find(n)...)
			}
		default:
			line = append(line, n)
			if n.Type == html.TextNode && strings.HasSuffix(n.Data, "\n") {
				end()
			}
		}
	}
	end()
	return found[:min(len(found), maxEmbeds)]
}

// splitLines splits the text nodes of a container after each newline.
func splitLines(container *html.Node) {
	for n := container.FirstChild; n != nil; n = n.NextSibling {
		if i := strings.IndexByte(n.Data, '\n'); n.Type == html.TextNode && i >= 0 && i+1 < len(n.Data) {
			rest := &html.Node{Type: html.TextNode, Data: n.Data[i+1:]}
			n.Data = n.Data[:i+1]
			container.InsertBefore(rest, n.NextSibling)
		}
	}
}

// soleText returns the text of a line that is one text node, or one link to that text, and white space, or else "".
func soleText(line []*html.Node) string {
	var only *html.Node
	for _, n := range line {
		switch {
		case blank(n):
		case only != nil:
			return ""
		default:
			only = n
		}
	}
	switch {
	case only == nil:
		return ""
	case only.Type == html.TextNode:
		return strings.TrimSpace(only.Data)
	case only.DataAtom == atom.A && only.FirstChild != nil && only.FirstChild == only.LastChild && only.FirstChild.Type == html.TextNode:
		text := strings.TrimSpace(only.FirstChild.Data)
		target, there := attribute(only, "href")
		if u, err := url.Parse(text); there && err == nil && (target == text || target == u.String()) { // the sanitiser may have changed escapes
			return text
		}
	}
	return ""
}

func blank(n *html.Node) bool { return n.Type == html.TextNode && strings.TrimSpace(n.Data) == "" }

func (c *candidate) replace(embed string) bool {
	content, err := parse(strings.NewReader(embed))
	if err != nil {
		return false
	}
	block := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	for n := content.FirstChild; n != nil; n = content.FirstChild {
		content.RemoveChild(n)
		block.AppendChild(n)
	}
	first, parent := c.line[0], c.line[0].Parent
	parent.InsertBefore(block, first)
	for _, n := range c.line {
		parent.RemoveChild(n)
	}
	removeBreak(block, func(n *html.Node) *html.Node { return n.PrevSibling })
	removeBreak(block, func(n *html.Node) *html.Node { return n.NextSibling })
	if parent.DataAtom == atom.P {
		split(parent, block)
	}
	return true
}

// removeBreak removes the <br> beside a block and the white space between them, since the block ends the line anyway.
// Without a <br> it keeps the white space, which may belong to the line of another candidate.
func removeBreak(block *html.Node, next func(*html.Node) *html.Node) {
	end := next(block)
	for end != nil && blank(end) {
		end = next(end)
	}
	if end == nil || end.DataAtom != atom.Br {
		return
	}
	for n := next(block); ; n = next(block) {
		n.Parent.RemoveChild(n)
		if n == end {
			return
		}
	}
}

// split moves a block out of a paragraph, because a p cannot contain a div. The content before the block moves to a
// paragraph of its own. Paragraphs that would be empty are removed.
func split(paragraph, block *html.Node) {
	first := &html.Node{Type: html.ElementNode, Data: "p", DataAtom: atom.P, Attr: slices.Clone(paragraph.Attr)}
	for n := paragraph.FirstChild; n != block; n = paragraph.FirstChild {
		paragraph.RemoveChild(n)
		first.AppendChild(n)
	}
	paragraph.RemoveChild(block)
	parent := paragraph.Parent
	if !empty(first) {
		parent.InsertBefore(first, paragraph)
		paragraph.Attr = slices.DeleteFunc(paragraph.Attr, func(a html.Attribute) bool { return a.Key == "id" })
	}
	parent.InsertBefore(block, paragraph)
	if empty(paragraph) {
		parent.RemoveChild(paragraph)
	}
}

func empty(paragraph *html.Node) bool {
	for n := range paragraph.ChildNodes() {
		if !blank(n) && n.DataAtom != atom.Br {
			return false
		}
	}
	return true
}
