package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/keywright/keywright/host"
)

const many = 10_000

// idleRows returns the row for memory: 10,000 connectors of the five types in a separate process, each of which has sent a
// request. The value is the resident memory minus that before the host was created.
func idleRows() []row {
	return []row{{
		work: "10,000 connectors, each used once, idle: resident memory ÷ 200 MiB", against: "200 MiB", unit: octets, goal: 1,
		measure: func(ctx context.Context, s session) (result, error) {
			return s.bound(ctx, 200<<20, func() (float64, error) { return child(ctx, nil, "idle") })
		},
	}}
}

// childIdle returns the memory in bytes.
func childIdle(ctx context.Context, _ []string) (float64, error) {
	keys()
	before, err := resident()
	if err != nil {
		return 0, err
	}
	b := &base{}
	h, err := newHost(ctx, b)
	if err != nil {
		return 0, err
	}
	r := request(ctx)
	connectors := make([]*host.Connector, many)
	for i := range connectors {
		a := auths[i%len(auths)]
		if connectors[i], err = connect(ctx, h, fmt.Sprintf("%s %d", a.Type, i), a); err != nil {
			return 0, err
		}
		if err := send(connectors[i].Transport(b), r); err != nil {
			return 0, err
		}
	}
	after, err := resident()
	runtime.KeepAlive(connectors)
	if err != nil {
		return 0, err
	}
	return after - before, h.Close(ctx)
}

// resident returns the resident memory of this process in bytes, after a garbage collection. It needs Linux.
func resident() (float64, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("resident memory: statm is %q", text)
	}
	pages, err := strconv.ParseFloat(string(fields[1]), 64)
	return pages * float64(os.Getpagesize()), err
}
