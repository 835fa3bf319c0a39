package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/describe"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
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
	// Limits are limits of this plugin alone. None may be above that of the host.
	Limits PluginLimits

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
	// Limits are the limits of the [Plugin].
	Limits PluginLimits
	// BuiltIn reports whether the plugin is one of [Config].BuiltIns.
	BuiltIn bool
	// NotPooled is the reason why each call gets a new instance. It is empty if calls share instances, which are reset after each call.
	NotPooled string
	// Imports are the functions that the module imports, as module.name, and Exports those that it exports, in the order of the module.
	Imports, Exports []string
	// DescribeFuel is the number of units of fuel that describe used, with the initialisation of the module.
	DescribeFuel int64
}

// Schema returns a JSON Schema (draft 2020-12) of the auth object, {"type", "config"}, of connectors with this auth type. It is for editors
// and forms. It accepts what [Host.NewConnector] accepts, as far as a schema can express it: it also accepts a text with a template in
// place of an integer, a boolean or a URL. It accepts the aliases of the type and lists them in the description of "type" as deprecated.
func (p PluginInfo) Schema() ([]byte, error) { return describe.Schema(&p.Description) }

// SealedFields returns the names of the fields whose values the plugin gets sealed: secrets and keys.
func (p *PluginInfo) SealedFields() (names []string) {
	for _, f := range p.Fields {
		if f.Sealed || f.Kind == abi.KindKey {
			names = append(names, f.Name)
		}
	}
	return names
}

type plugin struct {
	connect.Plugin
	info PluginInfo
	// limits are those of the host, with those of the plugin in their place.
	limits Limits
	// deterministic is set if calls of the plugin can differ only by the results of host functions.
	deterministic bool
}

func (p *plugin) limitError(field string, err error) error {
	f, _ := reflect.TypeFor[PluginLimits]().FieldByName(field)
	return &LimitError{Plugin: p.info.Name, Member: f.Tag.Get("file"), Err: err}
}

// setLimits sets the limits of the plugin. It returns a [LimitError] if one of its own is above that of the host, or cannot be a limit.
func (p *plugin) setLimits(own PluginLimits, host Limits) error {
	p.info.Limits, p.limits = own, host
	owns, all := reflect.ValueOf(own), reflect.ValueOf(&p.limits).Elem()
	for i := range owns.NumField() {
		name, value := owns.Type().Field(i).Name, owns.Field(i)
		limit := all.FieldByName(name)
		switch {
		case value.IsZero():
			continue
		case value.Int() < 0:
			return p.limitError(name, fmt.Errorf("is %v: give a positive one, or leave it out for the host's own", value))
		case value.Int() > limit.Int():
			return p.limitError(name, fmt.Errorf("is %v, and the host's own limit is %v: give at most that, or leave it out", value, limit))
		}
		limit.SetInt(value.Int())
	}
	if err := p.limits.check(); err != nil { // a memory smaller than a page
		return p.limitError("MemoryBytes", err)
	}
	return nil
}

// run calls an export of the plugin. The guest's output is valid only if there is no failure. The error of a limit that the
// plugin has of its own is a [LimitError].
func (p *plugin) run(ctx context.Context, export string, call *hostfn.Call) (sandbox.Result, *hostfn.Failure) {
	result, failure := p.call(ctx, export, call)
	if failure == nil {
		return result, nil
	}
	limit := ""
	var stopped *sandbox.Error
	switch {
	case failure.TokenRequests:
		limit = "TokenRequests"
	case errors.As(failure.Err, &stopped):
		limit = limitsOfSandbox[stopped.Limit]
	}
	if limit != "" && !reflect.ValueOf(p.info.Limits).FieldByName(limit).IsZero() {
		failure.Err = p.limitError(limit, failure.Err)
	}
	return result, failure
}

// limitsOfSandbox has the names of limits that the sandbox enforces, as fields of [PluginLimits].
var limitsOfSandbox = map[string]string{sandbox.LimitFuel: "Fuel", sandbox.LimitMemory: "MemoryBytes", sandbox.LimitTime: "CallTime"}

func (p *plugin) call(ctx context.Context, export string, call *hostfn.Call) (sandbox.Result, *hostfn.Failure) {
	result, err := p.Guest.Call(ctx, export, call)
	switch {
	case call.Restart != nil:
		return result, nil
	case call.Failure != nil:
		return result, call.Failure
	case err != nil:
		if context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = context.Cause(ctx)
		}
		return result, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: err}
	case result.Code != 0:
		return result, guestFailure(export, call, result.Message)
	case !result.OutputSet && contract.HasOutput(export):
		return result, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: errors.New(export + " succeeded without an output")}
	}
	return result, nil
}

// refusalText matches the text of the SDKs for a refusal.
var refusalText = regexp.MustCompile(`^the token endpoint answered \d+( \([a-z_]+\))?$`)

// guestFailure returns the failure for a guest's own error. If a token endpoint had refused the call, that refusal is the
// cause, and the error wraps it. The guest's text follows, unless it is the one of the SDKs for a refusal. That has the status of a
// refusal in place of a 2xx.
func guestFailure(export string, call *hostfn.Call, message string) *hostfn.Failure {
	stage, err := hostfn.StageToken, call.Message(cmp.Or(message, export+" failed without a message"))
	switch refusal := call.TokenError; {
	case refusal != nil && refusalText.MatchString(err.Error()):
		err = refusal
	case refusal != nil:
		err = fmt.Errorf("%w: %w", refusal, err)
	case !call.OtherType: // otherwise the token is no bearer token, so that the plugin cannot use it
		stage = hostfn.StagePlugin
	}
	return &hostfn.Failure{Stage: stage, Err: err, Guest: true}
}

// init lets package hosttest run a plugin as plain Go. Through package testhook, hosttest also reads the memory of
// guests and the texts that they reveal. Embedders must not be able to do any of this.
func init() {
	testhook.NativePlugin = func(name string, guest sandbox.Guest, grants []string) any {
		return Plugin{Name: name, Grants: grants, guest: guest}
	}
}

// overTime returns err, the error of an exchange or nil, whose time was limited. It is a [LimitError] if the plugin's own time was over.
func (p *plugin) overTime(limit time.Duration, err error) error {
	var e *Error
	own := p.info.Limits.CallTime
	if own == 0 || own != limit || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*LimitError)) || !errors.As(err, &e) {
		return err
	}
	over := *e
	over.Err = p.limitError("CallTime", e.Err)
	return &over
}
