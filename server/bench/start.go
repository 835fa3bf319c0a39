package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/keywright/keywright/host"
)

// startRows returns the rows for the time until the first connectors of a process are ready.
func startRows() []row {
	work := "host.New and connecting the five types, "
	return []row{
		{
			work: work + "nothing cached: time ÷ 60 ms", against: "60 ms", unit: nanoseconds, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) {
				return s.bound(ctx, float64(60*time.Millisecond), func() (float64, error) { return child(ctx, nil, "start") })
			},
		},
		{
			work: work + "code cache warm: time ÷ 15 ms", against: "15 ms", unit: nanoseconds, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) {
				dir, err := os.MkdirTemp("", "keywright-bench-")
				if err != nil {
					return result{}, err
				}
				defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that is not removed does no harm
				if _, err := child(ctx, nil, "start", dir); err != nil {
					return result{}, err
				}
				return s.bound(ctx, float64(15*time.Millisecond), func() (float64, error) { return child(ctx, nil, "start", dir) })
			},
		},
	}
}

// childStart returns the time in nanoseconds. Its optional argument is the directory of the code cache.
func childStart(ctx context.Context, args []string) (float64, error) {
	keys() // not part of the measured time
	dir := ""
	if len(args) > 0 {
		dir = args[0]
	}
	begin := time.Now()
	h, err := newHost(ctx, &base{}, func(c *host.Config) { c.CodeCache = dir })
	if err != nil {
		return 0, err
	}
	for _, a := range auths {
		if _, err := connect(ctx, h, a.Type, a); err != nil {
			return 0, errors.Join(err, h.Close(ctx))
		}
	}
	took := time.Since(begin)
	return float64(took), h.Close(ctx)
}
