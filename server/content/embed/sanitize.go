package embed

import (
	"context"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/microcosm-cc/bluemonday"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const linkRelation = "nofollow noopener"

var (
	// frameAttributes are set on all frames. Players need scripts and their own origin. Their sandbox does not let them submit
	// forms or navigate the page around them.
	frameAttributes = []html.Attribute{
		{Key: "sandbox", Val: "allow-scripts allow-same-origin allow-popups allow-presentation"},
		{Key: "referrerpolicy", Val: "strict-origin-when-cross-origin"}, // some players refuse to run without the origin
		{Key: "loading", Val: "lazy"},
		{Key: "allowfullscreen"},
	}
	// frameSource matches the URLs that a frame may have. They are such that browsers and net/url agree on the host.
	frameSource = regexp.MustCompile(`^https://[A-Za-z0-9.-]+([/?][^\s\\\x00-\x1f\x7f]*)?$`)
	frameSize   = regexp.MustCompile(`^[0-9]{1,4}$`)
	language    = regexp.MustCompile(`^language-[A-Za-z0-9_+#.-]{1,40}$`)
)

// sanitizer sanitises HTML twice: rewrite the tree that a browser would build, and bluemonday the text, by tokens.
type sanitizer struct {
	providers      *providers
	policy, strict *bluemonday.Policy
}

func newSanitizer(list *providers) *sanitizer {
	p := bluemonday.UGCPolicy()
	p.AllowElements("kbd")
	p.AllowAttrs("class").Matching(language).OnElements("code", "pre")
	p.AllowAttrs("alt").OnElements("img") // the base refuses texts with most punctuation
	p.AllowAttrs("title").Globally()
	p.AllowAttrs("target").Matching(exactly("_blank")).OnElements("a")
	p.AllowAttrs("rel").Matching(exactly(linkRelation)).OnElements("a")
	p.AllowAttrs("src").Matching(frameSource).OnElements("iframe")
	p.AllowAttrs("width", "height").Matching(frameSize).OnElements("iframe")
	for _, a := range frameAttributes {
		p.AllowAttrs(a.Key).Matching(exactly(a.Val)).OnElements("iframe")
	}
	return &sanitizer{providers: list, policy: p, strict: bluemonday.StrictPolicy()}
}

func exactly(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$")
}

// clean sanitises HTML until another pass does not change it. ok is false if it still changes after maxPasses, if
// elements are nested too deep to be parsed, if ctx ends, or if the document grows beyond maxGrowth.
func (s *sanitizer) clean(ctx context.Context, source string) (cleaned string, ok bool) {
	const maxPasses = 6 // HTML that still changes then was written to be parsed differently each time
	limit := maxGrowth*len(source) + maxHTML
	for range maxPasses {
		root, err := parse(&limited{ctx, strings.NewReader(source)})
		if err != nil {
			return "", false
		}
		s.rewrite(root)
		rendered := &capped{limit: limit}
		if html.Render(rendered, root) != nil {
			return "", false
		}
		var out strings.Builder
		if s.policy.SanitizeReaderToWriter(&limited{ctx, strings.NewReader(rendered.text.String())}, &out) != nil {
			return "", false
		}
		if out.String() == source {
			return source, true
		}
		source = out.String()
	}
	return "", false
}

// text returns the text of HTML without any element. It is the fallback for documents that clean refuses.
func (s *sanitizer) text(source string) string { return s.strict.Sanitize(source) }

// rewrite removes nodes other than text and elements, and elements that browsers do not show as text, and rewrites
// frames and links. It leaves the rest to the policy.
func (s *sanitizer) rewrite(parent *html.Node) {
	for n := parent.FirstChild; n != nil; {
		next := n.NextSibling
		if n.Type != html.TextNode && (n.Type != html.ElementNode || !s.rewriteElement(n)) {
			parent.RemoveChild(n)
		} else {
			s.rewrite(n)
		}
		n = next
	}
}

func (s *sanitizer) rewriteElement(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Object, atom.Embed, atom.Applet, atom.Svg, atom.Math:
		return false
	case atom.Iframe:
		return s.rewriteFrame(n)
	case atom.A, atom.Area:
		_, link := attribute(n, "href")
		n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "rel" || a.Key == "target" && !link })
		if link {
			n.Attr = append(n.Attr, html.Attribute{Key: "rel", Val: linkRelation})
		}
	}
	return true
}

// rewriteFrame replaces the attributes of a frame by its source, size and title and the fixed ones, and removes its
// content. It reports whether the frame may stay.
func (s *sanitizer) rewriteFrame(n *html.Node) bool {
	source, _ := attribute(n, "src")
	u, err := url.Parse(source)
	_, inline := attribute(n, "srcdoc")
	if err != nil || inline || !frameSource.MatchString(source) || !s.providers.knows(u) {
		return false
	}
	attributes := []html.Attribute{{Key: "src", Val: source}}
	for _, size := range []string{"width", "height"} {
		if value, _ := attribute(n, size); frameSize.MatchString(value) {
			attributes = append(attributes, html.Attribute{Key: size, Val: value})
		}
	}
	if title, ok := attribute(n, "title"); ok {
		attributes = append(attributes, html.Attribute{Key: "title", Val: title})
	}
	n.Attr = slices.Concat(attributes, frameAttributes)
	for n.FirstChild != nil {
		n.RemoveChild(n.FirstChild)
	}
	return true
}

// attribute returns the first value of an attribute, which is the one that browsers use.
func attribute(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// parse parses a fragment of HTML in the context of a body. It fails if the fragment is nested too deep.
func parse(source io.Reader) (*html.Node, error) {
	nodes, err := html.ParseFragment(source, &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body})
	if err != nil {
		return nil, err
	}
	root := &html.Node{Type: html.DocumentNode}
	for _, n := range nodes {
		root.AppendChild(n)
	}
	return root, nil
}

// render returns the HTML of a tree, or "" if HTML cannot express the tree.
func render(root *html.Node) string {
	var out strings.Builder
	if html.Render(&out, root) != nil {
		return ""
	}
	return out.String()
}

// Limits of sanitising. Parsing can take quadratic time: the parser merges the attributes of thousands of <body>
// elements into one element. It can also make a tree hundreds of times as large as the text: the parser repeats
// hundreds of unclosed <b> elements in each paragraph after them.
const (
	maxDocuments = 4               // documents of all requests that are sanitised at once
	cleanTime    = 2 * time.Second // for a document
	maxGrowth    = 8               // factor by which a document may grow; a frame does when it gets its sandbox
	piece        = 512             // bytes that are parsed between two checks of the context
)

// limited is an io.Reader of a text that fails once the context has ended. There is no other way to stop a parser.
type limited struct {
	ctx  context.Context
	text *strings.Reader
}

func (l *limited) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.text.Read(p[:min(len(p), piece)])
}

// capped is a text that refuses writes beyond limit bytes.
type capped struct {
	text  strings.Builder
	limit int
}

func (c *capped) Write(p []byte) (int, error) {
	if c.text.Len()+len(p) > c.limit {
		return 0, errors.New("the HTML is repaired to far more than was written")
	}
	return c.text.Write(p)
}

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
