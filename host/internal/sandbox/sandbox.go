// Package sandbox runs guests: WebAssembly modules that import the Extism kernel and Keywright's host functions.
//
// A Runtime compiles modules, once each. A Module runs its exports any number of times. Every call sees a new instance, or one that was
// reset to its initial state. The guest's host functions are the methods of a contract.Env that the caller passes to Module.Call. An Env
// ends a call by panicking in a method: wazero unwinds the guest, and Call returns ErrEnded.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/lockedreader"
)

// Guest runs exports of the contract against a contract.Env. A *Module does, and a native plugin of package hosttest.
type Guest interface {
	// Has reports whether the guest has an export.
	Has(export string) bool
	// Call runs an export until it returns or fails.
	Call(ctx context.Context, export string, env contract.Env) (Result, error)
}

// Result is the result of a guest that ran to its end.
type Result struct {
	// Code is the export's return value. 0 is success.
	Code int32
	// Output is a copy of the bytes that the last output_set passed, in UTF-8, and at most Limits.OutputBytes.
	Output []byte
	// OutputSet reports whether the guest called output_set, perhaps with no bytes.
	OutputSet bool
	// Message is the text that the last error_set passed, in UTF-8, within Limits.OutputBytes, with any control characters.
	Message string

	// Time is that of the guest and its host functions, without waits for slots and token endpoints. It is set even if Call fails.
	Time time.Duration
	// Fuel is the number of units of fuel that the guest used, including its initialisation. The same call on the same
	// input uses the same amount. It is set even if Call fails.
	Fuel int64
}

// Limits holds the limits of a guest. Each field means what that of host.Limits does, and none may be zero.
type Limits struct {
	ModuleBytes, MemoryBytes, BlockBytes, Blocks int
	// OutputBytes also bounds an error message.
	OutputBytes, HostCalls, ConcurrentGuests int
	// CallTime limits a call, and separately its wait for a slot. It is checked before signing and on every 16th host call.
	CallTime time.Duration
	Fuel     int64
}

// Config configures a Runtime.
type Config struct {
	// Limits has the number of guests that run at the same time. The other limits are those of Load.
	Limits Limits
	// Clock is the clock that guests read through WASI.
	Clock func() time.Time
	// Random is the source of random bytes that guests read through WASI, one at a time.
	Random io.Reader

	// CodeCache is a directory that keeps compiled code for the next Runtime. If empty, compiled code is not kept.
	CodeCache string
	// Code, if not nil, has the code that this Runtime compiles, and what others with the same Code have compiled.
	Code *Code

	// If not nil, Observe is called after every run with the guest's memory and its blocks, before both are zeroed. It
	// must not keep them, and is called from many goroutines. Tests use it to search for secrets in guests.
	Observe func(memory, arena []byte)
}

// Runtime compiles and runs modules. It is safe for concurrent use.
type Runtime struct {
	observe func(memory, arena []byte)
	wazero  wazero.Runtime
	// code is nil if compiled code is not kept.
	code wazero.CompilationCache
	// config configures every instance.
	config wazero.ModuleConfig
	slots  slots
	// idle is the maximum number of idle instances of a module. It is GOMAXPROCS, since no more run in parallel.
	idle int
}

