package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// Signature is the type of a function. Params and Results have a byte for each value type, as WebAssembly and wazero's api.ValueType have.
type Signature struct{ Params, Results string }

var typeNames = map[byte]string{i32: "i32", i64: "i64", f32: "f32", f64: "f64", funcref: "funcref", externref: "externref"}

// String returns the signature in the form (i64, i32) → ().
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

// ruleset lists the functions that modules may import, and the exports whose type it defines.
type ruleset struct {
	imports map[Import]host
	exports []export
	// maxTargets is the maximum number of targets of a br_table.
	maxTargets int
}

type host struct {
	Signature
	meter meter
}

// meter is the cost of a call of a host function beyond its fixed weight.
type meter struct {
	unit measure
	// param is the index of the parameter that holds the length, or the number of pairs.
	param uint32
	// A length costs length << shift units.
	shift byte
}

type measure byte

const (
	byNothing measure = iota
	// byLength charges for a length, an i32 parameter.
	byLength
	// byVectors charges for the lengths in a list of pairs (address, length). Its parameter is the number of pairs; the
	// parameter before that one is the address of the list.
	byVectors
)

type export struct {
	name     string
	required bool
	Signature
}

// Initialize is the name of the export that runs before any other in reactor modules of WASI.
const Initialize = "_initialize"

// plugins is version 1 of the plugin contract.
var plugins = ruleset{
	maxTargets: 5_000,
	imports:    makeImports(),
	exports: []export{
		{contract.ExportDescribe, true, Signature{"", ofI32}},
		{contract.ExportValidate, false, Signature{"", ofI32}},
		{contract.ExportAuthenticate, true, Signature{"", ofI32}},
		{contract.ExportConsent, false, Signature{"", ofI32}},
		{contract.ExportConnect, false, Signature{"", ofI32}},
		{contract.ExportDisconnect, false, Signature{"", ofI32}},
		{Initialize, false, Signature{}},
	},
}

// SignatureOf returns the type of a function that modules may import.
func SignatureOf(i Import) Signature { return plugins.imports[i].Signature }

