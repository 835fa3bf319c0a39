package host_test

import (
	"context"
	"encoding/json"
	"runtime"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
)

// guest is a plugin in plain Go that runs functions of a test. It has the host functions of a module.
type guest struct {
	about        abi.Description
	output       string // replaces the description if not empty
	validate     func(contract.Env) error
	authenticate func(contract.Env) (output string, err error)
	// consent and connect are the functions of a guest with consent.
	consent, connect func(contract.Env) (output string, err error)
}

var _ sandbox.Guest = (*guest)(nil)

// plugin returns the guest as a plugin for host.Config. It has the type custom unless about names another.
func (g *guest) plugin(grants ...string) host.Plugin {
	g.about.ABI, g.about.Version, g.about.Summary = abi.Version, "1.0.0", "A guest of a test."
	if g.about.Type == "" {
		g.about.Type = "custom"
	}
	return testhook.NativePlugin("guest", g, grants).(host.Plugin)
}

// Has implements sandbox.Guest.
func (g *guest) Has(export string) bool {
	switch export {
	case contract.ExportValidate:
		return g.validate != nil
	case contract.ExportConsent:
		return g.consent != nil
	case contract.ExportConnect:
		return g.connect != nil
	}
	return export != contract.ExportDisconnect
}

// Call implements sandbox.Guest.
func (g *guest) Call(_ context.Context, export string, env contract.Env) (result sandbox.Result, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			panic(p) // a bug of the host or of the test
		default:
			result, err = sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrEnded}
		}
	}()
	output := ""
	switch export {
	case contract.ExportDescribe:
		document, _ := json.Marshal(g.about)
		if output = string(document); g.output != "" {
			output = g.output
		}
	case contract.ExportValidate:
		err = g.validate(env)
	case contract.ExportConsent:
		output, err = g.consent(env)
	case contract.ExportConnect:
		output, err = g.connect(env)
	default:
		output, err = g.authenticate(env)
	}
	if err != nil {
		return sandbox.Result{Code: 1, Message: err.Error()}, nil
	}
	return sandbox.Result{Output: []byte(output), OutputSet: true}, nil
}

// withGuest returns a change of a configuration that adds the guest to its plugins.
func withGuest(g *guest, grants ...string) func(*host.Config) {
	p := g.plugin(grants...)
	return func(c *host.Config) { c.Plugins = append(c.Plugins, p) }
}

// sealedField returns a field for a secret, with its sinks.
func sealedField(name string, sinks ...string) abi.Field {
	return abi.Field{Name: name, Kind: abi.KindString, Sealed: true, Sinks: sinks}
}

// value returns a field of the configuration.
func value(env contract.Env, field string) string {
	v, _ := env.ConfigGet(field)
	return v
}

// header returns a mutation that sets one header.
func header(name, value string) string {
	return marshal(contract.Mutation{Headers: []abi.Pair{{Name: name, Value: value}}})
}

// query returns a mutation that appends one query parameter.
func query(name, value string) string {
	return marshal(contract.Mutation{Query: []abi.Pair{{Name: name, Value: value}}})
}

func marshal(v any) string {
	document, err := json.Marshal(v)
	if err != nil {
		panic("a test's document: " + err.Error())
	}
	return string(document)
}
