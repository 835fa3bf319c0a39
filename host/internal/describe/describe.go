// Package describe reads the descriptions of auth types, checks them, and writes their JSON Schemas.
package describe

import (
	"errors"
	"fmt"
	"net/http"
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

// maxName limits the name of a type or a field, in bytes.
const maxName = 64

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

// reach is the set of places that a sealed value may go to, and that of places for what is derived from it.
type reach struct{ sinks, derived seal.Sinks }

// parseReach returns the reach of a field or an answer. Without derived, its derived values may go where it may go.
func parseReach(sinks, derived []string) (r reach, err error) {
	if r.sinks, err = seal.ParseSinks(sinks); err != nil {
		return reach{}, err
	}
	if len(derived) == 0 {
		return reach{r.sinks, r.sinks}, nil
	}
	r.derived, err = seal.ParseSinks(derived)
	return r, err
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
	if err := checkAbout(d); err != nil {
		problems = append(problems, err)
	}
	for _, group := range d.Uses {
		t.Uses[group] = true
		if !slices.Contains(contract.Groups, group) {
			wrong("uses: there is no group %q; there are %s", printableText(group), strings.Join(contract.Groups, ", "))
		}
	}
	if len(d.Fields) > contract.MaxFields {
		wrong("there are %d fields, and %d are allowed", len(d.Fields), contract.MaxFields)
	}
	patterns := new(expr.Patterns).Source() // which all fields share
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
	if err := checkAliases(d); err != nil {
		problems = append(problems, err)
	}
	var err error
	if t.Answers, err = checkAnswers(d, d.Answers); err != nil {
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
	if t.Challenge, err = checkChallenge(d); err != nil {
		wrong("challenge: %w", err)
	}
	problems = append(problems, checkConsent(d, exports)...)
	return t, errors.Join(problems...)
}

// checkConsent returns what is wrong with the consent of a description.
func checkConsent(d *abi.Description, exports func(name string) bool) []error {
	if !d.Consent {
		return nil
	}
	var problems []error
	if !exports(contract.ExportConsent) || !exports(contract.ExportConnect) {
		problems = append(problems, fmt.Errorf("consent: the module lacks the exports %s and %s", contract.ExportConsent, contract.ExportConnect))
	}
	if !slices.ContainsFunc(d.Answers, func(a abi.Answer) bool { return a.State != "" }) {
		problems = append(problems, errors.New("consent: no answer has a state, in which the host would keep what was granted"))
	}
	if slices.ContainsFunc(d.State, func(s abi.State) bool { return s.Seed != "" }) {
		problems = append(problems, errors.New("consent: a state has a seed, and a grant begins either with a consent or with a seed"))
	}
	return problems
}

// maxKeep limits [abi.Challenge].Keep, in seconds.
const maxKeep = 24 * 60 * 60

// checkChallenge checks the challenge of a description and returns its answers.
func checkChallenge(d *abi.Description) ([]answer.Part, error) {
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
	return checkAnswers(d, d.Challenge.Answers)
}

// checkAnswers checks answers of a description and returns them in the form that calls use.
func checkAnswers(d *abi.Description, list []abi.Answer) ([]answer.Part, error) {
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
		part, err := checkAnswer(d, a)
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

func checkAnswer(d *abi.Description, a abi.Answer) (answer.Part, error) {
	r, err := parseReach(a.Sinks, a.Derived)
	if err != nil {
		return answer.Part{}, err
	}
	part := answer.Part{Answer: a, Sinks: r.sinks, Derived: r.derived}
	switch {
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
	}
	return part, nil
}

// checkField checks a field of the description, and returns it with its reach and its matcher.
func checkField(d *abi.Description, f *abi.Field, patterns *expr.Source) (field hostfn.Field, err error) {
	field.Field = *f // also of a field that is wrong, so that the name is taken
	r, err := checkRules(d, f)
	if err != nil {
		return field, err
	}
	field.Sinks, field.Derived = r.sinks, r.derived
	if field.Matcher, err = checkPattern(f, patterns); err != nil {
		return field, err
	}
	if f.Default != "" {
		if err := hostfn.CheckValue(&field, f.Default); err != nil {
			return field, fmt.Errorf("its default %w", err)
		}
	}
	return field, nil
}

// checkRules checks the members of a field that need no other part of the host, and returns the field's reach.
func checkRules(d *abi.Description, f *abi.Field) (reach, error) {
	r, err := parseReach(f.Sinks, f.Derived)
	if err != nil {
		return reach{}, err
	}
	if !slices.Contains(contract.Kinds, f.Kind) {
		return reach{}, fmt.Errorf("there is no kind %q; there are %s", printableText(f.Kind), strings.Join(contract.Kinds, ", "))
	}
	if f.Kind == abi.KindKey {
		if r.sinks&^seal.Sign != 0 {
			return reach{}, errors.New("a key has no sink but sign: derived says where signatures go")
		}
		r.sinks = 0 // it signs by its field, for its purposes and with its algorithm; mac would know neither (threats.md 105)
		if !slices.ContainsFunc(d.Fields, func(a abi.Field) bool { return a.Name == f.AlgorithmField && len(a.Enum) > 0 }) {
			return reach{}, errors.New("a key needs an algorithm_field that names a field with an enum")
		}
	}
	switch {
	case f.Kind != abi.KindKey && (f.AlgorithmField != "" || len(f.Purposes) > 0 || f.Generate):
		return reach{}, errors.New("only a key has an algorithm_field or purposes, or is generated")
	case f.Generate && (f.Required || len(f.RequiredIf) > 0):
		return reach{}, errors.New("a key that is generated if it is absent is not required")
	case f.Kind != abi.KindString && len(f.Enum) > 0:
		return reach{}, errors.New("only a string has an enum")
	case f.Kind != abi.KindInteger && (f.Minimum != nil || f.Maximum != nil):
		return reach{}, errors.New("only an integer has a minimum or a maximum")
	case f.Minimum != nil && f.Maximum != nil && *f.Minimum > *f.Maximum:
		return reach{}, errors.New("its minimum is above its maximum, so that no value is allowed")
	case f.Kind == abi.KindObject && (f.Sealed || f.Default != ""):
		return reach{}, errors.New("an object is neither sealed as a whole nor has it a default")
	case f.Kind == abi.KindURL && f.Default != "":
		return reach{}, errors.New("a url has no default: it is for the configuration to say where credentials go")
	case f.Kind == abi.KindKey && f.Default != "":
		return reach{}, errors.New("a key has no default: it is the operator's")
	case (f.Required || len(f.RequiredIf) > 0) && f.Default != "":
		return reach{}, errors.New("a required field has no default")
	case f.Required && len(f.RequiredIf) > 0:
		return reach{}, errors.New("it is required in any case, so that required_if has no effect: leave one of them out")
	case f.Required && len(f.OnlyIf) > 0:
		return reach{}, errors.New("it is required in any case, and only_if refuses it: leave one of them out")
	case strings.Contains(f.Default, "{{"):
		return reach{}, errors.New("its default holds {{, but a default is no template and would be used as it is written: require the field, and say in doc what to configure")
	case f.Sealed && (f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean || len(f.Enum) > 0):
		return reach{}, errors.New("it is sealed, but integers, booleans and values of an enum come to the plugin in plain: leave sealed out, or make it a string without an enum")
	}
	if err := checkEscape(f); err != nil {
		return reach{}, err
	}
	if err := checkConditions(d, f); err != nil {
		return reach{}, err
	}
	if err := checkPurposes(f); err != nil {
		return reach{}, err
	}
	return r, nil
}

// checkPurposes returns an error if a key has a purpose that the contract does not know.
func checkPurposes(f *abi.Field) error {
	for _, purpose := range f.Purposes {
		if !slices.Contains(contract.Purposes, purpose) {
			return fmt.Errorf("there is no purpose %q; there are %s", printableText(purpose), strings.Join(contract.Purposes, ", "))
		}
	}
	return nil
}

// checkEscape returns an error if a field has an Escape that the host cannot honor.
func checkEscape(f *abi.Field) error {
	switch {
	case f.Escape == "":
	case f.Kind != abi.KindString && f.Kind != abi.KindObject, f.Sealed, len(f.Enum) > 0:
		return errors.New("only an object, or a string that is not sealed and has no enum, has escape")
	case strings.ContainsFunc(f.Escape, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("escape holds a character that is not printable ASCII, or a space")
	case !strings.Contains(f.Escape, `\`):
		return errors.New(`escape lacks \: a value could end in a backslash, or hold one before another special character`)
	}
	return nil
}

// checkConditions returns an error unless the conditions of field f can be checked: each names another field, and values of its
// enum if it has values.
func checkConditions(d *abi.Description, f *abi.Field) error {
	for i, condition := range slices.Concat(f.RequiredIf, f.OnlyIf) {
		member := "required_if"
		if i >= len(f.RequiredIf) {
			member = "only_if"
		}
		index := slices.IndexFunc(d.Fields, func(f2 abi.Field) bool { return f2.Name == condition.Field })
		switch {
		case index < 0 || condition.Field == f.Name:
			return fmt.Errorf("%s names no other field", member)
		case i < len(f.RequiredIf) && len(condition.Values) > 0 && len(d.Fields[index].RequiredIf) > 0: // so that no conditions go in circles
			return errors.New("required_if names a field that has required_if itself")
		}
		for _, value := range condition.Values {
			if !slices.Contains(d.Fields[index].Enum, value) {
				return fmt.Errorf("%s: %q is not in the enum of %s", member, printableText(value), condition.Field)
			}
		}
	}
	return nil
}

// checkAliases returns an error unless each name of a configuration's member stands for one field.
func checkAliases(d *abi.Description) error {
	owners := map[string]string{}
	for _, f := range d.Fields {
		owners[f.Name] = f.Name
	}
	for _, f := range d.Fields {
		if len(f.Aliases) > contract.MaxAliases {
			return fmt.Errorf("field %s: there are %d aliases, and %d are allowed", f.Name, len(f.Aliases), contract.MaxAliases)
		}
		for _, alias := range f.Aliases {
			if len(alias) > maxName || !fieldName.MatchString(alias) {
				return fmt.Errorf("field %s: its alias %q is a name that no field may have", f.Name, printableText(alias))
			}
			if owner := owners[alias]; owner != "" {
				return fmt.Errorf("field %s: its alias %s is a name of field %s already", f.Name, alias, owner)
			}
			owners[alias] = f.Name
		}
	}
	return nil
}

// printableText returns a text of a description in a form that is safe for errors.
func printableText(text string) string { return printable.Text(text, 1024) }
