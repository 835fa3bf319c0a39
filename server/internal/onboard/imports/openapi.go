package imports

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
)

// A document is an OpenAPI document of version 3, or one of Swagger 2.
type document struct {
	root *node
	// schemes holds the security schemes by their names, in the order of the document.
	names   []string
	schemes map[string]*node
	// ofOperation is true if they are parameters of operations, since the document has no schemes.
	ofOperation bool
}

// A requirement lists the schemes that a request needs together, with the scopes of each.
type requirement struct {
	names  []string
	scopes map[string][]string
}

// OpenAPI makes a connector of an OpenAPI 3 or Swagger 2 document in JSON or YAML. The error may be a [Missing].
func OpenAPI(text []byte, o Options) (*Result, error) {
	d, err := readDocument(text)
	if err != nil {
		return nil, err
	}
	candidates, err := d.candidates(o.Scheme)
	if err != nil {
		return nil, printable(err)
	}
	var failures []error
	for _, r := range candidates[:min(len(candidates), maxCandidates)] {
		result, err := d.connector(r, o)
		if err == nil {
			d.noteAlternatives(r, result)
			return result, nil
		}
		if missing := Missing(nil); errors.As(err, &missing) && len(candidates) > 1 && slices.Contains(missing, noURL) {
			return nil, err // no scheme changes that
		}
		failures = append(failures, printable(err))
	}
	if len(failures) == 1 {
		return nil, failures[0]
	}
	some := errors.Join(failures[:min(len(failures), 10)]...)
	return nil, fmt.Errorf("none of the %d ways to authenticate can be imported:\n%s", len(failures), some.Error())
}

// printable returns an error whose text a terminal can show, although it has names of a document. It leaves a [Missing] as it is.
func printable(err error) error {
	if missing := Missing(nil); errors.As(err, &missing) {
		return err
	}
	return errors.New(host.Printable(err.Error()))
}

// maxCandidates limits the requirements that are tried, and maxTogether the schemes of one.
const maxCandidates, maxTogether = 100, 20

func readDocument(text []byte) (*document, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	d := &document{root: root, schemes: map[string]*node{}}
	var schemes *node
	switch {
	case strings.HasPrefix(root.string("openapi"), "3."):
		schemes = root.get("components", "securitySchemes")
	case strings.HasPrefix(root.string("swagger"), "2"):
		schemes = root.get("securityDefinitions")
	default:
		return nil, errors.New("this is no OpenAPI document: its member openapi has to be 3.x, or its member swagger 2.0")
	}
	for i, name := range schemes.members() {
		if _, twice := d.schemes[name]; !twice {
			d.names = append(d.names, name)
		}
		d.schemes[name] = schemes.values[i]
	}
	return d, nil
}

func (d *document) scheme(name string) (*node, error) {
	s := d.schemes[name]
	for range 8 {
		ref := s.string("$ref")
		if ref == "" {
			if s == nil || s.kind != isObject {
				return nil, fmt.Errorf("the scheme %s is no object", name)
			}
			return s, nil
		}
		parts := strings.Split(ref, "/")
		if !strings.HasPrefix(ref, "#/components/securitySchemes/") && !strings.HasPrefix(ref, "#/securityDefinitions/") {
			return nil, fmt.Errorf("the scheme %s is a reference to another document, and nothing is fetched: put it into this one", name)
		}
		s = d.schemes[strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[len(parts)-1])]
	}
	return nil, fmt.Errorf("the scheme %s is a reference to itself", name)
}

// candidates returns the requirements to try: those of the document, those of its operations, the most frequent first, and then each
// scheme by itself. With the name of a scheme, these are the first that has the scheme, or the scheme by itself.
func (d *document) candidates(name string) ([]requirement, error) {
	var parameters []requirement
	if len(d.names) == 0 {
		parameters = d.ofParameters()
	}
	if name != "" && d.schemes[name] == nil {
		return nil, fmt.Errorf("the document has no security scheme %q; there are: %s", name, strings.Join(d.names, ", "))
	}
	all := append(append(parameters, d.requirements(d.root.get("security"))...), d.ofOperations()...)
	for _, scheme := range d.names {
		all = append(all, requirement{names: []string{scheme}})
	}
	keys := map[string]bool{}
	all = slices.DeleteFunc(all, func(r requirement) bool {
		key := strings.Join(slices.Sorted(slices.Values(r.names)), "\x00")
		duplicate := keys[key]
		keys[key] = true
		return duplicate
	})
	if name == "" {
		if len(all) == 0 {
			all = append(all, requirement{})
		}
		return all, nil
	}
	match := all[slices.IndexFunc(all, func(r requirement) bool { return slices.Contains(r.names, name) })]
	// The scheme that was asked for comes first.
	match.names = append([]string{name}, slices.DeleteFunc(slices.Clone(match.names), func(n string) bool { return n == name })...)
	return []requirement{match}, nil
}

