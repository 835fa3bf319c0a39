package hosttest

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/internal/problem"
)

// maxCases limits a file of cases, in bytes.
const maxCases = 4 << 20

// ReadCases reads a file of cases, which is a list in YAML or JSON. Its errors name the file and the line.
func ReadCases(file string) ([]Case, error) {
	text, err := os.ReadFile(file)
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
	if len(cases) > 0 {
		place(file, cases, document.Content[0])
	}
	var errs []error
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
	if len(cases) == 0 {
		errs = append(errs, noCase(file))
	}
	return cases, errors.Join(errs...)
}

func noCase(file string) error {
	return fmt.Errorf("%s: has no case: begin one with `- name: …`", file)
}

// problem returns what is wrong with a case, or "".
func (c *Case) problem() string {
	switch {
	case strings.TrimSpace(c.Name) == "":
		return "the case has no name"
	case len(c.Problems) > 0 && (len(c.Steps) > 0 || c.does()):
		return "a case with problems has no request: the configuration is refused"
	case len(c.Problems) > 0:
		return ""
	case len(c.Steps) > 0 && (c.Restart || c.Advance != 0):
		return "restart and advance are members of a step here"
	case len(c.Steps) > 0 && (c.does() || !reflect.ValueOf(c.Expect).IsZero()):
		return "a case has a request, or steps with requests, but not both"
	case len(c.Steps) == 0 && !c.does():
		return "the case has no request: write `request: {url: https://api.test/}`"
	}
	for i, s := range c.Steps {
		if !s.does() && !s.Restart {
			return fmt.Sprintf("step %d has no request", i+1)
		}
	}
	for _, s := range append(c.Steps, c.Step) {
		if s.Request != nil && s.Request.URL == "" {
			return "a request has no url"
		}
	}
	return ""
}

// does reports whether the step is a request or a part of a consent.
func (s *Step) does() bool { return s.Request != nil || s.Consent != nil || s.Disconnect }

// place sets the places of the cases and their steps.
func place(file string, cases []Case, list *yaml.Node) {
	at := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", file, n.Line) }
	for i, n := range list.Content {
		cases[i].place = at(n)
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
		if one.Mark.Line == 0 { // nothing but comments
			return noCase(file)
		}
		errs = append(errs, fmt.Errorf("%s:%d: %s", file, one.Mark.Line, caseError(one.Message)))
	}
	return errors.Join(errs...)
}

// What package yaml says of members that no struct has, and of values of another kind.
var (
	unknownMember = regexp.MustCompile(`^field (\S+) not found in type hosttest\.(\w+)$`)
	otherKind     = regexp.MustCompile(`^cannot construct !!\w+ ?(.*) into (.+)$`)
)

// caseTypes has the structs of a file, and what an error calls each.
var caseTypes = map[string]struct {
	of   any
	name string
}{
	"Case": {Case{}, "a case"}, "Step": {Step{}, "a step"}, "User": {User{}, "a user"}, "Request": {Request{}, "a request"},
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
		case strings.HasPrefix(wanted, "[]"):
			wanted = "a list"
		default:
			wanted = "an object"
		}
		return strings.TrimSpace(found[1] + " stands where " + wanted + " is wanted")
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
