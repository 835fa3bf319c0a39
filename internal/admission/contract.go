package admission

import (
	"fmt"
	"strings"

	"github.com/keywright/keywright/abi"
)

// Signature is the type of a function: a byte for each parameter and each result, as in WebAssembly and in wazero's api.ValueType.
type Signature struct{ Params, Results string }

var typeNames = map[byte]string{i32: "i32", i64: "i64", f32: "f32", f64: "f64", funcref: "funcref", externref: "externref"}

// String writes a signature such as (i64, i32) → ().
func (s Signature) String() string {
	list := func(types string) string {
		names := make([]string, len(types))
		for i := range names {
			names[i] = typeNames[types[i]]
		}
		return strings.Join(names, ", ")
	}
	results := list(s.Results)
	if len(s.Results) != 1 {
		results = "(" + results + ")"
	}
	return "(" + list(s.Params) + ") → " + results
}

// contract lists the imports that modules may have, and the exports that they have to have.
type contract struct {
	imports map[Import]host
	exports []export
	targets int // that a br_table may have
}

// host is a function of the host.
type host struct {
	Signature
	meter meter
}

// meter says what a call of the host costs on top of its fixed weight.
type meter struct {
	by    measure
	param uint32 // that gives the length
	shift byte   // units are the length shifted left by this
}

type measure byte

const (
	byNothing measure = iota
	byLength          // an i32
	byVectors         // the lengths of this many pairs (address, length), at the address in the parameter before
)

type export struct {
	name     string
	required bool
	Signature
}

// initialize is the export that runs before any other in reactor modules of WASI.
const initialize = "_initialize"

// plugins is version 1 of the plugin contract.
var plugins = contract{
	targets: 5_000,
	imports: makeImports(),
	exports: []export{
		{abi.ExportDescribe, true, Signature{"", ofI32}},
		{abi.ExportValidate, false, Signature{"", ofI32}},
		{abi.ExportAuthenticate, true, Signature{"", ofI32}},
		{initialize, false, Signature{}},
	},
}

func makeImports() map[Import]host {
	all := map[Import]host{}
	add := func(module, params, results string, names ...string) {
		for _, name := range names {
			all[Import{module, name}] = host{Signature: Signature{params, results}}
		}
	}
	env, user := abi.ModuleEnv, abi.ModuleUser
	add(env, "", ofI64, abi.EnvInputLength, abi.EnvInputOffset)
	add(env, "", ofI32, abi.EnvGetLogLevel)
	add(env, ofI64, "", abi.EnvErrorSet, abi.EnvFree,
		abi.EnvLogTrace, abi.EnvLogDebug, abi.EnvLogInfo, abi.EnvLogWarn, abi.EnvLogError)
	add(env, ofI64, ofI32, abi.EnvInputLoadU8, abi.EnvLoadU8)
	add(env, ofI64, ofI64, abi.EnvInputLoadU64, abi.EnvLoadU64, abi.EnvConfigGet, abi.EnvVarGet,
		abi.EnvAlloc, abi.EnvLength, abi.EnvLengthUnsafe)
	add(env, ofI64+ofI32, "", abi.EnvStoreU8)
	add(env, ofI64+ofI64, "", abi.EnvStoreU64, abi.EnvOutputSet, abi.EnvVarSet)

	add(user, ofI32+ofI32, ofI64, abi.UserBlockNew)
	add(user, ofI64+ofI32+ofI32, ofI64, abi.UserBlockRead)
	add(user, "", ofI64, abi.UserTimeNow)
	add(user, ofI64, ofI64, abi.UserSecretGet, abi.UserTokenRequest, abi.UserCacheGet, abi.UserJWTSign, abi.UserReveal)
	add(user, ofI64+ofI64, ofI64, abi.UserEncode, abi.UserSign)
	add(user, ofI64+ofI64+ofI64, ofI64, abi.UserMAC)
	add(user, ofI64+ofI64+ofI64, "", abi.UserCacheSet)
	addWASI(all)
	return all
}

