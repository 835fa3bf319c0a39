// Package nodes lets each node with a store of state see what all of them do, and find their failures.
package nodes

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
)

const (
	// writeInterval is the time between two writes of a node. A connector that begins to fail is written at the next look.
	writeInterval, lookInterval = 10 * time.Second, time.Second
	// lifetime is the time for which what a node has written counts.
	lifetime = time.Minute
	// readInterval is the time for which what was read counts, however many people look.
	readInterval = time.Second
	// failureTime is the time for which a failure can be found.
	failureTime = 7 * 24 * time.Hour
	// maxGroups is the number of groups of failures in a report, and maxExamples that of groups with all of their examples and the ways of these.
	maxGroups, maxExamples = 2000, 200
)

// Config configures [New].
type Config struct {
	Clock    func() time.Time
	Recorder *activity.Recorder
	// Describe sets what a report says of the process.
	Describe func(*activity.Report)
	Store    *records.Store
	// Shared reports whether other processes may have the store, too.
	Shared bool
	Logger *slog.Logger
}

// Nodes are all nodes, as a process sees them. It is safe for concurrent use.
type Nodes struct {
	config Config
	// process is a random name of this process.
	process string

	mu sync.Mutex
	// reports are those of other nodes, and offset is the time that the clock of this machine is ahead of that of the store.
	reports  []*activity.Report
	offset   time.Duration
	failure  error
	readTime time.Time
	// differences has what files define otherwise, by the digests of both and the version of the nodes, and own what that of this process does.
	differences map[[3]string][]activity.Difference
	own         []activity.Difference
	// since is the time since which writes fail, or zero.
	since time.Time

	// fileDigest is the digest of the file whose fingerprints were written last, and fileTime the time at which they were.
	fileDigest string
	fileTime   time.Time
}

// New returns the nodes of a store.
func New(c Config) *Nodes {
	return &Nodes{config: c, process: rand.Text()}
}

// processReport is a report with the name of its process.
type processReport struct {
	Process string `json:"process"`
	*activity.Report
}

var reportTable = records.Table[processReport]{Kind: statedb.KindNode, Lifetime: lifetime, Key: func(w processReport) []string { return []string{w.Process} }}

// failureTables have the failures, and those without their ways.
var failureTables = [2]records.Table[*activity.Failure]{failureTable(statedb.KindFailure), failureTable(statedb.KindShortFailure)}

func failureTable(kind statedb.Kind) records.Table[*activity.Failure] {
	return records.Table[*activity.Failure]{Kind: kind, Lifetime: failureTime, Key: func(f *activity.Failure) []string { return []string{f.RequestID} }}
}

// Run writes what this process does, until ctx ends. A process of its own writes nothing.
func (n *Nodes) Run(ctx context.Context) {
	if !n.config.Shared {
		return
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	last := time.Time{}
	for {
		if now := n.config.Clock(); now.Sub(last).Abs() >= writeInterval || n.config.Recorder.Troubled() {
			last = now
			n.note(n.Write(ctx))
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookInterval)
			defer cancel()
			_ = n.Write(limited) // the last failures; the next process does without
			return
		}
	}
}

// Write writes a report of this process, and its failures since the last call.
func (n *Nodes) Write(ctx context.Context) error {
	const batch = 500
	failures, short := n.config.Recorder.Drain()
	for i, all := range [][]*activity.Failure{failures, short} {
		for chunk := range slices.Chunk(all, batch) {
			if err := failureTables[i].Put(ctx, n.config.Store, chunk...); err != nil {
				return err // those that are left are in the log
			}
		}
	}
	report := n.report()
	if err := reportTable.Put(ctx, n.config.Store, processReport{n.process, report}); err != nil {
		return err
	}
	return n.writeFile(ctx, report)
}

