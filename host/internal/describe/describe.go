// Package describe reads the descriptions of auth types, checks them, and writes their JSON Schemas.
package describe

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/printable"
)

var (
	typeName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	fieldName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

const maxName = 64 // bytes of the name of a type or a field

// Type is an auth type, as its description has it.
type Type struct {
	// Uses has the groups of host functions.
	Uses map[string]bool
	// Fields are the fields of the configuration, in order.
	Fields []hostfn.Field
	// Answers are the parts of answers of exchanges, and Challenge those of the API's refusal.
	Answers, Challenge []answer.Part
	States             []hostfn.State
}

// parseSinks returns the sinks of a field or an answer. Without derived, its derived values may go where it may go.
func parseSinks(own, derived []string) (sinks, ofDerived seal.Sinks, err error) {
	if sinks, err = seal.ParseSinks(own); err != nil || len(derived) == 0 {
		return sinks, sinks, err
	}
	ofDerived, err = seal.ParseSinks(derived)
	return sinks, ofDerived, err
}

// Decode decodes the output of describe. The description of another contract may have members and rules that this host does
// not know, so nothing but its number is read.
func Decode(output []byte, d *abi.Description) error {
	var versioned struct {
		ABI int `json:"abi"`
	}
	if err := strictjson.UnmarshalOpen(output, &versioned); err != nil {
		return fmt.Errorf("its output %w", err)
	}
	switch {
	case versioned.ABI > abi.Version:
		return fmt.Errorf("abi is %d, this host knows %d: the module is of a contract that a later Keywright may know", versioned.ABI, abi.Version)
	case versioned.ABI != abi.Version:
		return fmt.Errorf("abi is %d, this host knows %d: no plugin has that contract", versioned.ABI, abi.Version)
	}
	err := strictjson.Unmarshal(output, d)
	switch {
	case err == nil:
		return nil
	case strictjson.UnmarshalOpen(output, &abi.Description{}) == nil: // only the member is wrong
		return fmt.Errorf("its output %w, which a later Keywright may know", err)
	}
	return fmt.Errorf("its output %w", err)
}

// Check returns the auth type of a description, or an error with all that is wrong. exports reports whether the module has an export.
func Check(d *abi.Description, exports func(name string) bool) (*Type, error) {
	t := &Type{Uses: map[string]bool{}}
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, name := range append([]string{d.Type}, d.Aliases...) {
		if len(name) > maxName || !typeName.MatchString(name) {
			wrong("%q is not the name of an auth type: lower-case letters, digits and _, beginning with a letter", printableText(name))
		}
	}
	if d.Version == "" || d.Summary == "" {
		wrong("version and summary must not be empty")
	}
	checkAbout(d, wrong)
	for _, group := range d.Uses {
		t.Uses[group] = true
		if !slices.Contains(contract.Groups, group) {
			wrong("uses: there is no group %q; there are %s", printableText(group), strings.Join(contract.Groups, ", "))
		}
	}
	if len(d.Fields) > contract.MaxFields {
		wrong("there are %d fields, and %d are allowed", len(d.Fields), contract.MaxFields)
	}
	patterns := new(expr.Patterns).Source() // which all fields and answers share
	for i := range d.Fields {
		f := &d.Fields[i]
		twice := slices.ContainsFunc(t.Fields, func(f2 hostfn.Field) bool { return f2.Name == f.Name })
		if twice || len(f.Name) > maxName || !fieldName.MatchString(f.Name) {
			wrong("field %q is there twice or has a name that no field may have", printableText(f.Name))
			continue
		}
		field, err := checkField(d, f, patterns)
		if err != nil {
			wrong("field %s: %w", f.Name, err)
		}
		t.Fields = append(t.Fields, field)
	}
	problems = append(problems, checkAliases(d))
	var err error
	if t.Answers, err = checkAnswers(d, d.Answers, patterns); err != nil {
		wrong("answers: %w", err)
	}
	for _, a := range d.Answers {
		if a.Keep {
			wrong("answers: %s: only an answer of the challenge has keep", printableText(a.Name))
		}
	}
	if t.States, err = checkStates(d, t); err != nil {
		wrong("state: %w", err)
	}
	if t.Challenge, err = checkChallenge(d, patterns); err != nil {
		wrong("challenge: %w", err)
	}
	if d.Consent {
		checkConsent(d, exports, wrong)
	}
	return t, errors.Join(problems...)
}

func checkConsent(d *abi.Description, exports func(name string) bool, wrong func(format string, args ...any)) {
	if !exports(contract.ExportConsent) || !exports(contract.ExportConnect) {
		wrong("consent: the module lacks the exports %s and %s", contract.ExportConsent, contract.ExportConnect)
	}
	if !slices.ContainsFunc(d.Answers, func(a abi.Answer) bool { return a.State != "" }) {
		wrong("consent: no answer has a state, in which the host would keep what was granted")
	}
	if slices.ContainsFunc(d.State, func(s abi.State) bool { return s.Seed != "" }) {
		wrong("consent: a state has a seed, and a grant begins either with a consent or with a seed")
	}
}

const maxKeep = 24 * 60 * 60 // seconds

func checkChallenge(d *abi.Description, patterns *expr.Source) ([]answer.Part, error) {
	if d.Challenge == nil {
		return nil, nil
	}
	for _, status := range d.Challenge.Statuses {
		if status < 400 || status > 499 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
			return nil, fmt.Errorf("%d is no status for another attempt: 400 to 499 are, except 408 and 429", status)
		}
	}
	if len(d.Challenge.Statuses) > contract.MaxAnswers {
		return nil, fmt.Errorf("there are %d statuses, and %d are allowed", len(d.Challenge.Statuses), contract.MaxAnswers)
	}
	keeps := slices.ContainsFunc(d.Challenge.Answers, func(a abi.Answer) bool { return a.Keep })
	if keep := d.Challenge.Keep; keeps != (keep != 0) || keep < 0 || keep > maxKeep {
		return nil, fmt.Errorf("keep is 1 to %d seconds if an answer is kept, and absent otherwise", maxKeep)
	}
	for _, a := range d.Challenge.Answers {
		if a.Required || a.FromField != "" || a.Alternative != "" || a.State != "" {
			return nil, fmt.Errorf("%s: only an answer of an exchange is required, has a from_field or an alternative, or is a state", printableText(a.Name))
		}
	}
	if err := checkConditions(d, "only_if", "", d.Challenge.OnlyIf); err != nil {
		return nil, err
	}
	return checkAnswers(d, d.Challenge.Answers, patterns)
}

