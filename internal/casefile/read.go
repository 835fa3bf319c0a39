package casefile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
)

// maxCases limits a file of cases, in bytes.
const maxCases = 4 << 20

// Read reads a file of cases, which is a list in YAML or JSON. Its errors name the file and the line.
func Read(file string) ([]Case, error) {
	text, err := files.Read(file, maxCases)
	if err != nil {
		return nil, err
	}
	if len(text) > maxCases {
		return nil, fmt.Errorf("%s: has more than %d MiB: split it", file, maxCases>>20)
	}
	var document yaml.Node
	var cases []Case
	if err := yaml.Load(text, &document); err != nil {
		return nil, caseErrors(file, err)
	}
	if err := document.Load(&cases, yaml.WithKnownFields()); err != nil {
		return nil, caseErrors(file, err)
	}
	if len(cases) == 0 {
		return nil, noCase(file)
	}
	var errs []error
	absent(&document, "", func(n *yaml.Node, name string) {
		errs = append(errs, fmt.Errorf("%s:%d: %s", file, n.Line, noValue(name)))
	})
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	place(file, cases, document.Content[0])
	names := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		if problem := c.problem(); problem != "" {
			errs = append(errs, fmt.Errorf("%s: %s", c.place, problem))
		}
		if names[c.Name] {
			errs = append(errs, fmt.Errorf("%s: a case before has the name %q too: give it another", c.place, c.Name))
		}
		names[c.Name] = true
	}
	return cases, errors.Join(errs...)
}

// noValue returns the message for a member without a value, or for an item of a list if name is empty.
func noValue(name string) string {
	if name == "" {
		return "a case stands here without a member: write one, or leave it out"
	}
	if name == "exchanges" {
		return `"exchanges" has no value: write [] for none, or leave it out`
	}
	return fmt.Sprintf("%q has no value: write one, or leave it out", name)
}

func noCase(file string) error {
	return fmt.Errorf("%s: has no case: begin one with `- name: …`", file)
}

// place sets the places of the cases and their steps. A step that an alias names has the place of its case.
func place(file string, cases []Case, list *yaml.Node) {
	for i, n := range list.Content {
		position := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", file, n.Line) }
		cases[i].place = position(n)
		for k := range cases[i].Steps {
			cases[i].Steps[k].place = position(n)
		}
		for pair := range slices.Chunk(n.Content, 2) {
			if pair[0].Value != "steps" {
				continue
			}
			for k, step := range pair[1].Content {
				cases[i].Steps[k].place = position(step)
			}
		}
	}
}

// caseErrors returns the errors of package yaml with the file, one to a line.
func caseErrors(file string, err error) error {
	var all *yaml.LoadErrors
	var syntax *yaml.LoadError
	switch {
	case errors.As(err, &all):
	case errors.As(err, &syntax):
		all = &yaml.LoadErrors{Errors: []*yaml.LoadError{syntax}}
	default:
		return fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	for _, one := range all.Errors {
		if one.Mark.Line == 0 && strings.Contains(one.Message, "multiple") {
			return fmt.Errorf("%s: has several documents of YAML: leave out the lines ---, all cases are one list", file)
		} else if one.Mark.Line == 0 { // nothing but comments
			return noCase(file)
		}
		errs = append(errs, fmt.Errorf("%s:%d: %s", file, one.Mark.Line, caseError(one.Message)))
	}
	return errors.Join(errs...)
}

// Texts of package yaml about members that no struct has, and about values of the wrong kind.
var (
	unknownMember = regexp.MustCompile(`(?s)^field (.+) not found in type casefile\.(\w+)$`)
	otherKind     = regexp.MustCompile(`(?s)^cannot construct !!\w+ ?(.*) into (.+)$`)
)

// structs has the structs of a file, and their names in errors.
var structs = map[string]struct {
	value any
	name  string
}{
	"Case": {Case{}, "a case"}, "Step": {Step{}, "a step"}, "User": {User{}, "a user"}, "Request": {Request{}, "a request"},
	"textForm": {textForm{}, "a text"}, "JWT": {JWT{}, "a JWT"},
	"Reply": {Reply{}, "an answer"}, "Expect": {Expect{}, "expect"}, "Exchange": {Exchange{}, "an exchange"},
}

// kinds has the words of errors for types of values. Any other list is a list, and any other type an object.
var kinds = map[string]string{
	"time.Duration": "a time such as 4m30s", "time.Time": "a time such as 2026-01-02T03:04:05Z",
	"int": "a whole number", "int64": "a whole number", "bool": "true or false", "string": "a text",
}

// caseError returns a message of package yaml in the words of the file.
func caseError(message string) string {
	if found := unknownMember.FindStringSubmatch(message); found != nil {
		t := structs[found[2]]
		return fmt.Sprintf("%q is no member of %s%s", found[1], t.name, problem.DidYouMean(found[1], members(reflect.TypeOf(t.value))))
	}
	found := otherKind.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	kind, ok := kinds[found[2]]
	switch {
	case ok:
	case strings.HasPrefix(found[2], "[]"):
		kind = "a list"
	default:
		kind = "an object"
	}
	return strings.TrimSpace(host.Printable(found[1]) + " stands where " + kind + " is wanted")
}

// members returns the names of the members of a struct in YAML.
func members(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}
