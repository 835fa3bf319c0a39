package hosttest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
)

// maxCases limits a file of cases, in bytes.
const maxCases = 4 << 20

// ReadCases reads a file of cases, which is a list in YAML or JSON. Its errors name the file and the line.
func ReadCases(file string) ([]Case, error) {
	text, err := readAtMost(file, maxCases+1)
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

// readAtMost returns the first bytes of a file, at most limit.
func readAtMost(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
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

// place sets the places of the cases and their steps.
func place(file string, cases []Case, list *yaml.Node) {
	at := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", file, n.Line) }
	for i, n := range list.Content {
		cases[i].place = at(n)
		for k := range cases[i].Steps {
			cases[i].Steps[k].place = at(n) // unless they stand in the case itself
		}
		for j := 0; j+1 < len(n.Content); j += 2 {
			if n.Content[j].Value != "steps" {
				continue
			}
			for k, step := range n.Content[j+1].Content {
				cases[i].Steps[k].place = at(step)
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

// What package yaml says of members that no struct has, and of values of another kind.
var (
	unknownMember = regexp.MustCompile(`(?s)^field (.+) not found in type hosttest\.(\w+)$`)
	otherKind     = regexp.MustCompile(`(?s)^cannot construct !!\w+ ?(.*) into (.+)$`)
)

// caseTypes has the structs of a file, and what an error calls each.
var caseTypes = map[string]struct {
	of   any
	name string
}{
	"Case": {Case{}, "a case"}, "Step": {Step{}, "a step"}, "User": {User{}, "a user"}, "Request": {Request{}, "a request"},
	"textForm": {textForm{}, "a text"}, "JWT": {JWT{}, "a JWT"},
	"Reply": {Reply{}, "an answer"}, "Expect": {Expect{}, "expect"}, "ExpectedExchange": {ExpectedExchange{}, "an exchange"},
}

// caseError says what package yaml says in the words of the file.
func caseError(message string) string {
	if found := unknownMember.FindStringSubmatch(message); found != nil {
		t := caseTypes[found[2]]
		return fmt.Sprintf("%q is no member of %s%s", found[1], t.name, problem.DidYouMean(found[1], members(reflect.TypeOf(t.of))))
	}
	if found := otherKind.FindStringSubmatch(message); found != nil {
		wanted := found[2]
		switch {
		case wanted == "time.Duration":
			wanted = "a time such as 4m30s"
		case wanted == "time.Time":
			wanted = "a time such as 2026-01-02T03:04:05Z"
		case wanted == "int" || wanted == "int64":
			wanted = "a whole number"
		case wanted == "bool":
			wanted = "true or false"
		case wanted == "string":
			wanted = "a text"
		case strings.HasPrefix(wanted, "[]"):
			wanted = "a list"
		default:
			wanted = "an object"
		}
		return strings.TrimSpace(host.Printable(found[1]) + " stands where " + wanted + " is wanted")
	}
	return message
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
