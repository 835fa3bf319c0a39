package casefile

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/internal/testworld"
)

// maxParallel limits the requests that a step sends at once. Each is a goroutine.
const maxParallel = 1000

// problem returns what is wrong with a case, or "".
func (c *Case) problem() string {
	switch {
	case strings.TrimSpace(c.Name) == "":
		return "the case has no name"
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

// empty reports whether nothing is expected.
func (x Expect) empty() bool { return reflect.ValueOf(x).IsZero() }

// ofRequest reports whether something of a request to the API is expected.
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
