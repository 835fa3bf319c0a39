package connectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile is the most bytes of a file: many thousands of connectors.
const maxFile = 4 << 20

// parse reads the one YAML document of a file, and gives nil when nothing can be made of it.
func parse(text string, p *problems) *node {
	switch {
	case len(text) > maxFile:
		p.at(place{}, "", "has more than %d MiB: split it", maxFile>>20)
		return nil
	case !utf8.ValidString(text):
		valid := strings.ToValidUTF8(text, "\x00")
		p.at(place{1 + strings.Count(valid[:strings.IndexByte(valid, 0)], "\n"), 1}, "", "is not UTF-8: save it in that encoding")
		return nil
	}
	if line := nestsDeeply(text); line > 0 {
		p.at(place{line, 1}, "", "is nested deeper than %d", maxNesting)
		return nil
	}
	file, err := parseYAML(text)
	if err != nil {
		p.syntax(text, err)
		return nil
	}
	root := p.document(file)
	if root == nil {
		return nil
	}
	r := &reader{problems: p, anchors: map[string]ast.Node{}, done: map[ast.Node]*node{}}
	ast.Walk(r, root)
	return r.read(root, "")
}

// parseYAML calls the parser. What it panics of is an error in the file like any other: its authors fix such inputs one
// by one.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = errors.New("the parser gives up on it")
		}
	}()
	document := []byte(text)
	if json.Valid(document) {
		untab(document)
	}
	return parser.ParseBytes(document, 0, parser.AllowDuplicateMapKey())
}

// untab makes spaces of the tabs between JSON's tokens: JSON allows them everywhere, the YAML parser does not.
func untab(document []byte) {
	quoted := false
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case '\t':
			if !quoted {
				document[i] = ' '
			}
		}
	}
}

// document gives the one document of a file.
func (p *problems) document(file *ast.File) ast.Node {
	var root ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case d.Body.Type() == ast.DirectiveType:
			p.at(placeOf(d.Body), "", "directives are not used here: remove the line")
		case root != nil:
			p.at(startOf(d.Body), "", "a second document begins here: a file has one")
		default:
			root = d.Body
		}
	}
	if root == nil {
		p.at(place{1, 1}, "", "is empty: it needs a list of connectors")
	}
	return root
}

// startOf gives where the text of a node begins: the parser puts an object at its first colon.
func startOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && m.Start.Type != token.MappingStartType {
		return placeOf(m.Values[0].Key)
	}
	return placeOf(n)
}

// syntax reports the parser's error. Its message names no values; its excerpt of the file, which would, is not used.
func (p *problems) syntax(text string, err error) {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &located) || located.GetToken() == nil {
		p.malformed(place{}, firstLine(err))
		return
	}
	position := located.GetToken().Position
	where := place{max(position.Line, 1), max(position.Column, 1)}
	message := located.GetMessage()
	if position.Line >= 1 && bareTemplate(text, position.Line) {
		p.at(where, "", `a template has to be in quotes: "{{ … }}"`)
		return
	}
	p.malformed(where, message)
}

func (p *problems) malformed(where place, why string) {
	p.at(where, "", "is not well-formed YAML: %s: check the indentation (spaces, no tabs), and that quotes and brackets are closed", why)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}

// bareTemplate reports whether a line has the commonest mistake: a value that begins with {{ outside of quotes, which
// YAML takes for an object in an object.
func bareTemplate(text string, line int) bool {
	lines := bytes.Split([]byte(text), []byte("\n"))
	if line > len(lines) {
		return false
	}
	for _, before := range []string{": {{", "- {{", ":{{"} {
		if bytes.Contains(lines[line-1], []byte(before)) {
			return true
		}
	}
	return false
}
