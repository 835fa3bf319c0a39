package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/internal/problem"
)

// A yamlPolicy is called by the parser. It implements yaml.LoaderLimitsPlugin and the two interfaces of aliases.
type yamlPolicy struct {
	*problems
	// deep is true if the file is nested too deeply.
	deep    bool
	anchors map[string]*yaml.Node
}

// CheckDepth returns an error if the nesting exceeds maxNesting.
func (p *yamlPolicy) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth <= maxNesting {
		return nil
	}
	p.deep = true
	return errors.New("nested too deeply")
}

// CheckAlias allows all aliases: a yamlReader limits what they repeat.
func (p *yamlPolicy) CheckAlias(int, int) error { return nil }

func (p *yamlPolicy) NewAliasDataContext(yaml.AliasDataServices) (yaml.AliasDataContext, error) {
	return p, nil
}

// BeginDocument removes the anchors of the previous document.
func (p *yamlPolicy) BeginDocument() error {
	p.anchors = map[string]*yaml.Node{}
	return nil
}

func (p *yamlPolicy) EndDocument() error { return nil }

// DefineAnchor stores an anchor, and reports one that exists already.
func (p *yamlPolicy) DefineAnchor(name string, n *yaml.Node) error {
	if _, twice := p.anchors[name]; twice {
		p.report(p.placeOf(n), "", "an anchor of this name is there before: give one of them another name, or put text that begins with & in quotes")
	}
	p.anchors[name] = n
	return nil
}

// ResolveAlias returns the node of an anchor, or noAnchor, which yamlReader reports with its path.
func (p *yamlPolicy) ResolveAlias(name string) (*yaml.Node, bool, error) {
	if n := p.anchors[name]; n != nil {
		return n, true, nil
	}
	return noAnchor, true, nil
}

var noAnchor = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}

// interrupted is a reader of text that returns an error once its context has ended.
type interrupted struct {
	ctx  context.Context
	text *strings.Reader
}

func (r interrupted) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.text.Read(p)
}

// readYAML returns the only document of a file, or nil if it cannot be parsed or ctx ends.
func readYAML(ctx context.Context, text string, p *problems) *yaml.Node {
	if line := marks(text); line > 0 {
		p.report(p.placed(line, 1), "", "has more than %d marks (brackets, commas, colons, quotes and such, in texts and comments, too): use several gateways", maxMarks)
		return nil
	}
	switch directive, end := oddLines(text); {
	case directive > 0:
		p.report(p.placed(directive, 1), "", "directives are not used here: remove the line")
		return nil
	case end > 0:
		p.report(p.placed(end, 1), "", "has a character that ends a line in YAML, and in no editor (U+0085, U+2028, U+2029, or a carriage return alone): remove it")
		return nil
	}
	return parseYAML(ctx, text, p)
}

// parseYAML calls the parser. It reports a panic of the parser as a problem of the file.
func parseYAML(ctx context.Context, text string, p *problems) (root *yaml.Node) {
	policy := &yamlPolicy{problems: p}
	defer func() {
		if recovered := recover(); recovered != nil {
			p.malformed(problem.Place{}, "the parser gives up on it")
			root = nil
		}
	}()
	loader, err := yaml.NewLoader(interrupted{ctx, strings.NewReader(text)}, yaml.WithUniqueKeys(false), yaml.WithPlugin(policy))
	if err != nil {
		p.malformed(problem.Place{}, err.Error())
		return nil
	}
	for {
		var document yaml.Node
		switch err := loader.Load(&document); {
		case errors.Is(err, io.EOF) && root == nil:
			p.report(p.placed(1, 1), "", "is empty: it needs a list of connectors")
			return nil
		case errors.Is(err, io.EOF):
			return root
		case err != nil:
			p.syntax(text, err, policy.deep)
			return nil
		case len(document.Content) == 0 || isNothing(document.Content[0]):
		case root != nil:
			p.report(p.placeOf(document.Content[0]), "", "a second document begins here: a file has one")
			return root
		default:
			root = document.Content[0]
		}
	}
}

func isNothing(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 && n.Anchor == ""
}

func (p *problems) placeOf(n *yaml.Node) problem.Place { return p.placed(n.Line, n.Column) }

// syntax adds a problem for an error of the parser, whose message contains no values of the file.
func (p *problems) syntax(text string, err error, deep bool) {
	located, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		p.malformed(problem.Place{}, "it cannot be parsed")
		return
	}
	mark, lines := located.Mark, strings.Split(text, "\n")
	if mark.Line >= len(lines) && located.ContextMark.Line > 0 {
		mark = located.ContextMark // at the end of the file, the place of the unclosed value is more useful
	}
	where, message := p.placed(mark.Line, mark.Column), located.Message
	if located.ContextMsg != "" {
		message += ", " + located.ContextMsg
	}
	switch {
	case deep:
		p.report(where, "", "is nested deeper than %d", maxNesting)
	case mark.Line > 0 && mark.Line <= len(lines) && bareTemplate(lines[mark.Line-1]):
		p.report(where, "", `a template has to be in quotes: "{{ … }}"`)
	default:
		p.malformed(where, message)
	}
}

func (p *problems) malformed(where problem.Place, why string) {
	p.report(where, "", "is not well-formed YAML: %s: check the indentation (spaces, no tabs), and that quotes and brackets are closed", why)
}

// bareTemplate reports whether a value of a line begins with {{ without quotes, which YAML reads as an object in an object.
func bareTemplate(line string) bool {
	return strings.Contains(line, ": {{") || strings.Contains(line, "- {{") || strings.Contains(line, ":{{")
}