// features is WebAssembly 2.0 without vector instructions. TinyGo, Go, Rust, C and AssemblyScript compile to it by
// default. Threads, exceptions and tail calls are no part of it.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// New returns a Runtime. The caller must call Close.
func New(ctx context.Context, c Config) (*Runtime, error) {
	r := &Runtime{
		observe: c.Observe, slots: make(slots, c.Limits.ConcurrentGuests), config: moduleConfig(c.Clock, c.Random), idle: runtime.GOMAXPROCS(0),
	}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(features).
		WithMemoryLimitPages(admission.MaxPages). // each memory has a limit of its own, which its allocator enforces
		WithDebugInfoEnabled(false)               // nobody sees the stack traces
	if c.Code != nil {
		config = config.WithCompilationCache(c.Code.cache)
	}
	if c.CodeCache != "" {
		var err error
		if r.code, err = openCodeCache(c.CodeCache); err != nil {
			return nil, fmt.Errorf("code cache: %w", err)
		}
		config = config.WithCompilationCache(r.code)
	}
	r.wazero = wazero.NewRuntimeWithConfig(ctx, config)
	if err := r.provide(ctx); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

// Close releases the runtime and its modules. No call may be running.
func (r *Runtime) Close(ctx context.Context) error {
	err := r.wazero.Close(ctx)
	if r.code != nil {
		err = errors.Join(err, r.code.Close(ctx))
	}
	return err
}

// provide instantiates the modules that guests import from. Package admission checks which functions a guest may import.
func (r *Runtime) provide(ctx context.Context) error {
	env, user := r.wazero.NewHostModuleBuilder(contract.ModuleEnv), r.wazero.NewHostModuleBuilder(contract.ModuleUser)
	add := func(to wazero.HostModuleBuilder, module, name string, do api.GoFunc) {
		t := admission.SignatureOf(admission.Import{Module: module, Name: name})
		to.NewFunctionBuilder().WithGoFunction(do, []api.ValueType(t.Params), []api.ValueType(t.Results)).Export(name)
	}
	for _, f := range envFunctions {
		add(env, contract.ModuleEnv, f.name, f.kernelFunction())
	}
	for _, f := range blockFunctions {
		add(user, contract.ModuleUser, f.name, f.kernelFunction())
	}
	for _, f := range userFunctions {
		add(user, contract.ModuleUser, f.name, f.hostFunction())
	}
	wasi := r.wazero.NewHostModuleBuilder(contract.ModuleWASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(wasi)
	for module, builder := range map[string]wazero.HostModuleBuilder{
		contract.ModuleEnv: env, contract.ModuleUser: user, contract.ModuleWASI: wasi,
	} {
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("making module %s: %w", module, err)
		}
	}
	return nil
}

// moduleConfig returns the configuration of an instance, whose WASI has a clock and random bytes. A sleep returns at once.
func moduleConfig(clock func() time.Time, random io.Reader) wazero.ModuleConfig {
	return wazero.NewModuleConfig().
		WithName("").         // anonymous, whatever name the module has
		WithStartFunctions(). // Call runs _initialize itself
		WithWalltime(func() (int64, int32) {
			now := clock()
			return now.Unix(), int32(now.Nanosecond())
		}, sys.ClockResolution(time.Microsecond)).
		WithNanotime(func() int64 { return clock().UnixNano() }, sys.ClockResolution(time.Microsecond)).
		WithNanosleep(func(int64) {}).
		WithRandSource(lockedreader.New(random))
}

// slots is a semaphore that bounds the number of guests that run at once. A guest that holds a slot has sent an element.
type slots chan struct{}

// acquire waits for a slot. It returns an ErrTime if ctx ends first, or if there is no slot within the time of wait.
func (s slots) acquire(ctx context.Context, wait time.Duration) *Error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, wait) // only now, since mostly a slot is free and needs no timer
	defer cancel()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return stopped(context.Cause(ctx), "its time was over before one of the guests that run at once had ended")
	}
}

func (s slots) release() { <-s }

// Code is compiled code in memory that runtimes share. It stays there until the process ends.
type Code struct{ cache wazero.CompilationCache }

// NewCode returns a Code that is empty.
func NewCode() *Code { return &Code{cache: wazero.NewCompilationCache()} }

// openCodeCache returns the cache of compiled code in dir. It creates the directory if it does not exist. The files
// there are machine code, which runs outside of any sandbox. So openCodeCache returns an error if another user could
// write them, or could replace the directory or one above it.
func openCodeCache(dir string) (wazero.CompilationCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir: // another process has renamed its new file
			return nil
		case err != nil:
			return err
		}
		return onlyOurs(path, info, false)
	})
	for above := filepath.Dir(dir); err == nil; above = filepath.Dir(above) {
		var info fs.FileInfo
		if info, err = os.Stat(above); err == nil {
			// In a directory with the sticky bit, others can only replace files of their own.
			err = onlyOurs(above, info, info.Mode()&fs.ModeSticky != 0)
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(dir)
}

func refusal(path, why, remedy string) error {
	return fmt.Errorf("%s %s, who could have their code run: %s", path, why, remedy)
}
