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

// session is how thoroughly all rows are measured.
type session struct {
	count int           // rounds
	slice time.Duration // of one measurement
}

// result has medians of all rounds. The ratio is the median of the rounds' ratios, not the ratio of the medians: what
// disturbs a round disturbs both of its halves.
type result struct {
	ours, peer, ratio float64
	low, high         float64 // the smallest and the largest ratio of a round
}

// op is work that can be repeated.
type op struct {
	run func() error
	// before is called before each batch, in time that does not count: for guests that never free memory.
	before func() error
	batch  int
}

// nanoseconds is what running takes once, on average over at least a slice of time.
func (o op) nanoseconds(slice time.Duration) (float64, error) {
	n, ran, total := max(o.batch, 1), 0, time.Duration(0)
	for total < slice {
		if o.before != nil {
			if err := o.before(); err != nil {
				return 0, err
			}
		}
		begin := time.Now()
		for range n {
			if err := o.run(); err != nil {
				return 0, err
			}
		}
		took := time.Since(begin)
		total += took
		ran += n
		if o.batch == 0 && took < slice/20 {
			n *= 2
		}
	}
	return float64(total.Nanoseconds()) / float64(ran), nil
}

// pair measures ours and the peer's right after one another, round by round, each of them first in every other round.
func (s session) pair(ctx context.Context, ours, peer op) (result, error) {
	for _, o := range []op{ours, peer} { // once to warm up
		if _, err := o.nanoseconds(s.slice / 10); err != nil {
			return result{}, err
		}
	}
	return s.rounds(ctx, func(second bool) (float64, error) {
		o := ours
		if second {
			o = peer
		}
		runtime.GC()
		return o.nanoseconds(s.slice)
	}, func(ours, peer float64) float64 { return ours / peer })
}

// rounds takes both samples of each round, ours being the one that is not the peer's.
func (s session) rounds(ctx context.Context, sample func(peer bool) (float64, error), ratio func(ours, peer float64) float64) (result, error) {
	var values [2][]float64
	var ratios []float64
	for round := range s.count {
		var now [2]float64
		for i := range now {
			which := (i + round) % 2
			if err := ctx.Err(); err != nil {
				return result{}, err
			}
			var err error
			if now[which], err = sample(which == 1); err != nil {
				return result{}, err
			}
		}
		values[0] = append(values[0], now[0])
		values[1] = append(values[1], now[1])
		ratios = append(ratios, ratio(now[0], now[1]))
	}
	return result{
		ours: median(values[0]), peer: median(values[1]), ratio: median(ratios), low: slices.Min(ratios), high: slices.Max(ratios),
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