// checkAnswers checks answers of a description and returns them in the form that calls use.
func checkAnswers(d *abi.Description, list []abi.Answer, patterns *expr.Source) ([]answer.Part, error) {
	plain := 0
	names := map[string]bool{}
	var parts []answer.Part
	for _, a := range list {
		if names[a.Name] || len(a.Name) > maxName || !fieldName.MatchString(a.Name) {
			return nil, fmt.Errorf("%q is there twice or is a name that no answer may have", printableText(a.Name))
		}
		names[a.Name] = true
		if a.Kind != contract.AnswerSealed {
			plain++
		}
		part, err := checkAnswer(d, a, patterns)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		parts = append(parts, part)
	}
	if len(list) > contract.MaxAnswers || plain > contract.MaxPlainAnswers {
		return nil, fmt.Errorf("there are %d, %d of them not sealed: %d and %d are allowed", len(list), plain, contract.MaxAnswers, contract.MaxPlainAnswers)
	}
	return parts, answer.CheckSources(parts)
}

func checkAnswer(d *abi.Description, a abi.Answer, patterns *expr.Source) (answer.Part, error) {
	sinks, derived, err := parseSinks(a.Sinks, a.Derived)
	part := answer.Part{Answer: a, Sinks: sinks, Derived: derived}
	switch {
	case err != nil:
		return part, err
	case (a.From == "") == (a.FromField == ""):
		return part, errors.New("it has either from or from_field")
	case a.FromField != "":
		if !slices.ContainsFunc(d.Fields, func(f abi.Field) bool {
			return f.Name == a.FromField && f.Kind == abi.KindString && !f.Sealed && len(f.Enum) == 0 && f.Escape == ""
		}) {
			return part, errors.New("from_field names no field of kind string that is not sealed and has neither an enum nor escape")
		}
	default:
		if part.Source, err = answer.ParseSource(a.From); err != nil {
			return part, fmt.Errorf("from %w", err)
		}
	}
	if a.Alternative != "" {
		if part.Alternative, err = answer.ParseSource(a.Alternative); err != nil {
			return part, fmt.Errorf("alternative %w", err)
		}
	}
	if !slices.Contains([]string{contract.AnswerSealed, contract.AnswerInteger, contract.AnswerTime, contract.AnswerEnum}, a.Kind) {
		return part, fmt.Errorf("there is no kind %q of an answer; there are sealed, integer, time, enum", printableText(a.Kind))
	}
	sealed, enum := a.Kind == contract.AnswerSealed, a.Kind == contract.AnswerEnum
	switch {
	case sealed != (len(a.Sinks) > 0) || !sealed && len(a.Derived) > 0:
		return part, errors.New("a sealed answer has sinks, and no other has")
	case enum != (len(a.Enum) > 0) || len(a.Enum) > contract.MaxEnum:
		return part, fmt.Errorf("an enum lists 1 to %d names, and no other kind does", contract.MaxEnum)
	case slices.ContainsFunc(a.Enum, func(name string) bool { return name == "" || len(name) > maxName }):
		return part, fmt.Errorf("a name of an enum has 1 to %d bytes", maxName)
	case a.Keep && !sealed && !enum:
		return part, errors.New("only a sealed answer or an enum is kept")
	case a.Pattern != "" && (!sealed || a.State != ""):
		return part, errors.New("only a sealed answer has a pattern, and none that is a state: one that does not match would be lost")
	case a.Pattern != "":
		part.Matcher, err = compilePattern(a.Pattern, patterns)
		part.Word = areWords(a.Pattern)
	}
	return part, err
}

