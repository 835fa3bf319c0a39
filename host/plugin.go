package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// Plugin is an auth type to be loaded.
type Plugin struct {
	// Name is in errors and logs, such as the file's name.
	Name string
	// Wasm is the module.
	Wasm []byte
	// SHA256 is the digest that the module must have, in hex. Empty: any.
	SHA256 string
	// Grants are the rights that the operator gives it: sign_raw, reveal.
	Grants []string

	guest sandbox.Guest // instead of Wasm, in tests of plugins
}

// PluginInfo describes a loaded plugin.
type PluginInfo struct {
	// Description is how the plugin describes itself: its auth type, and the fields of its configuration.
	abi.Description
	// Name is that of the [Plugin].
	Name string
	// SHA256 is the digest of the module, in hex.
	SHA256 string
	// Size is that of the module, in bytes.
	Size int
	// Grants are the rights that the operator gives it.
	Grants []string
	// BuiltIn reports whether it is one of [Config].BuiltIns.
	BuiltIn bool
	// Fresh says why each call has an instance of its own. It is empty when instances are used again, put back after each
	// call to what they were.
	Fresh string
}

// plugin is a loaded plugin.
type plugin struct {
	info   PluginInfo
	guest  sandbox.Guest
	digest [32]byte
	grants map[string]bool
	uses   map[string]bool
	fields map[string]seal.Sinks
	// repeats says that nothing but host functions can make two calls of it differ.
	repeats bool
}

// Plugins lists the loaded plugins, the built-in ones first.
func (h *Host) Plugins() []PluginInfo {
	list := make([]PluginInfo, len(h.order))
	for i, p := range h.order {
		list[i] = p.info
	}
	return list
}

// register makes a plugin's type and aliases known.
func (h *Host) register(p *plugin) error {
	names := append([]string{p.info.Type}, p.info.Aliases...)
	for _, name := range names {
		if other := h.types[name]; other != nil {
			return fmt.Errorf("auth type %q is taken already, by plugin %q: give this one another", name, other.info.Name)
		}
	}
	for _, name := range names {
		h.types[name] = p
	}
	h.order = append(h.order, p)
	return nil
}

// prepare compiles a plugin, and asks it for its description.
func (h *Host) prepare(ctx context.Context, source Plugin) (*plugin, error) {
	p := &plugin{guest: source.guest, digest: sha256.Sum256(source.Wasm), grants: map[string]bool{}}
	digest := hex.EncodeToString(p.digest[:])
	if source.SHA256 != "" && !strings.EqualFold(source.SHA256, digest) {
		return nil, fmt.Errorf("its SHA-256 is %s, but %s is pinned", digest, Printable(source.SHA256))
	}
	for _, grant := range source.Grants {
		if !slices.Contains(abi.Grants, grant) {
			return nil, fmt.Errorf("there is no grant %q; there are %s", grant, strings.Join(abi.Grants, ", "))
		}
		p.grants[grant] = true
	}
	p.repeats = true
	fresh := ""
	if p.guest == nil {
		module, err := h.runtime.Load(ctx, source.Wasm)
		if err != nil {
			return nil, err
		}
		p.guest, p.repeats, fresh = module, module.Repeats(), module.Fresh()
	}
	description, err := h.describe(ctx, p.guest)
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	p.info = PluginInfo{
		Description: *description, Name: source.Name, SHA256: digest, Size: len(source.Wasm), Grants: source.Grants, Fresh: fresh,
	}
	if p.fields, err = checkDescription(description); err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	p.uses = map[string]bool{}
	for _, group := range description.Uses {
		p.uses[group] = true
	}
	return p, nil
}

func (h *Host) describe(ctx context.Context, guest sandbox.Guest) (*abi.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, h.config.Limits.CallTime)
	defer cancel()
	log := h.logLine("", "")
	plan := &hostfn.Plan{
		Random: h.config.Random, Clock: h.config.Clock, Limits: h.config.Limits.call(), Log: log,
		GuestWarns: func(ctx context.Context, text string) { log(ctx, abi.LevelWarn, text) },
	}
	call := hostfn.New(ctx, plan, &hostfn.Inputs{}, hostfn.Describing)
	result, failure := run(ctx, guest, abi.ExportDescribe, call)
	call.Flush()
	if failure != nil {
		return nil, failure
	}
	var d abi.Description
	if err := strictjson.Unmarshal(result.Output, &d); err != nil {
		return nil, fmt.Errorf("its output %w", err)
	}
	return &d, nil
}

// run runs an export of a guest. What the guest put out is only worth something when there is no failure.
func run(ctx context.Context, guest sandbox.Guest, export string, call *hostfn.Call) (sandbox.Result, *hostfn.Failure) {
	result, err := guest.Call(ctx, export, call)
	switch {
	case call.Restart() != nil:
		return result, nil
	case call.Failure() != nil:
		return result, hostFailure(call.Failure())
	case err != nil:
		if context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = context.Cause(ctx)
		}
		return result, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: err}
	case result.Code != 0:
		return result, guestFailure(export, call, result.Message)
	case !result.OutputSet && export != abi.ExportValidate:
		return result, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: errors.New(export + " succeeded without an output")}
	}
	return result, nil
}

// hostFailure returns the failure with which the host ended a call, its error as embedders know it.
func hostFailure(f *hostfn.Failure) *hostfn.Failure {
	var answer *hostfn.TokenError
	if errors.As(f.Err, &answer) {
		return &hostfn.Failure{Stage: f.Stage, Err: (*TokenError)(answer)}
	}
	return f
}

// guestFailure is a guest's own error. When a token endpoint had just refused, that is what the embedder needs to know.
func guestFailure(export string, call *hostfn.Call, message string) *hostfn.Failure {
	text := call.Message(message)
	if text == "" {
		text = export + " failed without a message"
	}
	if answer := call.TokenError(); answer != nil {
		return &hostfn.Failure{Stage: hostfn.StageToken, Err: (*TokenError)(answer)}
	}
	stage := hostfn.StagePlugin
	if call.OtherType() { // and that the plugin cannot use
		stage = hostfn.StageToken
	}
	return &hostfn.Failure{Stage: stage, Err: errors.New(text)}
}

// Printable escapes what would forge a line of a log or talk to a terminal, and cuts what is long.
func Printable(text string) string { return hostfn.Printable(text, 1024) }

var (
	typeName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	fieldName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
)

// checkDescription checks what a plugin says of itself, and gives the sinks of its fields.
func checkDescription(d *abi.Description) (map[string]seal.Sinks, error) {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if d.ABI != abi.Version {
		wrong("abi is %d, this host knows %d", d.ABI, abi.Version)
	}
	for _, name := range append([]string{d.Type}, d.Aliases...) {
		if !typeName.MatchString(name) {
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
		if _, twice := fields[f.Name]; twice || !fieldName.MatchString(f.Name) {
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