// report returns the report of this process, as large as another node wants to read it.
func (n *Nodes) report() *activity.Report {
	r := n.config.Recorder.Report(n.config.Clock())
	n.config.Describe(r)
	groups := 0
	for i := range r.Connectors {
		c := &r.Connectors[i]
		c.Groups = c.Groups[:min(len(c.Groups), max(0, maxGroups-groups))]
		for k, g := range c.Groups {
			if groups++; groups > maxExamples {
				short := *g
				short.Examples = slices.Clone(g.Examples[:min(len(g.Examples), 1)])
				for i, example := range short.Examples {
					plain := *example
					plain.Way = nil
					short.Examples[i] = &plain
				}
				c.Groups[k] = &short
			}
		}
	}
	return r
}

func (n *Nodes) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil && n.since.IsZero():
		n.since = n.config.Clock()
		n.config.Logger.Warn("the store of state does not take what this node does: other nodes do not see it", slog.Any("error", err))
	case err == nil:
		n.since = time.Time{}
	}
}

// Reports returns the reports of all nodes, that of this process first and as it is now. note says what is missing, or is "".
func (n *Nodes) Reports(ctx context.Context) (reports []*activity.Report, note string) {
	own := n.config.Recorder.Report(n.config.Clock())
	n.config.Describe(own)
	if !n.config.Shared {
		return []*activity.Report{own}, "this process only: with a store of state, all nodes"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.config.Clock().Sub(n.readTime).Abs() >= readInterval {
		n.failure = n.read(context.WithoutCancel(ctx), own)
		n.readTime = n.config.Clock() // those who have waited do not wait again for a store that hangs
	}
	if n.failure != nil {
		return []*activity.Report{own}, fmt.Sprintf("this process only: %v", n.failure)
	}
	own.Offset, own.Differences = n.offset, n.own
	reports = append([]*activity.Report{own}, n.reports...)
	slices.SortFunc(reports[1:], func(a, b *activity.Report) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Started.Compare(b.Started))
	})
	return reports, ""
}

// View returns the figures of all nodes, and a note as Reports does.
func (n *Nodes) View(ctx context.Context) (view *activity.View, note string) {
	reports, note := n.Reports(ctx)
	return activity.Merge(reports, n.config.Clock()), note
}

// read reads the reports of the other nodes. Their times become those of this machine's clock.
func (n *Nodes) read(ctx context.Context, own *activity.Report) error {
	const maxNodes, readTime = 1000, 5 * time.Second
	limited, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	entries, _, err := reportTable.List(limited, n.config.Store, records.Query{}, "", maxNodes)
	n.reports = nil
	for _, entry := range entries {
		r := entry.Value.Report
		if r == nil {
			continue
		}
		r.Offset = r.Time.Sub(entry.WriteTime)
		if entry.Value.Process == n.process {
			n.offset = r.Offset
		} else {
			n.reports = append(n.reports, r)
		}
	}
	if err != nil {
		return err
	}
	n.compare(limited, append([]*activity.Report{own}, n.reports...))
	n.own = own.Differences
	for _, r := range n.reports {
		r.Shift(n.offset - r.Offset)
	}
	return nil
}

// Find returns a failure of any node by its request id, or nil if there is none. While its node runs, its times are by this machine's clock.
func (n *Nodes) Find(ctx context.Context, id string) (*activity.Failure, error) {
	if f := n.config.Recorder.Find(id); f != nil || !n.config.Shared {
		return f, nil
	}
	for _, table := range failureTables {
		found, ok, err := table.Get(ctx, n.config.Store, id)
		if err != nil {
			return nil, err
		}
		if ok {
			reports, _ := n.Reports(ctx)
			if i := slices.IndexFunc(reports, func(r *activity.Report) bool { return r.Node == found.Value.Node }); i >= 0 {
				reports[i].ShiftFailure(found.Value)
			}
			return found.Value, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// First reports whether this process is the one of all nodes that counts what is the same for all.
func (n *Nodes) First(ctx context.Context) bool {
	reports, _ := n.Reports(ctx)
	return !slices.ContainsFunc(reports[1:], func(r *activity.Report) bool {
		return cmp.Or(r.Started.Compare(reports[0].Started), cmp.Compare(r.Node, reports[0].Node)) < 0
	})
}
