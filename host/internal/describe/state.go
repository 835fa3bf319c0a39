package describe

import (
	"errors"
	"fmt"
	"slices"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/contract"
)

// checkStates checks the states of a description and returns them in the form that calls use. The fields and answers of the type have
// been checked before.
func checkStates(d *abi.Description, t *Type) ([]hostfn.State, error) {
	if len(d.State) > contract.MaxStates {
		return nil, fmt.Errorf("there are %d, and %d are allowed", len(d.State), contract.MaxStates)
	}
	names := map[string]bool{}
	for i := range t.Answers {
		name := t.Answers[i].State
		if name == "" {
			continue
		}
		switch {
		case t.Answers[i].Kind != contract.AnswerSealed:
			return nil, fmt.Errorf("the answer %s is a state, and is not sealed", t.Answers[i].Name)
		case names[name]:
			return nil, fmt.Errorf("two answers are the state %q", printableText(name))
		case !slices.ContainsFunc(d.State, func(s abi.State) bool { return s.Name == name }):
			return nil, fmt.Errorf("the answer %s is a state that the description does not have", t.Answers[i].Name)
		}
		names[name] = true
	}
	clear(names)
	states := make([]hostfn.State, len(d.State))
	for i, s := range d.State {
		if names[s.Name] || len(s.Name) > maxName || !fieldName.MatchString(s.Name) {
			return nil, fmt.Errorf("%q is there twice or is a name that no state may have", printableText(s.Name))
		}
		names[s.Name] = true
		r, err := reachOfState(t, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		states[i] = hostfn.State{Name: s.Name, Sinks: r.sinks, Derived: r.derived}
	}
	return states, nil
}

// reachOfState returns where a state may go: where its seed and its answer may go, which have to be the same places.
func reachOfState(t *Type, s abi.State) (r reach, err error) {
	answerIndex := slices.IndexFunc(t.Answers, func(a answer.Part) bool { return a.State == s.Name })
	if answerIndex < 0 && s.Seed == "" {
		return reach{}, errors.New("it has neither a seed nor an answer, so that it is never there")
	}
	if answerIndex >= 0 {
		r = reach{t.Answers[answerIndex].Sinks, t.Answers[answerIndex].Derived}
	}
	if s.Seed == "" {
		return r, nil
	}
	seed := slices.IndexFunc(t.Fields, func(f hostfn.Field) bool { return f.Name == s.Seed && f.Kind == abi.KindString && f.Sealed })
	if seed < 0 {
		return reach{}, errors.New("seed names no field of kind string that is sealed")
	}
	reachOfSeed := reach{t.Fields[seed].Sinks, t.Fields[seed].Derived}
	if answerIndex >= 0 && r != reachOfSeed {
		return reach{}, errors.New("its seed and its answer have not the same sinks and derived")
	}
	return reachOfSeed, nil
}