// printableText returns a text of a description in a form that is safe for errors.
func printableText(text string) string { return printable.Text(text, 1024) }

// checkStates checks the states of a description, after the fields and answers, and returns them in the form that calls use.
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
		var err error
		if states[i], err = checkState(t, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return states, nil
}

// checkState returns a state. It may go where its seed and its answer may go, which have to be the same places.
func checkState(t *Type, s abi.State) (state hostfn.State, err error) {
	state.Name = s.Name
	answerIndex := slices.IndexFunc(t.Answers, func(a answer.Part) bool { return a.State == s.Name })
	seed := slices.IndexFunc(t.Fields, func(f hostfn.Field) bool { return f.Name == s.Seed && f.Kind == abi.KindString && f.Sealed })
	switch {
	case answerIndex < 0 && s.Seed == "":
		return state, errors.New("it has neither a seed nor an answer, so that it is never there")
	case s.Seed != "" && seed < 0:
		return state, errors.New("seed names no field of kind string that is sealed")
	case s.Seed != "":
		state.Sinks, state.Derived = t.Fields[seed].Sinks, t.Fields[seed].Derived
	default:
		state.Sinks, state.Derived = t.Answers[answerIndex].Sinks, t.Answers[answerIndex].Derived
	}
	if answerIndex >= 0 && (t.Answers[answerIndex].Sinks != state.Sinks || t.Answers[answerIndex].Derived != state.Derived) {
		return state, errors.New("its seed and its answer have not the same sinks and derived")
	}
	return state, nil
}

// checkAbout checks the texts of a description that say where the plugin and its credentials come from. They are shown to people,
// at terminals and in editors, so that they may hold nothing but printable text.
func checkAbout(d *abi.Description, wrong func(format string, args ...any)) {
	check := func(name, text string) {
		if len(text) > contract.MaxAbout || printableText(text) != text {
			wrong("%s has more than %d bytes, or characters that cannot be printed", name, contract.MaxAbout)
		}
	}
	check("homepage", d.Homepage)
	check("license", d.License)
	for _, f := range d.Fields {
		check("field "+printableText(f.Name)+": obtain", f.Obtain)
		check("field "+printableText(f.Name)+": pattern_message", f.PatternMessage)
	}
	if u, err := url.Parse(d.Homepage); d.Homepage != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil) {
		wrong("homepage is no https URL of a page")
	}
}

// About returns the text about a field for users: its purpose, and the way to get its value.
func About(f *abi.Field) string {
	if f.Doc == "" || f.Obtain == "" {
		return f.Doc + f.Obtain
	}
	return f.Doc + " " + f.Obtain
}
