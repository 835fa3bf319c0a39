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

// Limits bounds the resources that plugins may use. The tag of each field has its default, which 0 stands for, and its
// range if it has one. [New] returns an error for a negative value, and for one outside of its range.
type Limits struct {
	// ModuleBytes limits the size of a plugin's module.
	ModuleBytes int `default:"8 MiB" range:"1 to 2047 MiB"`
	// MemoryBytes limits the memory of a guest in a call. It is rounded down to a multiple of 64 KiB.
	MemoryBytes int `default:"16 MiB" range:"64 KiB to 4 GiB"`
	// BlockBytes limits the total size of the memory blocks that the host keeps for a guest in a call.
	BlockBytes int `default:"4 MiB"`
	// Blocks limits the number of these memory blocks in a call.
	Blocks int `default:"4,096"`
	// Fuel limits the work of a guest in a call, in units of about 0.27 ns.
	Fuel int64 `default:"5,000,000" range:"1 to 1,000,000,000,000,000,000"`
	// CallTime limits the time of a call, with its token requests.
	CallTime time.Duration `default:"15 s"`
	// HostCalls limits the calls of Keywright's host functions in a call.
	HostCalls int `default:"1,000"`
	// TokenRequests limits the token requests of a call.
	TokenRequests int `default:"4"`
	// KeyRequests limits how often a call uses keys of the store of keys.
	KeyRequests int `default:"8"`
	// TokenBytes limits the size of a token endpoint's answer.
	TokenBytes int `default:"64 KiB"`
	// LogLines limits the lines that a guest logs in a call.
	LogLines int `default:"100"`
	// OutputBytes limits the size of a mutation, as the guest writes it.
	OutputBytes int `default:"64 KiB"`
	// Mutations limits the number of headers and query parameters of a mutation.
	Mutations int `default:"64"`
	// BodyBytes limits the size of a request body that the host keeps so that a plugin can have its digest.
	BodyBytes int64 `default:"8 MiB"`
	// TokensBytes limits the size of all entries of the token cache together. Where there is no room, the connector whose entries
	// have most bytes loses the one that was unused longest.
	TokensBytes int `default:"64 MiB"`
	// MutationsBytes limits in the same way the mutations that the host keeps for later requests, and ScannersBytes the tables by
	// which it searches answers for their credentials. A request for which there is no table takes some 100 µs longer.
	MutationsBytes int `default:"64 MiB"`
	ScannersBytes  int `default:"64 MiB"`
	// CachePerPartition limits the entries of the token cache that belong to one connector with one configuration, and
	// to one user if its templates name the user.
	CachePerPartition int `default:"16"`
	// CacheBytes limits the size of one value in the token cache.
	CacheBytes int `default:"64 KiB"`
	// Keys limits the number of parsed signing keys that the host keeps, and separately that of generated ones.
	Keys int `default:"1,024"`
	// ConcurrentGuests limits the guests that run at the same time. Further calls wait.
	ConcurrentGuests int `default:"4 for each processor, at least 16"`
	// ConcurrentExchanges limits the calls that request tokens at the same time, and the issuers whose metadata is read. Further
	// ones wait: those come first whose connector and token endpoint have the fewest, each of these has half of them at most, and
	// the last quarter goes to those without one. In addition, a quarter as many calls may replace tokens ahead of their end.
	ConcurrentExchanges int `default:"64"`
	// ConcurrentKeys limits in the same way the calls of connectors with a key of the store of keys that request tokens or use
	// that key.
	ConcurrentKeys int `default:"64"`
}

// PluginLimits bounds the resources that one plugin may use, below the [Limits] of its host. A field that is 0 leaves the host's
// own limit as it is. Each field means what the field of Limits with the same name means. The tag of each field has its name in
// errors and in a file of connectors.
type PluginLimits struct {
	// Fuel limits the work of a call, in units of about 0.27 ns.
	Fuel int64 `file:"fuel"`
	// CallTime limits the time of a call with its token requests, such as 2s.
	CallTime time.Duration `file:"call_time"`
	// MemoryBytes limits the memory of a call, in bytes.
	MemoryBytes int `file:"memory_bytes"`
	// TokenRequests limits the token requests of a call.
	TokenRequests int `file:"token_requests"`
}

// LimitError is the error of a [Plugin] with Limits: one of them cannot be, or a call was over it. Find it with [errors.As].
type LimitError struct {
	// Plugin is the name of the plugin.
	Plugin string
	// Member is the limit, such as fuel. In a file of connectors it is the member of that name in limits.
	Member string
	// Err is the cause.
	Err error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("plugin %q: limits.%s: %v", Printable(e.Plugin), e.Member, e.Err)
}

func (e *LimitError) Unwrap() error { return e.Err }

// WithDefaults returns l with the default in place of each zero.
func (l Limits) WithDefaults() Limits {
	v := reflect.ValueOf(&l).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			v.Field(i).SetInt(parseLimit(v.Type().Field(i).Tag.Get("default")))
		}
	}
	return l
}

// check returns an error if a limit is negative or outside of its range. It is called after WithDefaults.
func (l Limits) check() error {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i).Int()
		if value < 0 {
			return fmt.Errorf("limits: %s is %d: give a positive number, or 0 for the default", field.Name, value)
		}
		bounds, bounded := field.Tag.Lookup("range")
		if minimum, maximum, _ := strings.Cut(bounds, " to "); bounded && (value < parseLimit(minimum) || value > parseLimit(maximum)) {
			return fmt.Errorf("limits: %s is %d: give %s, or 0 for the default", field.Name, value, bounds)
		}
	}
	return nil
}

// parseLimit parses a number in a tag of Limits. It returns a time in nanoseconds.
func parseLimit(text string) int64 {
	if each, minimum, ok := strings.Cut(text, " for each processor, at least "); ok {
		return max(parseLimit(minimum), parseLimit(each)*int64(runtime.GOMAXPROCS(0)))
	}
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	factor := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": int64(time.Second)}[unit]
	if err != nil || factor == 0 {
		panic(fmt.Sprintf("host: a tag of Limits has %q", text))
	}
	return n * factor
}

// limitsFor returns the limits for another package, a struct with some of the fields of Limits.
func limitsFor[T sandbox.Limits | hostfn.Limits](l Limits) (limits T) {
	all, fields := reflect.ValueOf(l), reflect.ValueOf(&limits).Elem()
	for i := range fields.NumField() {
		fields.Field(i).Set(all.FieldByName(fields.Type().Field(i).Name))
	}
	return limits
}