// A yamlReader turns the parser's tree into nodes, and reports features of YAML that connectors do not use.
type yamlReader struct {
	grower
	// done maps the nodes of anchors to the values read from them. A value is nil while it is being read.
	done map[*yaml.Node]*node
}

// read returns the value of n, never nil. For a node that cannot be read it adds a problem and returns null.
func (r *yamlReader) read(n *yaml.Node, path *problem.Path, depth int) *node {
	if n.Kind == yaml.AliasNode {
		return r.alias(n, path, depth)
	}
	result := &node{Place: r.placeOf(n), kind: scalar, size: 1}
	if !r.grow(result.Place, depth, result) {
		return result
	}
	if n.Anchor != "" {
		r.done[n] = nil
		defer func() { r.done[n] = result }()
	}
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		r.report(result.Place, path.String(), "has a tag, which begins with !: tags are not used here, remove it; text goes in quotes")
	case n.Kind == yaml.SequenceNode:
		result.kind, result.depth = list, 1
		for i, item := range n.Content {
			v := r.read(item, path.Item(i), depth+1)
			result.items = append(result.items, v)
			result.contain("", v)
		}
	case n.Kind == yaml.MappingNode:
		result.kind, result.depth = object, 1
		r.members(result, n.Content, path, depth)
	case n.Kind == yaml.ScalarNode:
		r.scalar(result, n, path)
	default:
		r.report(result.Place, path.String(), "is nothing that a connector has a use for: text, numbers, lists and objects are")
	}
	return result
}

const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

func (r *yamlReader) scalar(to *node, n *yaml.Node, path *problem.Path) {
	to.bytes = len(n.Value)
	switch {
	case n.Style&quotes != 0:
		to.value = n.Value
	case jsonNumber.MatchString(n.Value): // includes integers of more than 64 bits
		to.value = json.Number(n.Value)
	case n.Tag == "!!null":
	case n.Tag == "!!bool":
		to.value = strings.EqualFold(n.Value, "true")
	case n.Tag == "!!float" && strings.ContainsAny(n.Value, "nN"):
		r.report(to.Place, path.String(), "is not a number that JSON has: put it in quotes if text is meant")
	case n.Tag == "!!float" || n.Tag == "!!int":
		to.value = json.Number("1")
		r.report(to.Place, path.String(), "is a number as JSON has none: write plain decimal digits, or put it in quotes if text is meant")
	default:
		to.value = n.Value
	}
}

// alias returns the node of the anchor that n names. No problem has the name, because *NAME may be a password (threats.md 281).
func (r *yamlReader) alias(n *yaml.Node, path *problem.Path, depth int) *node {
	where := r.placeOf(n)
	switch target, ok := r.done[n.Alias]; {
	case n.Alias == noAnchor:
		r.report(where, path.String(), "there is no anchor of this name: put text that begins with * in quotes")
	case !ok || target == nil:
		r.report(where, path.String(), "the alias stands inside of what it repeats")
	case r.grow(where, depth, target):
		return target
	}
	return &node{Place: where, kind: scalar, size: 1}
}

func (r *yamlReader) members(to *node, content []*yaml.Node, path *problem.Path, depth int) {
	var merged []*node
	for i := 0; i+1 < len(content) && !r.full; i += 2 {
		key, value := content[i], content[i+1]
		switch first := to.get(key.Value); {
		case key.Kind == yaml.ScalarNode && key.Tag == "!!merge":
			merged = append(merged, r.merge(key, value, path, depth)...)
		case key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0:
			r.full = true // otherwise the value would be reported as well
			r.report(r.placeOf(key), path.String(), `a template has to be in quotes: "{{ … }}"`)
		case colonMissing(key, value):
			r.report(r.placeOf(key), path.String(), "has a member without a value: there is a blank after the colon behind its name")
		case !isText(key):
			r.report(r.placeOf(key), path.String(), "has a member whose name is not text: put the name in quotes")
		case first != nil:
			r.report(r.placeOf(key), path.Member(key.Value).String(), "is there twice, first on line %d: remove one", first.key.Line-r.lineOffset)
		default:
			to.add(member{key.Value, r.placeOf(key), r.read(value, path.Member(key.Value), depth+1)})
		}
	}
	for _, from := range merged { // an object's own members have precedence over merged ones
		for _, m := range from.members {
			if !r.grow(m.key, depth, &node{size: 1}) {
				return
			}
			if to.get(m.name) == nil {
				to.add(m)
			}
		}
	}
}

func isText(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Style&yaml.TaggedStyle == 0 &&
		!slices.Contains([]string{"!!null", "!!bool", "!!int", "!!float"}, key.Tag)
}

// colonMissing reports whether a text was meant as a name and a value, such as client_secret:hunter2 in braces, which YAML takes for a
// name. No problem may show it (threats.md 281).
func colonMissing(key, value *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && isNothing(value) && strings.ContainsAny(key.Value, ":=")
}

// merge returns the objects that << merges, nil if there are none.
func (r *yamlReader) merge(key, value *yaml.Node, path *problem.Path, depth int) []*node {
	n := r.read(value, path, depth)
	sources := n.items
	if n.kind == object {
		sources = []*node{n}
	}
	if slices.ContainsFunc(sources, func(source *node) bool { return source.kind != object }) {
		sources = nil
	}
	if len(sources) == 0 && !r.full {
		r.report(r.placeOf(key), path.String(), "<< takes an alias of an object, or a list of them")
	}
	return sources
}
