package bench

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// A row is one line of the table: some work of ours, and what it is compared with.
type row struct {
	work, against string
	// unit is the unit of the measured values, not of the ratio.
	unit unit
	// goal is the largest ratio that reaches the goal. It is 0 for a row without a goal, which is only for orientation.
	goal    float64
	measure func(context.Context, session) (result, error)
}

// alone measures a row on its own goroutine and stack. The speed of some work, such as signing with RSA, differs by a tenth
// depending on where its buffers are on the stack, which must not depend on the caller.
func (r row) alone(ctx context.Context, s session) (measured result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		measured, err = r.measure(ctx, s)
	}()
	<-done
	return measured, err
}

// A session configures how thoroughly rows are measured.
type session struct {
	// count is the number of rounds.
	count int
	// slice is the time of one measurement.
	slice time.Duration
	now   func() time.Time
}

// A result has the medians of all rounds. The ratio is the median of the rounds' ratios, not the ratio of the medians, because
// a disturbance affects both sides of a round.
type result struct {
	ours, peer, ratio float64
	// low and high are the smallest and the largest ratio of a round.
	low, high float64
	// note is an additional remark for the report.
	note string
}

// An op is work that can be repeated.
type op struct {
	run func() error
	// before, if not nil, is called before each batch, and is not measured. It creates instances of guests that never free
	// memory.
	before func() error
	// batch is the number of runs between calls of before. If it is 0, the number is chosen by time.
	batch int
}

// spend runs the work for at least a slice of time. It returns the time that this took and the number of runs.
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

// parts is the number of parts of a measurement. The two sides take turns, so that a disturbance affects both.
const parts = 10

// pair measures our work and the peer's in turn, in nanoseconds. Each side is first in every other part and round.
func (s session) pair(ctx context.Context, ours, peer op) (result, error) {
	sides := [2]op{ours, peer}
	for _, o := range sides { // warms up
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

// rounds calls sample once in each round. It returns the medians of the two values, and of their ratio.
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

// bound compares measured values with a bound.
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
