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
