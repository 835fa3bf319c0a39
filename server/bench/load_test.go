package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// loadClients is a number of clients that fully loads a server.
const loadClients = 16

// load holds the measurements of clients.
type load struct {
	took time.Duration
	// latencies is sorted.
	latencies []time.Duration
}

func (l *load) add(more load) {
	l.took += more.took
	l.latencies = append(l.latencies, more.latencies...)
	slices.Sort(l.latencies)
}

// each returns the total time divided by the number of requests, in nanoseconds.
func (l load) each() float64 { return float64(l.took) / float64(len(l.latencies)) }

func (l load) p50() float64 { return float64(l.latencies[len(l.latencies)/2]) }
func (l load) p99() float64 { return float64(l.latencies[len(l.latencies)*99/100]) }

// A target is a function that returns the URL of the next request. It is safe for concurrent use.
type target func() string

func always(address string) target { return func() string { return address } }

// newClient returns a transport that keeps the connections of all clients. Like most callers, it accepts gzip.
func newClient() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: loadClients} }

// byTurns sends load to our side and the peer's in turn, and compares a figure of both loads.
func (s session) byTurns(ctx context.Context, clients int, sides [2]target, figure func(load) float64) (result, error) {
	client := newClient()
	defer client.CloseIdleConnections()
	for _, side := range sides { // warms up
		if _, err := drive(ctx, client, side, clients, s.slice/10); err != nil {
			return result{}, err
		}
	}
	return s.rounds(ctx, func(round int) ([2]float64, error) {
		var loads [2]load
		for turn := range 2 * parts {
			which := (turn + turn/2 + round) % 2
			l, err := drive(ctx, client, sides[which], clients, s.slice/parts)
			if err != nil {
				return [2]float64{}, err
			}
			loads[which].add(l)
		}
		return [2]float64{figure(loads[0]), figure(loads[1])}, nil
	}, func(v [2]float64) float64 { return v[0] / v[1] })
}

// drive sends requests from several clients for a slice of time, at least one from each.
func drive(ctx context.Context, client http.RoundTripper, to target, clients int, slice time.Duration) (load, error) {
	var mu sync.Mutex
	var l load
	var failed error
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			var latencies []time.Duration
			var err error
			for more := true; more && err == nil; more = time.Since(began) < slice {
				address := to()
				begin := time.Now()
				err = fetch(ctx, client, address, io.Discard)
				latencies = append(latencies, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			l.latencies, failed = append(l.latencies, latencies...), errors.Join(failed, err)
		})
	}
	all.Wait()
	l.took = time.Since(began)
	slices.Sort(l.latencies)
	return l, failed
}

func fetch(ctx context.Context, client http.RoundTripper, address string, body io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(body, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
