package host

import (
	"fmt"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
)

// Limits bound what a plugin may use. Zero is the default, which is in brackets; less is refused.
type Limits struct {
	ModuleBytes   int           // of a plugin [8 MiB]
	MemoryBytes   int           // of a guest's memory, in a call [16 MiB]
	BlockBytes    int           // of the memory blocks that the host keeps for a guest, in a call [4 MiB]
	Blocks        int           // their number [4,096]
	CallTime      time.Duration // of a call, with its token requests [15 s]
	HostCalls     int           // of Keywright's host functions, in a call [1,000]
	TokenRequests int           // in a call [4]
	TokenBytes    int           // of a token endpoint's answer [64 KiB]
	LogLines      int           // in a call [100]
	OutputBytes   int           // of a mutation [64 KiB]
	Mutations     int           // headers and query parameters of a mutation [64]
	BodyBytes     int64         // of a request's body that is kept, so that a plugin has its digest [8 MiB]
	CacheEntries  int           // of the host [10,000]
	CachePerUser  int           // entries of one connector, configuration and user [16]
	CacheBytes    int           // of one cached value [64 KiB]
	Keys          int           // parsed signing keys that are kept [1,024]
	Fuel          int64         // units of about 0.27 ns of a guest's work, in a call [5,000,000]
	Running       int           // guests that run at the same time; others wait [4 × processors, 16 at least]
	Exchanging    int           // calls that request tokens at the same time; others wait [64]
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	d := sandbox.DefaultLimits()
	set(&l.ModuleBytes, d.ModuleBytes)
	set(&l.MemoryBytes, int(d.MemoryPages)*pageBytes)
	set(&l.BlockBytes, d.ArenaBytes)
	set(&l.Blocks, d.Blocks)
	set(&l.HostCalls, d.HostCalls)
	set(&l.OutputBytes, d.OutputBytes)
	set(&l.Running, d.Slots)
	set(&l.TokenRequests, 4)
	set(&l.TokenBytes, 64<<10)
	set(&l.LogLines, 100)
	set(&l.Mutations, 64)
	set(&l.CacheEntries, 10_000)
	set(&l.CachePerUser, 16)
	set(&l.CacheBytes, 64<<10)
	set(&l.Keys, 1024)
	set(&l.Exchanging, 64)
	if l.Fuel == 0 {
		l.Fuel = d.Fuel
	}
	if l.BodyBytes == 0 {
		l.BodyBytes = 8 << 20
	}
	if l.CallTime == 0 {
		l.CallTime = 15 * time.Second
	}
	return l
}

// check refuses limits that nothing could keep to.
func (l Limits) check() error {
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"ModuleBytes", int64(l.ModuleBytes)},
		{"MemoryBytes", int64(l.MemoryBytes)},
		{"BlockBytes", int64(l.BlockBytes)},
		{"Blocks", int64(l.Blocks)},
		{"CallTime", int64(l.CallTime)},
		{"HostCalls", int64(l.HostCalls)},
		{"TokenRequests", int64(l.TokenRequests)},
		{"TokenBytes", int64(l.TokenBytes)},
		{"LogLines", int64(l.LogLines)},
		{"OutputBytes", int64(l.OutputBytes)},
		{"Mutations", int64(l.Mutations)},
		{"CacheEntries", int64(l.CacheEntries)},
		{"CachePerUser", int64(l.CachePerUser)},
		{"CacheBytes", int64(l.CacheBytes)},
		{"Keys", int64(l.Keys)},
		{"Running", int64(l.Running)},
		{"Exchanging", int64(l.Exchanging)},
		{"Fuel", l.Fuel},
		{"BodyBytes", l.BodyBytes},
	} {
		if limit.value < 0 {
			return fmt.Errorf("limits: %s is %d: give a positive number, or 0 for the default", limit.name, limit.value)
		}
	}
	if l.MemoryBytes < pageBytes || l.MemoryBytes > 1<<32 {
		return fmt.Errorf("limits: MemoryBytes is %d: a guest's memory has 64 KiB to 4 GiB", l.MemoryBytes)
	}
	return nil
}

// pageBytes is a page of WebAssembly memory.
const pageBytes = 64 << 10

func (l Limits) sandbox() sandbox.Limits {
	return sandbox.Limits{
		ModuleBytes: l.ModuleBytes,
		MemoryPages: uint32(l.MemoryBytes / pageBytes),
		ArenaBytes:  l.BlockBytes,
		Blocks:      l.Blocks,
		OutputBytes: l.OutputBytes,
		HostCalls:   l.HostCalls,
		Fuel:        l.Fuel,
		Slots:       l.Running,
		Time:        l.CallTime,
	}
}

// call are the limits of host functions; TokenTime is a connector's.
func (l Limits) call() hostfn.Limits {
	return hostfn.Limits{
		TokenRequests: l.TokenRequests,
		TokenReply:    l.TokenBytes,
		LogLines:      l.LogLines,
		LogLine:       4 << 10,
		Cached:        l.CacheBytes,
		Mutations:     l.Mutations,
	}
}
