package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// throughputRows returns the rows for the gain from a second core. Both sides are the same program, with GOMAXPROCS 2 and 1.
// Work that shares nothing is measured as well, to show the gain that is possible on the machine.
func throughputRows() []row {
	var all []row
	for _, authType := range []string{"api_key", "jwt"} {
		work := "throughput of RoundTrip, " + authType
		if authType == "jwt" {
			work += " ES256"
		}
		all = append(all, row{
			work: work + ": 1.8 ÷ (two cores ÷ one)", against: "one core", unit: perSecond, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) { return throughput(ctx, s, authType) },
		})
	}
	return all
}

// nothing, in place of an auth type, is work that shares nothing.
const nothing = "nothing"

func throughput(ctx context.Context, s session, authType string) (result, error) {
	var possible []float64
	measured, err := s.rounds(ctx, func(round int) ([2]float64, error) {
		var perCore [2][2]float64 // of our work, and of nothing
		for i := range 2 {
			which := (i + round) % 2
			for j, work := range []string{authType, nothing} {
				var err error
				cores := []string{"GOMAXPROCS=2", "GOMAXPROCS=1"}[which]
				if perCore[j][which], err = child(ctx, []string{cores}, "throughput", work, s.slice.String()); err != nil {
					return [2]float64{}, err
				}
			}
		}
		possible = append(possible, perCore[1][0]/perCore[1][1])
		return perCore[0], nil
	}, func(v [2]float64) float64 { return 1.8 / (v[0] / v[1]) })
	if err != nil {
		return result{}, err
	}
	measured.note = fmt.Sprintf("Two cores did %s times what one did; of work that shares nothing, %s times.",
		significant(1.8/measured.ratio), significant(median(possible)))
	return measured, nil
}

// childThroughput returns requests per second. Its arguments are an auth type and the duration of the measurement.
func childThroughput(ctx context.Context, args []string) (float64, error) {
	if len(args) != 2 {
		return 0, errors.New("an auth type and a duration, please")
	}
	slice, err := time.ParseDuration(args[1])
	if err != nil {
		return 0, err
	}
	if args[0] == nothing {
		block := make([]byte, 1<<10)
		return perSecondOf(slice, func() error { sha256.Sum256(block); return nil })
	}
	// A process with a small heap collects garbage hundreds of times a second, and each collection synchronizes both processors. This
	// heap is as large as that of a server.
	live := make([]byte, 64<<20)
	defer runtime.KeepAlive(live)
	b := &base{}
	h, c, err := connected(ctx, b, authOf(args[0]))
	if err != nil {
		return 0, err
	}
	transport := c.Transport(b)
	work := func() error {
		return send(transport, request(ctx))
	}
	if _, err := perSecondOf(slice/10, work); err != nil { // warms up
		return 0, err
	}
	value, err := perSecondOf(slice, work)
	return value, errors.Join(err, h.Close(ctx))
}

// perSecondOf runs work on sixteen goroutines for a slice of time, and returns the runs per second.
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
			for again := true; again && errs[i] == nil; again = time.Now().Before(finish) { // once at least, however short the slice
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
