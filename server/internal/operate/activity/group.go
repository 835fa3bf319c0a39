package activity

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/keywright/keywright/server/internal/operate/remedy"
)

const (
	// maxGroups is the number of groups of a connector. The one that has not failed for longest goes.
	maxGroups = 32
	// maxSet is the number of users that are counted exactly.
	maxSet = 64
	// maxTenants is the number of tenants that are named, and maxExamples that of examples.
	maxTenants, maxExamples = 8, 3
	dayHours                = 24
)

// Set is a set of users or of tenants, by their hashes.
type Set struct {
	Hashes []uint64 `json:"h,omitempty"`
	// More reports whether there were more than are in Hashes.
	More bool `json:"m,omitempty"`
}

func (s *Set) add(hashes ...uint64) {
	for _, hash := range hashes {
		switch {
		case slices.Contains(s.Hashes, hash):
		case len(s.Hashes) == maxSet:
			s.More = true
		default:
			s.Hashes = append(s.Hashes, hash)
		}
	}
}

func (s *Set) remove(hash uint64) {
	s.Hashes = slices.DeleteFunc(s.Hashes, func(h uint64) bool { return h == hash })
}

func (s *Set) union(o Set) {
	s.add(o.Hashes...)
	s.More = s.More || o.More
}

// Text returns the number of members with a word for them, such as user, or "" if there are none.
func (s Set) Text(word string) string {
	switch n := len(s.Hashes); {
	case s.More:
		return fmt.Sprintf("more than %d %ss", n, word)
	case n == 1:
		return "1 " + word
	case n > 1:
		return fmt.Sprintf("%d %ss", n, word)
	}
	return ""
}

// Group has the failures of a connector with the same cause.
type Group struct {
	// ID is a hash of what its failures have in common, which is the same on all nodes.
	ID, Connector string
	// First and Last are the times of the first and the last failure, and Total is the number of all.
	First, Last time.Time
	Total       uint64
	// Minutes and Hours count the failures of the last minutes and hours, the present one last.
	Minutes, Hours Counts
	// Tenants has the IDs of some tenants. AllTenants and Users count them.
	Tenants           []string
	AllTenants, Users Set
	// Nodes are the names of the nodes on which it fails.
	Nodes []string
	// Examples are the last failures, the newest first.
	Examples []*Failure

	// minute is the number of the last of Minutes, and queued counts the failures of that minute that are to be stored.
	minute int64
	queued int
	// alone reports whether one of several nodes has the failures.
	alone bool
	// remembered counts the remembered refusals since the time reported, at which Remembered of [Config] was called last.
	remembered uint64
	reported   time.Time
}

// newGroup returns a group without failures.
func newGroup(id, connector string) *Group {
	return &Group{ID: id, Connector: connector, Minutes: make(Counts, Window), Hours: make(Counts, dayHours)}
}

// Lately returns the number of failures in the last minutes, and Day that of the last day.
func (g *Group) Lately() uint64 { return g.Minutes.sum() }

// Day returns the number of failures of the last day.
func (g *Group) Day() uint64 { return g.Hours.sum() }

// MoreTenants returns the number of tenants that Tenants does not name.
func (g *Group) MoreTenants() int { return len(g.AllTenants.Hashes) - len(g.Tenants) }

// Remedy says what to do about the failures. What it says of clocks counts unless several nodes have them, and comes first if others do not.
func (g *Group) Remedy() string {
	text := g.Examples[0].Remedy
	reason, clock, ok := strings.Cut(text, " "+remedy.ClocksDiffer)
	switch {
	case len(g.Nodes) > 1:
		return reason
	case !g.alone:
		return text
	case ok:
		text = remedy.ClocksDiffer + clock + " " + reason
	}
	return strings.ReplaceAll(text, "this machine's", g.Nodes[0]+"'s")
}

