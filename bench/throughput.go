package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// throughputRows are about what a second core is worth. Both sides are the same process, with GOMAXPROCS 2 and 1.
func throughputRows() []row {
	var all []row
	for _, authType := range []string{"api_key", "jwt"} {
		work := "throughput of RoundTrip, " + authType
		if authType == "jwt" {
			work += " ES256"
		}
		all = append(all, row{
			work: work + ": 1.8 ÷ (two cores ÷ one)", against: "one core", unit: perSecond, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) {
				return s.rounds(ctx, func(one bool) (float64, error) {
					cores := "GOMAXPROCS=2"
					if one {
						cores = "GOMAXPROCS=1"
					}
					return child(ctx, []string{cores}, "throughput", authType, s.slice.String())
				}, func(two, one float64) float64 { return 1.8 / (two / one) })
			},
		})
	}
	return all
}

// childThroughput gives requests in a second. Its arguments are an auth type and how long it is measured.
func childThroughput(ctx context.Context, args []string) (float64, error) {
	if len(args) != 2 {
		return 0, errors.New("an auth type and a duration, please")
	}
	slice, err := time.ParseDuration(args[1])
	if err != nil {
		return 0, err
	}
	b := &base{}
	h, c, err := connected(ctx, b, authOf(args[0]))
	if err != nil {
		return 0, err
	}
	transport := c.Transport(b)
	work := func() error {
		r, err := request(ctx)
		if err != nil {
			return err
		}
		return send(transport, r)
	}
	if _, err := perSecondOf(slice/10, work); err != nil { // to warm up
		return 0, err
	}
	value, err := perSecondOf(slice, work)
	return value, errors.Join(err, h.Close(ctx))
}

// perSecondOf has sixteen goroutines work for a while.
func perSecondOf(slice time.Duration, work func() error) (float64, error) {
	const workers = 16
	var (
		done   atomic.Int64
		wait   sync.WaitGroup
		errs   = make([]error, workers)
		begin  = time.Now()
		finish = begin.Add(slice)
	)
	for i := range workers {
		wait.Go(func() {
			n := int64(0)
			for errs[i] == nil && time.Now().Before(finish) {
				errs[i] = work()
				n++
			}
			done.Add(n)
		})
	}
	wait.Wait()
	took := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("a request: %w", err)
	}
	return float64(done.Load()) / took.Seconds(), nil
}