// What of WASI draws on something that is not the same in the next call, and what makes the next call another.
const (
	wasiRandom = "random_get"
	wasiClock  = "clock_time_get"
	wasiClose  = "fd_close" // closes stderr, for example
)

// addWASI adds what of WASI a guest may import. Language runtimes import it whether they need it or not. There is
// nothing that opens a file or a socket.
func addWASI(all map[Import]host) {
	const one, two, three, four = ofI32, ofI32 + ofI32, ofI32 + ofI32 + ofI32, ofI32 + ofI32 + ofI32 + ofI32
	add := func(name, params, results string, m meter) {
		all[Import{abi.ModuleWASI, name}] = host{Signature{params, results}, m}
	}
	add("args_get", two, one, meter{})
	add("args_sizes_get", two, one, meter{})
	add("environ_get", two, one, meter{})
	add("environ_sizes_get", two, one, meter{})
	add("clock_res_get", two, one, meter{})
	add(wasiClock, ofI32+ofI64+ofI32, one, meter{})
	add(wasiRandom, two, one, meter{byLength, 1, 3})     // 2 ns a byte
	add("poll_oneoff", four, one, meter{byLength, 2, 8}) // 70 ns a subscription
	add("sched_yield", "", one, meter{})
	add("proc_exit", one, "", meter{})
	add("fd_write", four, one, meter{byVectors, 2, 5}) // 9 ns a byte, when each is a line
	add("fd_read", four, one, meter{byLength, 2, 6})   // 17 ns a vector; there is nothing to read
	add(wasiClose, one, one, meter{})
	add("fd_seek", ofI32+ofI64+two, one, meter{})
	add("fd_fdstat_get", two, one, meter{})
	add("fd_fdstat_set_flags", two, one, meter{})
	add("fd_prestat_get", two, one, meter{})
	add("fd_prestat_dir_name", three, one, meter{})
}

// checkImport says why a module may not import something, or "".
func (c contract) checkImport(i Import, kind byte, t Signature) string {
	text := fmt.Sprintf("it imports %q %q", cut(i.Module), cut(i.Name))
	if kind != kindFunction {
		return fmt.Sprintf("it imports the %s %q %q, but a plugin has to bring its own", kindNames[kind], cut(i.Module), cut(i.Name))
	}
	allowed, ok := c.imports[i]
	switch {
	case ok && t != allowed.Signature:
		return fmt.Sprintf("%s as %s, but it is %s", text, t, allowed.Signature)
	case ok:
		return ""
	case i.Module == abi.ModuleEnv && strings.HasPrefix(i.Name, "http_"):
		return text + ": a plugin has no HTTP of its own; ask for tokens with token_request"
	case i.Module == abi.ModuleEnv || i.Module == abi.ModuleUser:
		return text + ": there is no such function in version 1 of the plugin contract; see ABI.md"
	case i.Module == abi.ModuleWASI:
		return text + ": a plugin has no files and no sockets; leave out the code that needs them"
	case i.Module == "env" && i.Name == "abort":
		return text + ": build AssemblyScript with --use abort= and a function of your own"
	}
	return fmt.Sprintf("%s: only %s, %s and %s may be imported from; see ABI.md",
		text, abi.ModuleEnv, abi.ModuleUser, abi.ModuleWASI)
}

// checkContract adds what the contract says about the module as a whole.
func (m *module) checkContract() {
	for _, i := range m.imports {
		if i.Module == abi.ModuleWASI && m.exports["memory"].kind != kindMemory {
			m.refuse(`it imports WASI, so it has to export its memory as "memory"`)
			break
		}
	}
	for _, e := range m.rules.exports {
		found, ok := m.exports[e.name]
		ok = ok && found.kind == kindFunction
		switch {
		case !ok && e.required:
			m.refuse(fmt.Sprintf("it has no function %q to export: add one of type %s", e.name, e.Signature))
		case ok && m.typeOf(found.index) != e.Signature:
			m.refuse(fmt.Sprintf("its export %q is %s, but has to be %s", e.name, m.typeOf(found.index), e.Signature))
		}
	}
}
