package bench

import (
	"context"
	"runtime"
	"time"
)

// contentRows returns the rows for how the time of a page depends on its position in the list, and for the time of the first
// page: over HTTP, with one client, on the server of "keywright content serve". Client and server share a process.
func contentRows(databases contents) []row {
	var all []row
	for _, d := range databases {
		for _, number := range []int{d.lastPage() / 2, d.lastPage()} {
			all = append(all, row{
				work: d.pageWork(number) + ": p50", against: "page 1", unit: nanoseconds, goal: 3,
				measure: func(ctx context.Context, s session) (result, error) {
					if err := d.run(ctx); err != nil {
						return result{}, err
					}
					return s.byTurns(ctx, 1, [2]target{d.page(number), d.page(1)}, load.p50)
				},
			})
		}
		all = append(all, row{
			work: d.pageWork(1) + ": p99 ÷ 5 ms", against: "5 ms", unit: nanoseconds, goal: 1,
			measure: func(ctx context.Context, s session) (result, error) {
				if err := d.run(ctx); err != nil {
					return result{}, err
				}
				client := newClient()
				defer client.CloseIdleConnections()
				return s.bound(ctx, float64(5*time.Millisecond), func() (float64, error) {
					l, err := drive(ctx, client, d.page(1), 1, s.slice)
					if err != nil {
						return 0, err
					}
					return l.p99(), nil
				})
			},
		})
	}
	return all
}

// figureRow is work that is measured without a comparison.
type figureRow struct {
	work    string
	measure func(context.Context, session) (figures, error)
}

type figures struct {
	lines []figure
	// note is an additional remark for the report.
	note string
}

// figure holds the measurements of one kind of request.
type figure struct {
	work string
	// p50 and p99 are times of a request with one client, in nanoseconds. busy is the number of requests per second with
	// loadClients clients.
	p50, p99, busy float64
}

// figureRows returns the rows for all operations of the content interface.
func figureRows(databases contents) []figureRow {
	var all []figureRow
	for _, d := range databases {
		all = append(all, figureRow{work: d.work(), measure: d.figures})
	}
	return all
}

func (d *contentServer) figures(ctx context.Context, s session) (figures, error) {
	if err := d.run(ctx); err != nil {
		return figures{}, err
	}
	work := []struct {
		name string
		to   target
	}{
		{d.pageWork(1), d.page(1)},
		{d.pageWork(d.lastPage() / 2), d.page(d.lastPage() / 2)},
		{d.pageWork(d.lastPage()), d.page(d.lastPage())},
		{d.work() + ": one product update", d.update},
		{d.work() + ": one reply", d.reply},
	}
	client := newClient()
	defer client.CloseIdleConnections()
	p50, p99, busy := make([][]float64, len(work)), make([][]float64, len(work)), make([][]float64, len(work))
	for range s.count {
		for i, w := range work {
			runtime.GC()
			one, err := drive(ctx, client, w.to, 1, s.slice)
			if err != nil {
				return figures{}, err
			}
			many, err := drive(ctx, client, w.to, loadClients, s.slice)
			if err != nil {
				return figures{}, err
			}
			p50[i], p99[i] = append(p50[i], one.p50()), append(p99[i], one.p99())
			busy[i] = append(busy[i], float64(time.Second)/many.each())
		}
	}
	found := figures{note: d.note}
	for i, w := range work {
		found.lines = append(found.lines, figure{w.name, median(p50[i]), median(p99[i]), median(busy[i])})
	}
	return found, nil
}