// groupID returns the ID of the group of a failure. Of a remedy, digits do not count, because it may have a date or a time, nor does what it
// says of clocks after another reason. A grant that has ended is one cause, whether the token endpoint has just said so or before.
func groupID(f *Failure) string {
	hash := fnv.New64a()
	reason, _, _ := strings.Cut(f.Remedy, " "+remedy.ClocksDiffer)
	code := f.Code
	if f.Problem == "not-connected" {
		code = ""
	}
	_, _ = fmt.Fprintf(hash, "%q %q %d %q %q", f.Stage, f.Problem, f.UpstreamStatus, code, strings.FieldsFunc(reason, unicode.IsDigit)) // it never fails
	if f.unreached() {
		_, _ = hash.Write([]byte(f.Host))
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}

// groupOf returns the group of a failure, and creates it if necessary.
func (r *record) groupOf(f *Failure) *Group {
	for _, g := range r.groups {
		if g.ID == f.Group {
			return g
		}
	}
	if len(r.groups) == maxGroups {
		slices.SortFunc(r.groups, newest)
		r.groups = r.groups[:maxGroups-1]
	}
	r.groups = append(r.groups, newGroup(f.Group, f.Connector))
	return r.groups[len(r.groups)-1]
}

// add adds a failure. It returns whether the failure is to be stored with its way, and the number of remembered refusals that are to be reported.
func (g *Group) add(hash func(tenant, user string) uint64, f *Failure, user string) (keepWay bool, remembered uint64) {
	const maxWhole = 20 // the maximum number of failures of a group and a minute that are stored with their ways
	one := newGroup(f.Group, f.Connector)
	one.First, one.Last, one.Total, one.Examples = f.Time, f.Time, 1, []*Failure{f}
	one.Minutes[Window-1], one.Hours[dayHours-1] = 1, 1
	if user != "" {
		one.Users.add(hash(f.Tenant, user))
	}
	if f.Tenant != "" {
		one.Tenants = []string{f.Tenant}
		one.AllTenants.add(hash(f.Tenant, ""))
	}
	minute := f.Time.Unix() / 60
	if minute > g.minute { // the counts are moved
		g.Minutes, g.Hours = g.Minutes.later(minute-g.minute), g.Hours.later(minute/60-g.minute/60)
		g.minute, g.queued = minute, 0
	}
	g.merge(one, "", g.minute-minute, g.minute/60-minute/60)
	if f.Remembered {
		if g.remembered++; f.Time.Sub(g.reported) >= time.Minute {
			remembered, g.remembered, g.reported = g.remembered, 0, f.Time
		}
	}
	g.queued++
	return g.queued <= maxWhole, remembered
}

// snapshot returns a copy of the group as it is in a minute.
func (g *Group) snapshot(minute int64) *Group {
	c := newGroup(g.ID, g.Connector)
	c.merge(g, "", minute-g.minute, minute/60-g.minute/60)
	return c
}

// merge adds the failures of a group as they are some minutes and hours later.
func (g *Group) merge(o *Group, node string, minutes, hours int64) {
	g.Total += o.Total
	g.Minutes.add(o.Minutes.later(minutes))
	g.Hours.add(o.Hours.later(hours))
	if g.First.IsZero() || o.First.Before(g.First) {
		g.First = o.First
	}
	if o.Last.After(g.Last) {
		g.Last = o.Last
	}
	for _, tenant := range o.Tenants {
		if len(g.Tenants) < maxTenants && !slices.Contains(g.Tenants, tenant) {
			g.Tenants = append(g.Tenants, tenant)
		}
	}
	g.AllTenants.union(o.AllTenants)
	g.Users.union(o.Users)
	if node != "" && !slices.Contains(g.Nodes, node) {
		g.Nodes = append(g.Nodes, node)
	}
	g.Examples = slices.Concat(o.Examples, g.Examples)
	slices.SortStableFunc(g.Examples, func(a, b *Failure) int { return b.Time.Compare(a.Time) })
	g.Examples = g.Examples[:min(len(g.Examples), maxExamples)]
}

// newest compares groups by the time of their last failures, the newest first.
func newest(a, b *Group) int {
	return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Connector, b.Connector), cmp.Compare(a.ID, b.ID))
}
