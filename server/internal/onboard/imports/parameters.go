package imports

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

var (
	// inHeader and inQuery match the names of parameters of operations that are credentials. Those of headers are the same in most
	// documents; a key or a token of a query is a position, an object or a page as often.
	inHeader = regexp.MustCompile(`(?i)^authorization$|(^|[-_])(api|app|access|auth|client|private|user|subscription|license|developer|account|security|session)*[-_]?(key|token|secret|password)$`)
	inQuery  = regexp.MustCompile(`(?i)^(x[-_])?(api|app|access|auth|subscription|developer|client|user|license)[-_]?(key|token|secret)$`)
	inNone   = regexp.MustCompile(`(?i)idempot|csrf|xsrf|page|next|contin|sync|cursor|x-amz|sort|partition|encryption|public`)
)

// placeOf returns where a connector puts the credential that a parameter of an operation is, or "" if it is none.
func placeOf(parameter *node) string {
	in, name := parameter.string("in"), parameter.string("name")
	switch {
	case inNone.MatchString(name):
	case in == "header" && inHeader.MatchString(name), in == "query" && inQuery.MatchString(name):
		return in
	case in == "formData" && inQuery.MatchString(name):
		return "form"
	}
	return ""
}

// ofParameters makes schemes of the parameters of operations that are credentials, since many documents have no other, and returns what
// operations need together, the most frequent first.
func (d *document) ofParameters() []requirement {
	var all [][]string
	for _, path := range d.root.get("paths").items() {
		for _, verb := range verbs {
			operation := path.get(verb)
			if operation == nil {
				continue
			}
			names := d.credentialsOf(append(slices.Clone(path.get("parameters").items()), operation.get("parameters").items()...))
			if len(names) > 0 {
				all = append(all, names)
			}
		}
	}
	return byFrequency(all)
}

// credentialsOf makes schemes of those parameters of an operation that are credentials, and returns their names.
func (d *document) credentialsOf(parameters []*node) (names []string) {
	for _, p := range parameters {
		if ref := p.string("$ref"); ref != "" {
			name := ref[strings.LastIndex(ref, "/")+1:]
			p = cmp.Or(d.root.get("components", "parameters", name), d.root.get("parameters", name))
		}
		in, name := placeOf(p), p.string("name")
		if in == "" || slices.Contains(names, name) || len(names) == maxTogether {
			continue
		}
		names = append(names, name)
		if d.schemes[name] == nil {
			d.names = append(d.names, name)
			text := func(s string) *node { return &node{text: s} }
			d.schemes[name] = &node{kind: isObject, names: []string{"type", "in", "name"}, values: []*node{text("apiKey"), text(in), text(name)}}
			d.ofOperation = true
		}
	}
	return names
}

// maxPaths limits the patterns of a connector: those of a larger document become one.
const maxPaths = 300

// paths adds the paths of the document that callers of the gateway may use, with their methods.
func (d *document) paths(m *maker) {
	c := m.result.Connector
	if m.options.Paths == PathsNone {
		m.note("callers of the gateway may use no path: add paths, and method")
		return
	}
	all, paths := m.options.Paths == PathsAll, d.root.get("paths")
	for i, name := range paths.members() {
		path := paths.values[i]
		methods := slices.DeleteFunc(slices.Clone(path.members()), func(name string) bool {
			return !slices.Contains(verbs, name) || name == "trace" || !all && name != "get" && name != "head"
		})
		pattern := patternOf(name)
		if len(methods) == 0 || pattern == "" {
			continue
		}
		for _, method := range methods {
			if method = strings.ToUpper(method); !slices.Contains(c.Methods, method) {
				c.Methods = append(c.Methods, method)
			}
		}
		c.Paths = append(c.Paths, pattern)
	}
	slices.Sort(c.Methods)
	slices.Sort(c.Paths)
	c.Paths = slices.Compact(c.Paths)
	if slices.Equal(c.Methods, []string{"GET"}) {
		c.Methods = nil
	}
	switch n := len(c.Paths); {
	case n == 0:
		m.note("the document has no paths that callers of the gateway may read: add paths, and method")
	case n > maxPaths:
		c.Paths = []string{"/**"}
		m.note("the document has %d paths, so callers of the gateway may use all: change paths, and method, as they need", n)
	case all:
		m.note("callers of the gateway may use each path of the document with each of its methods: change paths, and method, as they need")
	default:
		m.note("callers of the gateway may read the paths of the document: --paths all lets them write, too, and --paths none nothing")
	}
}

// patternOf returns the pattern of a path of a document, in which * stands for its variables.
func patternOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	path = strings.Trim(path, "/")
	if path == "" {
		return ""
	}
	return pattern(path, shows)
}

// pattern returns a path as a pattern, in which * stands for variables, and for segments that may be a credential or an ID.
func pattern(path string, hidden func(string) bool) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if !plainSegment.MatchString(segment) || hidden(segment) {
			segments[i] = "*"
		}
	}
	return "/" + strings.Join(segments, "/")
}

// members returns the names of the members of an object, and no names of another node.
func (n *node) members() []string {
	if n == nil {
		return nil
	}
	return n.names
}
