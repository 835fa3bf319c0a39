package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
)

// exchangeRows returns the row for 10,000 concurrent requests with the same expired token.
func exchangeRows() []row {
	return []row{{
		work: "10,000 requests at once on an expired token: exchanges ÷ 1", against: "1 exchange", unit: number, goal: 1,
		measure: func(ctx context.Context, s session) (result, error) {
			return s.bound(ctx, 1, func() (float64, error) { return exchanges(ctx) })
		},
	}}
}

func exchanges(ctx context.Context) (float64, error) {
	var later atomic.Int64 // how far the clock is ahead
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	b := &base{}
	h, c, err := connected(ctx, b, authOf("oauth_client_credentials"), func(config *host.Config) { config.Clock = clock })
	if err != nil {
		return 0, err
	}
	transport := c.Transport(b)
	one := func() error {
		return send(transport, request(ctx))
	}
	if err := one(); err != nil {
		return 0, err
	}
	if n := b.exchanges.Load(); n != 1 {
		return 0, fmt.Errorf("the first request made %d exchanges", n)
	}
	later.Store(int64(2 * time.Hour))
	b.answering = make(chan struct{}) // all requests come during the exchange
	var starts, wait sync.WaitGroup
	errs, start := make([]error, 10_000), make(chan struct{})
	starts.Add(len(errs))
	for i := range errs {
		wait.Go(func() {
			<-start
			starts.Done()
			errs[i] = one()
		})
	}
	close(start)
	starts.Wait()
	close(b.answering)
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return float64(b.exchanges.Load() - 1), h.Close(ctx)
}
