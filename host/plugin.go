package host

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/seal"
)

// Plugin is an auth type for a host to load.
type Plugin struct {
	// Name is part of errors and log lines. It is usually the name of the module's file.
	Name string
	// Wasm is the compiled module.
	Wasm []byte
	// SHA256 is the digest that the module must have, in hex. If it is empty, the digest is not checked.
	SHA256 string
	// Grants are the plugin's rights beyond the default, from the operator: sign_raw, reveal.
	Grants []string

	// guest replaces Wasm in tests of plugins.
	guest sandbox.Guest
}

// PluginInfo describes a loaded plugin.
type PluginInfo struct {
	// Description is the plugin's own description, with its auth type and the fields of its configuration.
	abi.Description
	// Name is the name of the [Plugin].
	Name string
	// SHA256 is the digest of the module, in hex.
	SHA256 string
	// Size is the size of the module, in bytes.
	Size int
	// Grants are the plugin's rights beyond the default.
	Grants []string
	// BuiltIn reports whether the plugin is one of [Config].BuiltIns.
	BuiltIn bool
	// NotPooled is the reason why each call gets a new instance. It is empty if calls share instances, which are reset
	// after each call.
	NotPooled string
}

// plugin is a loaded plugin.
type plugin struct {
	info   PluginInfo
	guest  sandbox.Guest
	digest [32]byte
	grants map[string]bool
	uses   map[string]bool
	fields map[string]seal.Sinks
	// deterministic is set if calls of the plugin can differ only by the results of host functions.
	deterministic bool
}

var (
	typeName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	fieldName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

// maxName limits the name of a type or a field, in bytes.
const maxName = 64

// checkDescription checks a plugin's description and returns the sinks of its fields.
func checkDescription(d *abi.Description) (map[string]seal.Sinks, error) {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if d.ABI != abi.Version {
		wrong("abi is %d, this host knows %d", d.ABI, abi.Version)
	}
	for _, name := range append([]string{d.Type}, d.Aliases...) {
		if len(name) > maxName || !typeName.MatchString(name) {
			wrong("%q is not the name of an auth type: lower-case letters, digits and _, beginning with a letter", Printable(name))
		}
	}
	if d.Version == "" || d.Summary == "" {
		wrong("version and summary must not be empty")
	}
	for _, group := range d.Uses {
		if !slices.Contains(abi.Groups, group) {
			wrong("uses: there is no group %q; there are %s", Printable(group), strings.Join(abi.Groups, ", "))
		}
	}
	if len(d.Fields) > abi.MaxFields {
		wrong("there are %d fields, and %d are allowed", len(d.Fields), abi.MaxFields)
	}
	fields := map[string]seal.Sinks{}
	for i := range d.Fields {
		f := &d.Fields[i]
		if _, twice := fields[f.Name]; twice || len(f.Name) > maxName || !fieldName.MatchString(f.Name) {
			wrong("field %q is there twice or has a name that no field may have", Printable(f.Name))
			continue
		}
		sinks, err := checkField(d, f)
		if err != nil {
			wrong("field %s: %w", f.Name, err)
		}
		fields[f.Name] = sinks
	}
	return fields, errors.Join(problems...)
}

// checkField checks a field of a description and returns its sinks.
func checkField(d *abi.Description, f *abi.Field) (seal.Sinks, error) {
	sinks, err := seal.ParseSinks(f.Sinks)
	if err != nil {
		return 0, err
	}
	if !slices.Contains(abi.Kinds, f.Kind) {
		return 0, fmt.Errorf("there is no kind %q; there are %s", Printable(f.Kind), strings.Join(abi.Kinds, ", "))
	}
	if f.Kind == abi.KindKey {
		if sinks&^seal.Sign != 0 {
			return 0, errors.New("a key has no sink but sign")
		}
		sinks = seal.Sign
		if !slices.ContainsFunc(d.Fields, func(a abi.Field) bool { return a.Name == f.AlgorithmField && len(a.Enum) > 0 }) {
			return 0, errors.New("a key needs an algorithm_field that names a field with an enum")
		}
	}
	switch {
	case f.Kind != abi.KindKey && f.AlgorithmField != "":
		return 0, errors.New("only a key has an algorithm_field")
	case f.Kind != abi.KindString && len(f.Enum) > 0:
		return 0, errors.New("only a string has an enum")
	case f.Kind != abi.KindInteger && f.Minimum != nil:
		return 0, errors.New("only an integer has a minimum")
	case f.Kind == abi.KindObject && (f.Sealed || f.Default != ""):
		return 0, errors.New("an object is neither sealed as a whole nor has it a default")
	case f.Kind == abi.KindURL && f.Default != "":
		return 0, errors.New("a url has no default: it is for the configuration to say where credentials go")
	case f.Kind == abi.KindKey && f.Default != "":
		return 0, errors.New("a key has no default: it is the operator's")
	case f.Required && f.Default != "":
		return 0, errors.New("a required field has no default")
	case strings.Contains(f.Default, "{{"):
		return 0, errors.New("its default holds {{, but a default is no template and would be used as it is written: require the field, and say in doc what to configure")
	case f.Sealed && (f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean || len(f.Enum) > 0):
		return 0, errors.New("it is sealed, but integers, booleans and values of an enum come to the plugin in plain: leave sealed out, or make it a string without an enum")
	}
	if f.Default != "" {
		if err := hostfn.CheckValue(f, f.Default); err != nil {
			return 0, fmt.Errorf("its default %w", err)
		}
	}
	return sinks, nil
}
