package host

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
)

// Limits bound what plugins may use. Zero means the default, which is in the tag of each field. What is below zero is an error,
// and so is what is outside of the range of a field that has one.
type Limits struct {
	// ModuleBytes bounds the size of a plugin's module.
	ModuleBytes int `default:"8 MiB" range:"1 to 2047 MiB"`
	// MemoryBytes bounds the memory of a guest, in a call. What is over a multiple of 64 KiB is not used.
	MemoryBytes int `default:"16 MiB" range:"64 KiB to 4 GiB"`
	// BlockBytes bounds the memory blocks that the host keeps for a guest, all together, in a call.
	BlockBytes int `default:"4 MiB"`
	// Blocks is the largest number of memory blocks, in a call.
	Blocks int `default:"4,096"`
	// Fuel bounds the work of a guest, in a call, in units of about 0.27 ns.
	Fuel int64 `default:"5,000,000" range:"1 to 1,000,000,000,000,000,000"`
	// CallTime bounds a call, with its token requests.
	CallTime time.Duration `default:"15 s"`
	// HostCalls is how often a guest may call Keywright's host functions, in a call.
	HostCalls int `default:"1,000"`
	// TokenRequests is how many requests to token endpoints a guest may make, in a call.
	TokenRequests int `default:"4"`
	// TokenBytes bounds the answer of a token endpoint.
	TokenBytes int `default:"64 KiB"`
	// LogLines is how many lines a guest may log, in a call.
	LogLines int `default:"100"`
	// OutputBytes bounds a mutation, as the guest writes it.
	OutputBytes int `default:"64 KiB"`
	// Mutations is how many headers and query parameters a mutation may have.
	Mutations int `default:"64"`
	// BodyBytes bounds a request's body that is kept, so that a plugin can have its digest.
	BodyBytes int64 `default:"8 MiB"`
	// CacheEntries is how many entries the token cache keeps, for all connectors.
	CacheEntries int `default:"10,000"`
	// CachePerPartition is how many entries of the token cache belong to one connector with one configuration, and to one user
	// if its templates name the user.
	CachePerPartition int `default:"16"`
	// CacheBytes bounds one value in the token cache.
	CacheBytes int `default:"64 KiB"`
	// Keys is how many parsed signing keys are kept.
	Keys int `default:"1,024"`
	// ConcurrentGuests is how many guests run at the same time. Other calls wait.
	ConcurrentGuests int `default:"4 for each processor, at least 16"`
	// ConcurrentExchanges is how many calls request tokens at the same time. Others wait.
	ConcurrentExchanges int `default:"64"`
}

// WithDefaults returns the limits with the default in place of each zero.
func (l Limits) WithDefaults() Limits {
	v := reflect.ValueOf(&l).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			v.Field(i).SetInt(parseLimit(v.Type().Field(i).Tag.Get("default")))
		}
	}
	return l
}

// check returns an error for a limit that nothing could keep to. The limits have their defaults.
func (l Limits) check() error {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i).Int()
		if value < 0 {
			return fmt.Errorf("limits: %s is %d: give a positive number, or 0 for the default", field.Name, value)
		}
		bounds, bounded := field.Tag.Lookup("range")
		if least, most, _ := strings.Cut(bounds, " to "); bounded && (value < parseLimit(least) || value > parseLimit(most)) {
			return fmt.Errorf("limits: %s is %d: give %s, or 0 for the default", field.Name, value, bounds)
		}
	}
	return nil
}

// parseLimit reads a number of the tags of Limits. A time is in nanoseconds.
func parseLimit(text string) int64 {
	var each, least int
	if n, _ := fmt.Sscanf(text, "%d for each processor, at least %d", &each, &least); n == 2 {
		return int64(max(least, each*runtime.GOMAXPROCS(0)))
	}
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	factor := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": int64(time.Second)}[unit]
	if err != nil || factor == 0 {
		panic(fmt.Sprintf("host: a tag of Limits has %q", text))
	}
	return n * factor
}

func (l Limits) sandbox() sandbox.Limits {
	return sandbox.Limits{
		ModuleBytes:      l.ModuleBytes,
		MemoryBytes:      l.MemoryBytes,
		BlockBytes:       l.BlockBytes,
		Blocks:           l.Blocks,
		OutputBytes:      l.OutputBytes,
		HostCalls:        l.HostCalls,
		Fuel:             l.Fuel,
		ConcurrentGuests: l.ConcurrentGuests,
		CallTime:         l.CallTime,
	}
}

func (l Limits) call() hostfn.Limits {
	return hostfn.Limits{
		TokenRequests: l.TokenRequests,
		TokenBytes:    l.TokenBytes,
		LogLines:      l.LogLines,
		CacheBytes:    l.CacheBytes,
		Mutations:     l.Mutations,
	}
}
