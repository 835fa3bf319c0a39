package main

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// row is one line of the table: some work of ours, and what it is held against.
type row struct {
	work, against string
	unit          unit    // of what is measured, not of the ratio
	goal          float64 // the most that the ratio may be
	measure       func(context.Context, session) (result, error)
}

// alone measures a row on a stack of its own. Some work, such as signing with RSA, is faster or slower by a tenth for where
// on the stack its buffers lie; so that must not depend on what called it.
func (r row) alone(ctx context.Context, s session) (measured result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		measured, err = r.measure(ctx, s)
	}()
	<-done
	return measured, err
}

// session is how thoroughly all rows are measured.
type session struct {
	count int           // rounds
	slice time.Duration // of one measurement
	now   func() time.Time
}

// result has medians of all rounds. The ratio is the median of the rounds' ratios, not the ratio of the medians: what
// disturbs a round disturbs both of its halves.
type result struct {
	ours, peer, ratio float64
	low, high         float64 // the smallest and the largest ratio of a round
	note              string  // what else there is to know
}

// op is work that can be repeated.
type op struct {
	run func() error
	// before is called before each batch, in time that does not count: for guests that never free memory.
	before func() error
	batch  int
}

// spend runs the work for at least a slice of time, and gives how long that took and how often it ran.
func (s session) spend(o op, slice time.Duration) (took time.Duration, ran int, err error) {
	n := max(o.batch, 1)
	for took < slice {
		if o.before != nil {
			if err := o.before(); err != nil {
				return 0, 0, err
			}
		}
		begin := s.now()
		for range n {
			if err := o.run(); err != nil {
				return 0, 0, err
			}
		}
		batch := s.now().Sub(begin)
		took += batch
		ran += n
		if o.batch == 0 && batch < slice/20 {
			n *= 2
		}
	}
	return took, ran, nil
}

// parts is how many pieces a measurement has: the two sides take turns, so that what disturbs one disturbs the other.
const parts = 10

// pair measures ours and the peer's by turns, in nanoseconds, each of them first in every other part and round.
func (s session) pair(ctx context.Context, ours, peer op) (result, error) {
	sides := [2]op{ours, peer}
	for _, o := range sides { // once to warm up
		if _, _, err := s.spend(o, s.slice/10); err != nil {
			return result{}, err
		}
	}
	return s.rounds(ctx, func(round int) ([2]float64, error) {
		var took [2]time.Duration
		var ran [2]int
		for turn := range 2 * parts {
			which := (turn + turn/2 + round) % 2 // 0 1 1 0 0 1 1 0 …
			runtime.GC()
			t, n, err := s.spend(sides[which], s.slice/parts)
			if err != nil {
				return [2]float64{}, err
			}
			took[which] += t
			ran[which] += n
		}
		return [2]float64{float64(took[0]) / float64(ran[0]), float64(took[1]) / float64(ran[1])}, nil
	}, func(v [2]float64) float64 { return v[0] / v[1] })
}

// rounds takes a sample of ours and one of the peer's in each round.
func (s session) rounds(ctx context.Context, sample func(round int) ([2]float64, error), ratio func([2]float64) float64) (result, error) {
	var ours, peers, ratios []float64
	for round := range s.count {
		if err := ctx.Err(); err != nil {
			return result{}, err
		}
		values, err := sample(round)
		if err != nil {
			return result{}, err
		}
		ours, peers, ratios = append(ours, values[0]), append(peers, values[1]), append(ratios, ratio(values))
	}
	return result{
		ours: median(ours), peer: median(peers), ratio: median(ratios), low: slices.Min(ratios), high: slices.Max(ratios),
	}, nil
}

// bound holds what is measured against a number.
func (s session) bound(ctx context.Context, most float64, sample func() (float64, error)) (result, error) {
	var values []float64
	for range s.count {
		if err := ctx.Err(); err != nil {
			return result{}, err
		}
		runtime.GC()
		value, err := sample()
		if err != nil {
			return result{}, err
		}
		values = append(values, value)
	}
	middle := median(values)
	return result{ours: middle, peer: most, ratio: middle / most, low: slices.Min(values) / most, high: slices.Max(values) / most}, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
