// Package sandbox runs guests: WebAssembly modules that import the Extism kernel and Keywright's host functions.
//
// A Runtime compiles modules, once each; a Module runs an export of one as often as it is asked, every time as if in a new
// instance: what a call leaves behind is gone before the next. What a guest asks of the host goes to an abi.Env that comes with
// the call. An Env ends a call by panicking out of a method: wazero unwinds the guest, and Call gives ErrEnded.
package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/keywright/keywright/abi"
)

// Guest is something that has exports and runs them against an abi.Env. *Module is one.
type Guest interface {
	Has(export string) bool
	Call(ctx context.Context, export string, env abi.Env) (Result, error)
}

var _ Guest = (*Module)(nil)

// Result is the result of a guest that ran to its end.
type Result struct {
	Code      int32  // of the export; 0 is success
	Output    []byte // the last output_set: a copy, valid UTF-8, at most Limits.OutputBytes
	OutputSet bool   // whether there was an output_set, which may have been of no bytes
	Message   string // the last error_set: valid UTF-8, at most Limits.OutputBytes, control characters and all

	// Time is how long the guest and its host functions took, without its wait for slots and token endpoints. It is there
	// also when Call fails.
	Time time.Duration
	// Fuel is the fuel that the guest used, in units, its initialisation included: the same for the same call on the same
	// input. It is there also when Call fails.
	Fuel int64
}

// Limits bound what a guest may use: those of package host that have the same names. None may be zero.
type Limits struct {
	ModuleBytes, MemoryBytes, BlockBytes, Blocks int
	// OutputBytes bounds an output, and an error message.
	OutputBytes, HostCalls, ConcurrentGuests int
	// CallTime limits a call, and separately its wait for a slot. It is checked before signing and on every 16th host call.
	CallTime time.Duration
	Fuel     int64
}

// Config configures a Runtime.
type Config struct {
	Limits Limits
	Clock  func() time.Time // what guests see through WASI; nil is time.Now
	Random io.Reader        // what guests draw from through WASI, one call at a time; nil is crypto/rand

	// CodeCache is a directory that keeps compiled code for the next Runtime. Empty: none.
	CodeCache string

	// Observe, when there is one, is shown the guest's memory and its blocks after every run, before both are zeroed.
	// It is for tests that look for what must not be there, must not keep them, and is called from many goroutines.
	Observe func(memory, arena []byte)
}

// Runtime compiles and runs modules. It is safe for concurrent use.
type Runtime struct {
	limits  Limits
	observe func(memory, arena []byte)
	wazero  wazero.Runtime
	code    wazero.CompilationCache // nil: none
	config  wazero.ModuleConfig     // of every instance
	slots   slots
	idle    int // instances of a module that wait for a call, at most: no more than these run at the same moment
}

// features is WebAssembly 2.0 without vector instructions: what TinyGo, Go, Rust, C and AssemblyScript compile to by
// default. Threads, exceptions and tail calls are off because nobody turned them on.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// New makes a Runtime. Its Close releases it.
func New(ctx context.Context, c Config) (*Runtime, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	r := &Runtime{
		limits:  c.Limits,
		observe: c.Observe,
		slots:   make(slots, c.Limits.ConcurrentGuests),
		config:  moduleConfig(c.Clock, c.Random),
		idle:    runtime.GOMAXPROCS(0),
	}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(features).
		WithMemoryLimitPages(uint32(c.Limits.MemoryBytes / pageBytes)).
		WithDebugInfoEnabled(false) // stack traces are not shown to anyone
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

// Close releases the runtime with all modules. No call may be running.
func (r *Runtime) Close(ctx context.Context) error {
	err := r.wazero.Close(ctx)
	if r.code != nil {
		err = errors.Join(err, r.code.Close(ctx))
	}
	return err
}

// provide makes the modules that guests import from. What of them a guest may import is for package admission to say.
func (r *Runtime) provide(ctx context.Context) error {
	env := r.wazero.NewHostModuleBuilder(abi.ModuleEnv)
	for _, f := range envFunctions {
		env.NewFunctionBuilder().WithGoFunction(f.kernelFunction(), f.params, f.results).Export(f.name)
	}
	user := r.wazero.NewHostModuleBuilder(abi.ModuleUser)
	for _, f := range blockFunctions {
		user.NewFunctionBuilder().WithGoFunction(f.kernelFunction(), f.params, f.results).Export(f.name)
	}
	for _, f := range userFunctions {
		user.NewFunctionBuilder().WithGoFunction(f.hostFunction(), f.params, f.results).Export(f.name)
	}
	wasi := r.wazero.NewHostModuleBuilder(abi.ModuleWASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(wasi)
	for module, builder := range map[string]wazero.HostModuleBuilder{
		abi.ModuleEnv: env, abi.ModuleUser: user, abi.ModuleWASI: wasi,
	} {
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("making module %s: %w", module, err)
		}
	}
	return nil
}

// moduleConfig returns what WASI offers: a clock, random bytes, and nothing else. A guest that sleeps goes on at once.
func moduleConfig(clock func() time.Time, random io.Reader) wazero.ModuleConfig {
	return wazero.NewModuleConfig().
		WithName("").         // anonymous, however the guest calls itself
		WithStartFunctions(). // Call runs _initialize itself
		WithWalltime(func() (int64, int32) {
			now := clock()
			return now.Unix(), int32(now.Nanosecond())
		}, sys.ClockResolution(time.Microsecond)).
		WithNanotime(func() int64 { return clock().UnixNano() }, sys.ClockResolution(time.Microsecond)).
		WithNanosleep(func(int64) {}).
		WithRandSource(&locked{reader: random})
}

// locked lets calls that run at once share a reader.
type locked struct {
	mu     sync.Mutex
	reader io.Reader
}

func (l *locked) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader.Read(p)
}

// slots counts the guests that run: one that holds a slot has put something in.
type slots chan struct{}

func (s slots) acquire(ctx context.Context, wait time.Duration) *Error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, wait) // only now: a timer costs more than most waits
	defer cancel()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return stopped(context.Cause(ctx), "its time was over before one of the guests that run at once had ended")
	}
}

func (s slots) release() { <-s }
