package embed

import (
	"context"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Attributes that the sanitiser sets. Players need scripts and their own origin. Their sandbox does not let them submit
// forms or navigate the page around them.
const (
	frameSandbox  = "allow-scripts allow-same-origin allow-popups allow-presentation"
	frameReferrer = "strict-origin-when-cross-origin" // some players refuse to run without the origin
	frameLoading  = "lazy"
	linkRelation  = "nofollow noopener"
)

var (
	// frameSource matches the URLs that a frame may have. They are such that browsers and net/url agree on the host.
	frameSource = regexp.MustCompile(`^https://[A-Za-z0-9.-]+([/?][^\s\\\x00-\x1f\x7f]*)?$`)
	frameSize   = regexp.MustCompile(`^[0-9]{1,4}$`)
	language    = regexp.MustCompile(`^language-[A-Za-z0-9_+#.-]{1,40}$`)
)

// sanitizer sanitises HTML. It checks elements twice: rewrite checks the tree that a browser would build, and bluemonday
// checks the text token by token.
type sanitizer struct {
	providers *providers
	policy    *bluemonday.Policy
	strict    *bluemonday.Policy
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
	p.AllowAttrs("allowfullscreen").Matching(exactly("")).OnElements("iframe")
	p.AllowAttrs("sandbox").Matching(exactly(frameSandbox)).OnElements("iframe")
	p.AllowAttrs("referrerpolicy").Matching(exactly(frameReferrer)).OnElements("iframe")
	p.AllowAttrs("loading").Matching(exactly(frameLoading)).OnElements("iframe")
	return &sanitizer{providers: list, policy: p, strict: bluemonday.StrictPolicy()}
}

func exactly(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$")
}

// maxPasses is the maximum number of passes over a document. HTML that still changes after some passes was written to be
// parsed differently each time.
const maxPasses = 6

// clean sanitises HTML until another pass does not change it. ok is false if it still changes after maxPasses, if
// elements are nested too deep to be parsed, if ctx ends, or if the document grows beyond maxGrowth.
func (s *sanitizer) clean(ctx context.Context, source string) (cleaned string, ok bool) {
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
		if s.policy.SanitizeReaderToWriter(&limited{ctx, strings.NewReader(rendered.String())}, &out) != nil {
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

// rewriteElement rewrites the attributes of an element, and reports whether the element may stay.
func (s *sanitizer) rewriteElement(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Object, atom.Embed, atom.Applet, atom.Svg, atom.Math:
		return false
	case atom.Iframe:
		return s.rewriteFrame(n)
	case atom.A, atom.Area:
		_, link := attribute(n, "href")
		rewritten := n.Attr[:0]
		for _, a := range n.Attr {
			if a.Key != "rel" && (link || a.Key != "target") {
				rewritten = append(rewritten, a)
			}
		}
		if n.Attr = rewritten; link {
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
	attributes = append(attributes,
		html.Attribute{Key: "sandbox", Val: frameSandbox},
		html.Attribute{Key: "referrerpolicy", Val: frameReferrer},
		html.Attribute{Key: "loading", Val: frameLoading},
		html.Attribute{Key: "allowfullscreen"},
	)
	n.Attr = attributes
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
