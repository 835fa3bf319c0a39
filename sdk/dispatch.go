package sdk

import (
	"errors"
	"strconv"
	"time"

	"github.com/keywright/keywright/internal/contract"
)

func validateConfig(p Plugin, env contract.Env) error {
	validator, ok := p.(Validator)
	if !ok {
		return nil
	}
	lines := ""
	for _, problem := range validator.Validate(&Config{env}) {
		lines += "\n" + problem.Field + ": " + problem.Message
	}
	if lines == "" {
		return nil
	}
	return errors.New(lines[1:])
}

func authenticateCall(p Plugin, env contract.Env) (string, error) {
	m, err := p.Authenticate(&Call{env})
	if err != nil {
		return "", err
	}
	var o Members
	o.pairs("headers", m.Headers)
	o.pairs("query", m.Query)
	o.pairs("cookies", m.Cookies)
	o.pairs("path", m.Path)
	o.pairs("form", m.Form)
	o.text("url", m.URL)
	o.flag("pass", m.Pass)
	return o.JSON(), nil
}

// pairs adds a list of pairs unless it is empty.
func (m *Members) pairs(name string, list []Pair) {
	if len(list) > 0 {
		m.name(name)
		m.b = appendPairs(m.b, list)
	}
}

func describePlugin(p Plugin) string {
	d := p.Describe()
	var o Members
	o.Integer("abi", int64(d.ABI))
	o.String("type", d.Type)
	o.names("aliases", d.Aliases)
	o.String("version", d.Version)
	o.String("summary", d.Summary)
	o.text("homepage", d.Homepage)
	o.text("license", d.License)
	o.names("uses", texts(d.Uses))
	o.flag("anonymous", d.Anonymous)
	addList(&o, "fields", d.Fields, fieldJSON)
	addList(&o, "answers", d.Answers, answerJSON)
	addList(&o, "state", d.State, stateJSON)
	if d.Challenge != nil {
		o.Raw("challenge", challengeJSON(d.Challenge))
	}
	o.flag("consent", d.Consent)
	return o.JSON()
}

// addList adds a list unless it is empty. element returns the JSON of an element.
func addList[T any](m *Members, name string, list []T, element func(T) string) {
	if len(list) == 0 {
		return
	}
	m.name(name)
	separator := "["
	for _, e := range list {
		m.b = add(add(m.b, separator), element(e))
		separator = ","
	}
	m.b = add(m.b, "]")
}

func challengeJSON(c *Challenge) string {
	var o Members
	addList(&o, "statuses", c.Statuses, strconv.Itoa)
	addList(&o, "answers", c.Answers, answerJSON)
	if c.Keep != 0 {
		o.Integer("keep", int64(c.Keep/time.Second))
	}
	addList(&o, "only_if", c.OnlyIf, conditionJSON)
	return o.JSON()
}

func stateJSON(s State) string {
	var o Members
	o.String("name", s.Name)
	o.text("seed", s.Seed)
	return o.JSON()
}

func answerJSON(a Answer) string {
	var o Members
	o.String("name", a.Name)
	o.text("from", a.From)
	o.text("alternative", a.Alternative)
	o.text("from_field", a.FromField)
	o.String("kind", string(a.Kind))
	o.names("sinks", texts(a.Sinks))
	o.names("derived", texts(a.Derived))
	o.names("enum", a.Enum)
	o.text("pattern", a.Pattern)
	o.flag("required", a.Required)
	o.text("state", a.State)
	o.flag("keep", a.Keep)
	return o.JSON()
}

// texts returns constants as texts.
func texts[T ~string](constants []T) []string {
	list := make([]string, len(constants))
	for i, c := range constants {
		list[i] = string(c)
	}
	return list
}

// names adds a list of strings unless it is empty.
func (m *Members) names(name string, list []string) {
	if len(list) > 0 {
		m.Raw(name, Strings(list))
	}
}

// text adds a text unless it is empty.
func (m *Members) text(name, value string) {
	if value != "" {
		m.String(name, value)
	}
}

// flag adds true unless value is false.
func (m *Members) flag(name string, value bool) {
	if value {
		m.Raw(name, "true")
	}
}

func fieldJSON(f Field) string {
	var o Members
	o.String("name", f.Name)
	o.names("aliases", f.Aliases)
	o.String("kind", string(f.Kind))
	o.flag("required", f.Required)
	addList(&o, "required_if", f.RequiredIf, conditionJSON)
	addList(&o, "only_if", f.OnlyIf, conditionJSON)
	o.flag("sealed", f.Sealed)
	o.names("sinks", texts(f.Sinks))
	o.names("derived", texts(f.Derived))
	o.names("enum", f.Enum)
	o.text("default", f.Default)
	if f.Minimum != nil {
		o.Integer("minimum", *f.Minimum)
	}
	if f.Maximum != nil {
		o.Integer("maximum", *f.Maximum)
	}
	o.text("pattern", f.Pattern)
	o.text("pattern_message", f.PatternMessage)
	o.text("algorithm_field", f.AlgorithmField)
	if len(f.Algorithms) > 0 {
		var names Members
		for _, p := range f.Algorithms {
			names.String(p.Name, p.Value)
		}
		o.Raw("algorithms", names.JSON())
	}
	o.text("encoding_field", f.EncodingField)
	o.names("purposes", texts(f.Purposes))
	o.flag("generate", f.Generate)
	o.text("escape", f.Escape)
	o.flag("composed", f.Composed)
	o.names("values", f.Values)
	o.names("suggested", f.Suggested)
	o.text("doc", f.Doc)
	o.text("obtain", f.Obtain)
	return o.JSON()
}

func conditionJSON(c Condition) string {
	var o Members
	o.String("field", c.Field)
	o.names("values", c.Values)
	o.flag("absent", c.Absent)
	return o.JSON()
}