// requirements returns the requirements of a member security that name a scheme, without those that name one that is missing.
func (d *document) requirements(security *node) (all []requirement) {
	for _, item := range security.items() {
		if item.kind != isObject || len(item.names) == 0 || slices.ContainsFunc(item.names, func(n string) bool { return d.schemes[n] == nil }) {
			continue
		}
		r := requirement{names: item.names, scopes: map[string][]string{}}
		for i, name := range item.names {
			for _, scope := range item.values[i].items() {
				r.scopes[name] = append(r.scopes[name], scope.text)
			}
		}
		all = append(all, r)
	}
	return all
}

// ofOperations returns the requirements of operations, without their scopes, the most frequent first.
func (d *document) ofOperations() []requirement {
	var all [][]string
	for _, path := range d.root.get("paths").items() {
		for _, operation := range path.items() {
			for _, r := range d.requirements(operation.get("security")) {
				all = append(all, r.names)
			}
		}
	}
	return byFrequency(all)
}

// byFrequency returns a requirement for each list of schemes, the most frequent first.
func byFrequency(lists [][]string) (all []requirement) {
	counts := map[string]int{}
	key := func(names []string) string { return strings.Join(names, "\x00") }
	for _, names := range lists {
		if counts[key(names)]++; counts[key(names)] == 1 {
			all = append(all, requirement{names: names})
		}
	}
	slices.SortStableFunc(all, func(a, b requirement) int { return counts[key(b.names)] - counts[key(a.names)] })
	return all
}

func (d *document) noteAlternatives(r requirement, result *Result) {
	alternatives := slices.DeleteFunc(slices.Clone(d.names), func(name string) bool { return slices.Contains(r.names, name) })
	if len(alternatives) > 0 {
		result.note("the document has %d security schemes, of which %s was taken; --scheme chooses another: %s", len(d.names), strings.Join(r.names, " with "), strings.Join(alternatives, ", "))
	}
}

func (d *document) connector(r requirement, o Options) (*Result, error) {
	result := &Result{}
	server := d.server(o.URL, result)
	m, err := newMaker(result, o, d.root.string("info", "title"), server.url)
	if err != nil {
		return nil, err
	}
	if server.url == "" {
		m.missing = append(m.missing, noURL)
	}
	if o.URL == "" {
		m.Connector.URL = literal(server.url)
	}
	if len(r.names) == 0 {
		m.Connector.Type = "none"
		m.note("the document has no security schemes, and no parameter that is a credential, so the type is none")
		d.paths(m)
		return m.done()
	}
	if err := (&schemer{maker: m, document: d, server: server}).all(r); err != nil {
		return nil, err
	}
	if d.ofOperation {
		m.note("the document has no security schemes: the credential is what its operations have as a parameter, %s", strings.Join(r.names, " with "))
	}
	d.paths(m)
	return m.done()
}

var (
	// inHeader and inQuery match the names of parameters of operations that are credentials. Those of headers are the same in most
	// documents; a key or a token of a query is a position, an object or a page as often.
	inHeader = regexp.MustCompile(`(?i)^authorization$|(^|[-_])(api|app|access|auth|client|private|user|subscription|license|developer|account|security|session)*[-_]?(key|token|secret|password)$`)
	inQuery  = regexp.MustCompile(`(?i)^(x[-_])?(api|app|access|auth|subscription|developer|client|user|license)[-_]?(key|token|secret)$`)
	inNone   = regexp.MustCompile(`(?i)idempot|csrf|xsrf|page|next|contin|sync|cursor|x-amz|sort|partition|encryption|public`)
)

// placeOf returns where a connector puts the credential that a parameter of an operation is, or "" if it is none.
func placeOf(parameter *node) string {
	switch in, name := parameter.string("in"), parameter.string("name"); {
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

// paths adds the paths of the document that callers of the gateway may use, with their methods.
func (d *document) paths(m *maker) {
	const maxPaths = 300 // limits the patterns of a connector: those of a larger document become one
	c := m.Connector
	if m.options.Paths == PathsNone {
		m.note("callers of the gateway may use no path: add paths, and method")
		return
	}
	all, paths := m.options.Paths == PathsAll, d.root.get("paths")
	for i, name := range paths.members() {
		methods := slices.DeleteFunc(slices.Clone(paths.values[i].members()), func(name string) bool {
			return !slices.Contains(verbs, name) || name == "trace" || !all && name != "get" && name != "head"
		})
		route := strings.Trim(name[:strings.IndexAny(name+"?", "?#")], "/")
		if len(methods) == 0 || route == "" {
			continue
		}
		for _, method := range methods {
			addNew(&c.Methods, strings.ToUpper(method))
		}
		c.Paths = append(c.Paths, pattern(route, shows))
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
