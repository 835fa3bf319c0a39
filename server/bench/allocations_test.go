package bench

import (
	"context"
	"testing"
)

// allocationRows returns the row for garbage: the allocations of RoundTrip minus those of cloning and sending the request, and
// at least 0.
func allocationRows() []row {
	return []row{{
		work: "RoundTrip, api_key: allocations beyond the request's clone ÷ 2", against: "2 allocations", unit: number, goal: 1,
		measure: func(ctx context.Context, s session) (result, error) {
			b := &base{}
			h, c, err := connected(ctx, b, apiKeyAuth)
			if err != nil {
				return result{}, err
			}
			defer h.Close(ctx)
			r := request(ctx)
			transport := c.Transport(b)
			return s.bound(ctx, 2, func() (float64, error) {
				var failed error
				all := testing.AllocsPerRun(1000, func() {
					if err := send(transport, r); err != nil {
						failed = err
					}
				})
				clone := testing.AllocsPerRun(1000, func() {
					if err := send(b, r.Clone(ctx)); err != nil {
						failed = err
					}
				})
				return max(all-clone, 0), failed
			})
		},
	}}
}
