package sdk

import (
	"errors"

	"github.com/keywright/keywright/abi"
)

// Dispatch runs one export of a plugin and returns its output. The compiled module and the test harness call it; plugins
// do not need it.
func Dispatch(p Plugin, env abi.Env, export string) (string, error) {
	switch export {
	case abi.ExportDescribe:
		return describePlugin(p), nil
	case abi.ExportValidate:
		return "", validateConfig(p, env)
	case abi.ExportAuthenticate:
		return authenticateCall(p, env)
	}
	return "", errors.New("there is no export " + export)
}

// Each export has its own function, which is not inlined. One function for all, with the code that the compiler inlines from
// the plugin, could be larger than the host accepts.

//go:noinline
func describePlugin(p Plugin) string { return descriptionJSON(p.Describe()) }

//go:noinline
func validateConfig(p Plugin, env abi.Env) error {
	validator, ok := p.(Validator)
	if !ok {
		return nil
	}
	lines := ""
	for _, problem := range validator.Validate(&Config{env}) {
		if lines != "" {
			lines += "\n"
		}
		lines += problem.Field + ": " + problem.Message
	}
	if lines == "" {
		return nil
	}
	return errors.New(lines)
}

//go:noinline
func authenticateCall(p Plugin, env abi.Env) (string, error) {
	mutation, err := p.Authenticate(&Call{env})
	if err != nil {
		return "", err
	}
	return mutationJSON(mutation), nil
}

func mutationJSON(m Mutation) string {
	var o Members
	if len(m.Headers) > 0 {
		o.Raw("headers", pairsJSON(m.Headers))
	}
	if len(m.Query) > 0 {
		o.Raw("query", pairsJSON(m.Query))
	}
	return o.JSON()
}

func descriptionJSON(d Description) string {
	var o Members
	o.Integer("abi", int64(d.ABI))
	o.String("type", d.Type)
	if len(d.Aliases) > 0 {
		o.Raw("aliases", stringsJSON(d.Aliases))
	}
	o.String("version", d.Version)
	o.String("summary", d.Summary)
	if len(d.Uses) > 0 {
		o.Raw("uses", stringsJSON(d.Uses))
	}
	if d.Anonymous {
		o.Raw("anonymous", "true")
	}
	b := []byte{'['}
	for i, f := range d.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, fieldJSON(f)...)
	}
	o.Raw("fields", string(append(b, ']')))
	return o.JSON()
}

func fieldJSON(f Field) string {
	var o Members
	o.String("name", f.Name)
	o.String("kind", f.Kind)
	if f.Required {
		o.Raw("required", "true")
	}
	if f.Sealed {
		o.Raw("sealed", "true")
	}
	if len(f.Sinks) > 0 {
		o.Raw("sinks", stringsJSON(f.Sinks))
	}
	if len(f.Enum) > 0 {
		o.Raw("enum", stringsJSON(f.Enum))
	}
	if f.Default != "" {
		o.String("default", f.Default)
	}
	if f.Minimum != nil {
		o.Integer("minimum", *f.Minimum)
	}
	if f.AlgorithmField != "" {
		o.String("algorithm_field", f.AlgorithmField)
	}
	if f.Doc != "" {
		o.String("doc", f.Doc)
	}
	return o.JSON()
}
