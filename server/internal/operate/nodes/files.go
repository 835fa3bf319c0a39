package nodes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/statedb"
)

// file has the fingerprints of what a file defines, see [activity.Report.Fingerprints]. Those of another version may have other members.
type file struct {
	SHA256       string                       `json:"sha256"`
	Version      string                       `json:"version"`
	Fingerprints map[string]map[string]string `json:"fingerprints"`
}

var fileTable = records.Table[file]{Kind: statedb.KindFile, Lifetime: failureTime, Key: func(f file) []string { return []string{f.SHA256, f.Version} }}

// writeFile writes the fingerprints of the file in use, once a day.
func (n *Nodes) writeFile(ctx context.Context, r *activity.Report) error {
	const interval = 24 * time.Hour
	if r.Fingerprints == nil || r.SHA256 == n.fileDigest && r.Time.Sub(n.fileTime) < interval {
		return nil
	}
	n.fileDigest, n.fileTime = r.SHA256, r.Time
	err := fileTable.Put(ctx, n.config.Store, file{r.SHA256, r.Version, r.Fingerprints()})
	if err != nil {
		n.fileTime = r.Time.Add(time.Minute - interval) // it is tried again in a minute
	}
	return err
}

// compare sets the differences of reports from the file that most nodes use, or from that of the first one if several are used by as many. Nodes of
// different versions are not compared.
func (n *Nodes) compare(ctx context.Context, reports []*activity.Report) {
	users := map[string]int{}
	for _, r := range reports {
		users[r.SHA256]++
	}
	usual := reports[0].SHA256
	for _, r := range reports {
		if users[r.SHA256] > users[usual] {
			usual = r.SHA256
		}
	}
	previous := n.differences
	n.differences = map[[3]string][]activity.Difference{}
	for _, r := range reports {
		if r.SHA256 == usual || !slices.ContainsFunc(reports, func(o *activity.Report) bool { return o.SHA256 == usual && o.Version == r.Version }) {
			continue
		}
		key := [3]string{usual, r.SHA256, r.Version}
		all, ok := previous[key]
		if !ok {
			from, _, _ := fileTable.Get(ctx, n.config.Store, usual, r.Version) // without it, nothing is said of the file
			to, _, _ := fileTable.Get(ctx, n.config.Store, r.SHA256, r.Version)
			if from.Value.Fingerprints == nil || to.Value.Fingerprints == nil {
				continue
			}
			all = difference(from.Value.Fingerprints, to.Value.Fingerprints)
		}
		n.differences[key], r.Differences = all, all
	}
}

// difference returns what differs, sorted.
func difference(a, b map[string]map[string]string) (all []activity.Difference) {
	for _, connector := range keys(a, b) {
		if a[connector] == nil || b[connector] == nil {
			all = append(all, activity.Difference{Connector: connector, Members: []string{}})
			continue
		}
		var members []string
		for _, member := range keys(a[connector], b[connector]) {
			if a[connector][member] != b[connector][member] {
				members = append(members, member)
			}
		}
		if members != nil {
			all = append(all, activity.Difference{Connector: connector, Members: members})
		}
	}
	return all
}

// keys returns the keys of one or the other map, sorted.
func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
