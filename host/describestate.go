package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// checkStates checks the states of a description and returns them in the form that calls use. fields and answers have been
// checked before.
func checkStates(d *abi.Description, fields map[string]reach, answers []answer.Part) ([]hostfn.State, error) {
	if len(d.State) > abi.MaxStates {
		return nil, fmt.Errorf("there are %d, and %d are allowed", len(d.State), abi.MaxStates)
	}
	seen := map[string]bool{}
	for i := range answers {
		name := answers[i].State
		if name == "" {
			continue
		}
		switch {
		case answers[i].Kind != abi.AnswerSealed:
			return nil, fmt.Errorf("the answer %s is a state, and is not sealed", answers[i].Name)
		case seen[name]:
			return nil, fmt.Errorf("two answers are the state %q", Printable(name))
		case !slices.ContainsFunc(d.State, func(s abi.State) bool { return s.Name == name }):
			return nil, fmt.Errorf("the answer %s is a state that the description does not have", answers[i].Name)
		}
		seen[name] = true
	}
	clear(seen)
	states := make([]hostfn.State, len(d.State))
	for i, s := range d.State {
		if seen[s.Name] || len(s.Name) > maxName || !fieldName.MatchString(s.Name) {
			return nil, fmt.Errorf("%q is there twice or is a name that no state may have", Printable(s.Name))
		}
		seen[s.Name] = true
		r, err := reachOfState(d, s, fields, answers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		states[i] = hostfn.State{Name: s.Name, Sinks: r.sinks, Derived: r.derived}
	}
	return states, nil
}

// reachOfState returns where a state may go: where its seed and its answer may go, which have to be the same places.
func reachOfState(d *abi.Description, s abi.State, fields map[string]reach, answers []answer.Part) (r reach, err error) {
	at := slices.IndexFunc(answers, func(a answer.Part) bool { return a.State == s.Name })
	if at < 0 && s.Seed == "" {
		return reach{}, errors.New("it has neither a seed nor an answer, so that it is never there")
	}
	if at >= 0 {
		r = reach{answers[at].Sinks, answers[at].Derived}
	}
	if s.Seed == "" {
		return r, nil
	}
	if !slices.ContainsFunc(d.Fields, func(f abi.Field) bool { return f.Name == s.Seed && f.Kind == abi.KindString && f.Sealed }) {
		return reach{}, errors.New("seed names no field of kind string that is sealed")
	}
	if at >= 0 && r != fields[s.Seed] {
		return reach{}, errors.New("its seed and its answer have not the same sinks and derived")
	}
	return fields[s.Seed], nil
}
