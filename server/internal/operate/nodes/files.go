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

// file has the fingerprints of what a file defines, see [activity.Report.Fingerprints].
type file struct {
	SHA256       string                       `json:"sha256"`
	Fingerprints map[string]map[string]string `json:"fingerprints"`
}

var fileTable = records.Table[file]{Kind: statedb.KindFile, Lifetime: failureTime, Key: func(f file) []string { return []string{f.SHA256} }}

// writeFile writes the fingerprints of the file in use, once a day.
func (n *Nodes) writeFile(ctx context.Context, r *activity.Report) error {
	if r.Fingerprints == nil || r.SHA256 == n.fileDigest && r.Time.Sub(n.fileTime) < 24*time.Hour {
		return nil
	}
	err := fileTable.Put(ctx, n.config.Store, file{r.SHA256, r.Fingerprints()})
	if err == nil {
		n.fileDigest, n.fileTime = r.SHA256, r.Time
	}
	return err
}

// compare returns, for each file in use, what it defines otherwise than the file that most nodes use, or that of the first of reports if several
// files are used by as many.
func (n *Nodes) compare(ctx context.Context, reports []*activity.Report) map[string][]activity.Difference {
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
	maps.DeleteFunc(n.files, func(digest string, _ map[string]map[string]string) bool { return users[digest] == 0 })
	differences := map[string][]activity.Difference{}
	for digest := range users {
		if digest == usual {
			continue
		}
		for _, digest := range []string{usual, digest} {
			if n.files[digest] != nil {
				continue
			}
			entry, _, _ := fileTable.Get(ctx, n.config.Store, digest) // without it, nothing is said of the file
			n.files[digest] = entry.Value.Fingerprints
		}
		differences[digest] = difference(n.files[usual], n.files[digest])
	}
	return differences
}

// difference returns what differs, sorted, or nil if one of the two is not known.
func difference(a, b map[string]map[string]string) (all []activity.Difference) {
	if a == nil || b == nil {
		return nil
	}
	for _, connector := range keys(a, b) {
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
	all := slices.AppendSeq(slices.Sorted(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
