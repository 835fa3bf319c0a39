package imports

import (
	"errors"
	"fmt"
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

// OpenAPI makes a connector of an OpenAPI document of version 3, or of Swagger 2, in JSON or YAML. The error is a [Missing] if the
// document does not say everything.
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
	server, notes := d.server(o.URL)
	for _, r := range candidates[:min(len(candidates), maxCandidates)] {
		result, err := d.connector(r, o, server, notes)
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
	var texts []string
	for _, err := range failures[:min(len(failures), 10)] {
		texts = append(texts, strings.Split(err.Error(), "\n")...)
	}
	return nil, fmt.Errorf("none of the %d ways to authenticate can be imported:\n%s", len(failures), strings.Join(texts, "\n"))
}

// printable returns an error whose text a terminal can show, although it has names of a document. It leaves a [Missing] as it is.
func printable(err error) error {
	if missing := Missing(nil); errors.As(err, &missing) {
		return err
	}
	return errors.New(host.Printable(err.Error()))
}

const (
	// maxCandidates limits the requirements that are tried, and maxTogether the schemes of one.
	maxCandidates = 100
	maxTogether   = 20
)

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
	if schemes != nil && schemes.kind == isObject {
		for i, name := range schemes.names {
			if _, twice := d.schemes[name]; !twice {
				d.names = append(d.names, name)
			}
			d.schemes[name] = schemes.values[i]
		}
	}
	return d, nil
}

// scheme returns a security scheme, behind its references.
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
	i := slices.IndexFunc(all, func(r requirement) bool { return slices.Contains(r.names, name) })
	match := all[i]
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

// noteAlternatives notes the schemes that were not taken.
func (d *document) noteAlternatives(r requirement, result *Result) {
	var alternatives []string
	for _, name := range d.names {
		if !slices.Contains(r.names, name) {
			alternatives = append(alternatives, name)
		}
	}
	if len(alternatives) > 0 {
		m := maker{result: result}
		m.note("the document has %d security schemes, of which %s was taken; --scheme chooses another: %s", len(d.names), strings.Join(r.names, " with "), strings.Join(alternatives, ", "))
	}
}

// connector makes the connector for a requirement.
func (d *document) connector(r requirement, o Options, server server, notes []string) (*Result, error) {
	m, err := newMaker(o, d.root.string("info", "title"), server.url)
	if err != nil {
		return nil, err
	}
	if server.url == "" {
		m.missing = append(m.missing, noURL)
	}
	for _, note := range notes {
		m.note("%s", note)
	}
	if o.URL == "" {
		m.result.Connector.URL = literal(server.url)
	}
	if len(r.names) == 0 {
		m.result.Connector.Type = "none"
		m.note("the document has no security schemes, and no parameter that is a credential, so the type is none")
		d.paths(m)
		return m.done()
	}
	s := &schemer{maker: m, document: d, server: server}
	if err := s.all(r); err != nil {
		return nil, err
	}
	if d.ofOperation {
		m.note("the document has no security schemes: the credential is what its operations have as a parameter, %s", strings.Join(r.names, " with "))
	}
	d.paths(m)
	return m.done()
}