func makeImports() map[Import]host {
	all := map[Import]host{}
	add := func(module, params, results string, names ...string) {
		for _, name := range names {
			all[Import{module, name}] = host{Signature: Signature{params, results}}
		}
	}
	env, user := contract.ModuleEnv, contract.ModuleUser
	add(env, "", ofI64, contract.EnvInputLength, contract.EnvInputOffset)
	add(env, "", ofI32, contract.EnvGetLogLevel)
	add(env, ofI64, "", contract.EnvErrorSet, contract.EnvFree,
		contract.EnvLogTrace, contract.EnvLogDebug, contract.EnvLogInfo, contract.EnvLogWarn, contract.EnvLogError)
	add(env, ofI64, ofI32, contract.EnvInputLoadU8, contract.EnvLoadU8)
	add(env, ofI64, ofI64, contract.EnvInputLoadU64, contract.EnvLoadU64, contract.EnvConfigGet, contract.EnvVarGet,
		contract.EnvAlloc, contract.EnvLength, contract.EnvLengthUnsafe)
	add(env, ofI64+ofI32, "", contract.EnvStoreU8)
	add(env, ofI64+ofI64, "", contract.EnvStoreU64, contract.EnvOutputSet, contract.EnvVarSet)

	add(user, ofI32+ofI32, ofI64, contract.UserBlockNew)
	add(user, ofI64+ofI32+ofI32, ofI64, contract.UserBlockRead)
	add(user, "", ofI64, contract.UserTimeNow, contract.UserTimeMillis, contract.UserClockOffset, contract.UserBody, contract.UserBodyForm, contract.UserChallenge)
	add(user, ofI64, ofI64, contract.UserRandom, contract.UserSecretGet, contract.UserTokenRequest, contract.UserExchange, contract.UserCacheGet, contract.UserCacheDrop, contract.UserStateGet, contract.UserCounter,
		contract.UserJWTSign, contract.UserJWSSign, contract.UserReveal)
	add(user, ofI64+ofI64, ofI64, contract.UserCompose, contract.UserEncode, contract.UserDecode, contract.UserDigest, contract.UserPublicKey, contract.UserSign)
	add(user, ofI64+ofI64+ofI64, ofI64, contract.UserMAC, contract.UserSignSealed)
	add(user, ofI64+ofI64+ofI64, "", contract.UserCacheSet)

	// Language runtimes import functions of WASI whether they need them or not. None of these opens a file or a socket.
	const two, four = ofI32 + ofI32, ofI32 + ofI32 + ofI32 + ofI32
	wasi := contract.ModuleWASI
	add(wasi, "", ofI32, "sched_yield")
	add(wasi, ofI32, "", "proc_exit")
	add(wasi, ofI32, ofI32, wasiClose)
	add(wasi, two, ofI32, "args_get", "args_sizes_get", "environ_get", "environ_sizes_get", "clock_res_get",
		"fd_fdstat_get", "fd_fdstat_set_flags", "fd_prestat_get")
	add(wasi, two+ofI32, ofI32, "fd_prestat_dir_name")
	add(wasi, ofI32+ofI64+ofI32, ofI32, "clock_time_get")
	add(wasi, ofI32+ofI64+two, ofI32, "fd_seek")
	all[Import{wasi, "random_get"}] = host{Signature{two, ofI32}, meter{byLength, 1, 3}}   // 2 ns a byte
	all[Import{wasi, "poll_oneoff"}] = host{Signature{four, ofI32}, meter{byLength, 2, 8}} // 70 ns a subscription
	all[Import{wasi, "fd_write"}] = host{Signature{four, ofI32}, meter{byVectors, 2, 5}}   // 9 ns a byte when each byte is a line
	all[Import{wasi, "fd_read"}] = host{Signature{four, ofI32}, meter{byLength, 2, 6}}     // 17 ns a vector; stdin is empty
	return all
}

// wasiClose is the function of WASI that changes state which the host cannot reset: it can close stderr.
const wasiClose = "fd_close"

// checkImport returns the reason why a module may not import i, or "".
func (c ruleset) checkImport(i Import, kind byte, t Signature) string {
	text := fmt.Sprintf("it imports %q %q", cut(i.Module), cut(i.Name))
	if kind != kindFunction {
		return fmt.Sprintf("it imports the %s %q %q, but a plugin has to bring its own", kindNames[kind], cut(i.Module), cut(i.Name))
	}
	hostFunc, ok := c.imports[i]
	switch {
	case ok && t != hostFunc.Signature:
		return fmt.Sprintf("%s as %s, but it is %s", text, t, hostFunc.Signature)
	case ok:
		return ""
	case i.Module == contract.ModuleEnv && strings.HasPrefix(i.Name, "http_"):
		return text + ": a plugin has no HTTP of its own; ask for tokens with token_request"
	case i.Module == contract.ModuleEnv || i.Module == contract.ModuleUser:
		return text + ": there is no such function in version 1 of the plugin contract, as this Keywright knows it; see ABI.md"
	case i.Module == contract.ModuleWASI:
		return text + ": a plugin has no files and no sockets; leave out the code that needs them"
	case i.Module == "env" && i.Name == "abort":
		return text + ": build AssemblyScript with --use abort= and a function of your own"
	}
	return fmt.Sprintf("%s: only %s, %s and %s may be imported from; see ABI.md",
		text, contract.ModuleEnv, contract.ModuleUser, contract.ModuleWASI)
}

// checkContract refuses a module without a required export, or with one of another type, or without memory for WASI.
func (m *module) checkContract() {
	usesWASI := slices.ContainsFunc(m.imports, func(i Import) bool { return i.Module == contract.ModuleWASI })
	if usesWASI && m.exports["memory"].kind != kindMemory {
		m.refuse(`it imports WASI, so it has to export its memory as "memory"`)
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
