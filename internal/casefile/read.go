package casefile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/testworld"
)

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
	unknownMember = regexp.MustCompile(`(?s)^field (.+) not found in type (?:casefile|host)\.(\w+)$`)
	otherKind     = regexp.MustCompile(`(?s)^cannot construct !!\w+ ?(.*) into (.+)$`)
)

// structs has the structs of a file, and their names in errors.
var structs = map[string]struct {
	value any
	name  string
}{
	"Case": {Case{}, "a case"}, "Auth": {host.Auth{}, "an authentication"}, "Step": {Step{}, "a step"}, "User": {User{}, "a user"}, "Request": {Request{}, "a request"},
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
	kind := cmp.Or(kinds[found[2]], "an object")
	if strings.HasPrefix(found[2], "[]") {
		kind = "a list"
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

// maxParallel limits the requests that a step sends at once. Each is a goroutine.
const maxParallel = 1000

// problem returns what is wrong with a case, or "".
func (c *Case) problem() string {
	switch {
	case strings.TrimSpace(c.Name) == "":
		return "the case has no name"
	case c.Config != nil && c.Auth != nil:
		return "a case has config, or auth with a list of authentications, but not both"
	case len(c.Problems) > 0 && (len(c.Steps) > 0 || c.does()):
		return "a case with problems has no request: the configuration is refused"
	case len(c.Problems) > 0 && !c.Expect.empty():
		return "a case with problems has no expect: the configuration is refused"
	case slices.Contains(c.Problems, ""):
		return "a text of problems is empty, and part of any: write a part of the problem"
	case len(c.Problems) > 0:
		return c.badInput()
	case len(c.Steps) > 0 && (c.Restart || c.Advance != 0):
		return "restart and advance are members of a step here"
	case len(c.Steps) > 0 && (c.does() || !c.Expect.empty()):
		return "a case has a request, or steps with requests, but not both"
	case len(c.Steps) == 0 && !c.does():
		return "the case has no request: write `request: {url: https://api.test/}`"
	case len(c.Steps) == 0:
		return c.Step.problem()
	}
	if problem := c.badInput(); problem != "" {
		return problem
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if !s.does() && !s.Restart {
			return fmt.Sprintf("step %d has no request", i+1)
		}
		if problem := s.problem(); problem != "" {
			return problem
		}
	}
	return ""
}

// does reports whether the step is a request or a part of a consent.
func (s *Step) does() bool { return s.Request != nil || s.Consent != nil || s.Disconnect }

// problem returns what is wrong with a step, or "". An expectation that would not be compared is wrong.
func (s *Step) problem() string {
	x := s.Expect
	switch {
	case s.Request != nil && (s.Consent != nil || s.Disconnect), s.Consent != nil && s.Disconnect:
		return "a step is a request, a consent or disconnect, and only one of them"
	case s.Request != nil && s.Request.URL == "":
		return "a request has no url"
	case s.Request != nil && (s.Request.Parallel < 0 || s.Request.Parallel > maxParallel):
		return fmt.Sprintf("a request is sent up to %d times in parallel", maxParallel)
	case !s.does() && !x.empty():
		return "expect needs a request, a consent or disconnect in its step"
	case s.Request == nil && (x.Headers != nil || x.Form != nil || x.Body != nil || x.Attempts != nil || x.Status != 0):
		return "headers, form, body, attempts and status are expected of a request, and the step has none"
	case s.Disconnect && (x.URL != nil || x.Query != nil):
		return "url and query are expected of a request or a consent, and the step has none"
	case x.Fuel < 0:
		return "fuel is the most that the plugin may use: write a number above 0"
	}
	return s.badInput()
}

func (x Expect) empty() bool { return reflect.ValueOf(x).IsZero() }

func (x Expect) ofRequest() bool {
	return x.URL != nil || x.Headers != nil || x.Query != nil || x.Form != nil || x.Body != nil
}

// badInput returns what is wrong with the secrets, the user and the answers of a step, or "".
func (s *Step) badInput() string {
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		if n := len(s.Secrets[name]); n > 0 && n < testworld.Shortest {
			return fmt.Sprintf("the secret %q is too short to be searched for: make it %d bytes or more", name, testworld.Shortest)
		}
	}
	if s.User != nil && s.User.Token != "" && len(s.User.Token) < testworld.Shortest {
		return fmt.Sprintf("the user's token is too short to be searched for: make it %d bytes or more", testworld.Shortest)
	}
	if s.Answers != nil && len(s.Answers) == 0 {
		return "answers is empty: write one, or leave it out"
	}
	for _, target := range slices.Sorted(maps.Keys(s.Endpoints)) {
		if len(s.Endpoints[target]) == 0 {
			return fmt.Sprintf("the endpoint %q has no answer: write one, such as `- json: {access_token: the-first-token, expires_in: 300}`", target)
		}
		if problem := badReply(s.Endpoints[target]); problem != "" {
			return problem
		}
	}
	return badReply(s.Answers)
}

// badReply returns what is wrong with one of several answers, or "".
func badReply(replies []Reply) string {
	for _, r := range replies {
		switch {
		case r.Unreachable && (r.Status != 0 || r.Headers != nil || r.JSON != nil || r.Body != ""):
			return "an answer that is unreachable has no other member"
		case r.JSON != nil && r.Body != "":
			return "an answer has json or body, but not both"
		case r.Status != 0 && (r.Status < 100 || r.Status > 599):
			return fmt.Sprintf("an answer has the status %d: it is one of 100 to 599", r.Status)
		}
		if _, err := json.Marshal(r.JSON); err != nil {
			return fmt.Sprintf("an answer cannot be JSON: %v", err)
		}
	}
	return ""
}

// absent calls report for each member of a file that has no value, and for each url or method that is empty: they would count as not
// there, and an expectation would not be compared. For an expected text, null is a value. The node n is that of the member in, or of
// an item of it.
func absent(n *yaml.Node, in string, report func(n *yaml.Node, name string)) {
	for i, item := range n.Content {
		name := in
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue // the name of a member
			}
			name = n.Content[i-1].Value
		}
		if item.Kind == yaml.AliasNode && item.Alias.Kind == yaml.ScalarNode {
			item = item.Alias
		}
		text := item.Kind == yaml.ScalarNode
		if !text && slices.Contains([]string{"config", "json", "claims", "header"}, name) {
			continue // any JSON
		}
		null := text && item.ShortTag() == "!!null" && !slices.Contains([]string{"headers", "query", "form"}, in)
		if null || text && item.Value == "" && (name == "url" || name == "method") {
			report(item, name)
		}
		absent(item, name, report)
	}
}
