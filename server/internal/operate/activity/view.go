package activity

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// State is the state of a connector.
type State string

// The states.
const (
	// StateFailing means that the last three requests failed, or half of the requests of the last minute.
	StateFailing State = "failing"
	// StateSomeFail means that a request of the last minute failed, or that none has succeeded since the last failure.
	StateSomeFail State = "some fail"
	// StateSlow means that no request failed, and for a tenth of the last minute's the API took more than half of the timeout.
	StateSlow State = "slow"
	// StateWorksAgain means that requests failed in the last 15 minutes, and none did in the last one.
	StateWorksAgain State = "works again"
	// StateToConnect means that all requests are of users who have not connected an account.
	StateToConnect State = "users to connect"
	StateWorking   State = "working"
	// StateQuiet means that there was no request in the last 15 minutes.
	StateQuiet State = "quiet"
)

// View has what all nodes know.
type View struct {
	Reports   []*Report
	summaries map[string]*Summary
}

// Summary has the figures of a connector, of all nodes.
type Summary struct {
	State State
	// Since is the time since which requests fail or are slow, or since which it works again. Otherwise it is zero.
	Since time.Time
	// Minute counts the requests of the last minute, Lately those of the last 15 minutes, and Minutes those of each of these, the oldest
	// first.
	Minute, Lately Tally
	Minutes        [Window]Tally
	// Half and P99 are the times within which half of the requests of the last minutes were answered, and 99 % of them.
	Half, P99 time.Duration
	// Expires is the end of the token that was used last, and Closed the time until which the token endpoint is not asked, or zero.
	Expires, Closed time.Time
	// Waiting has the users who have to connect an account.
	Waiting Set
	// Groups has the groups of failures, the newest first.
	Groups []*Group
	// Nodes has the names of the nodes on which requests failed in the last minute, and SlowNodes those on which they were slow.
	Nodes, SlowNodes []string

	expires, closed int64
	health          []Health
	times           [buckets]uint64
}

// Digests returns the digests of the files that the nodes use, sorted.
func (v *View) Digests() (all []string) {
	for _, r := range v.Reports {
		all = append(all, r.SHA256)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Different returns the names of the nodes whose file defines a connector otherwise than that of most nodes, and the members that differ.
func (v *View) Different(connector string) (names, members []string) {
	for _, r := range v.Reports {
		if i, ok := slices.BinarySearchFunc(r.Differences, connector, func(d Difference, name string) int { return strings.Compare(d.Connector, name) }); ok {
			names, members = append(names, r.Node), append(members, r.Differences[i].Members...)
		}
	}
	slices.Sort(members)
	return names, slices.Compact(members)
}

// RequestsOn counts the requests to a connector of the last minute on nodes.
func (v *View) RequestsOn(nodes []string, connector string) (n uint32) {
	for _, r := range v.Reports {
		i := slices.IndexFunc(r.Connectors, func(c Connector) bool { return c.Name == connector })
		if i >= 0 && slices.Contains(nodes, r.Node) {
			n += r.Connectors[i].minute().Requests
		}
	}
	return n
}

// Merge returns what reports say together, at a time by the clock of this machine.
func Merge(reports []*Report, now time.Time) *View {
	v := &View{Reports: reports, summaries: map[string]*Summary{}}
	for _, r := range reports {
		for i := range r.Connectors {
			c := &r.Connectors[i]
			if v.summaries[c.Name] == nil {
				v.summaries[c.Name] = &Summary{}
			}
			v.summaries[c.Name].add(r, c, now)
		}
	}
	for _, s := range v.summaries {
		s.finish(now)
		for _, g := range s.Groups {
			g.alone = len(reports) > 1 && len(g.Nodes) == 1
		}
	}
	return v
}

// Summary returns the summary of a connector, which must not be modified.
func (v *View) Summary(connector string) *Summary {
	if s := v.summaries[connector]; s != nil {
		return s
	}
	return &Summary{State: StateQuiet}
}

// Groups returns the groups of all connectors, the newest first.
func (v *View) Groups() (all []*Group) {
	for _, s := range v.summaries {
		all = append(all, s.Groups...)
	}
	slices.SortFunc(all, newest)
	return all
}

// Hide leaves out the tenants that are not visible, for operators who may not see them.
func (v *View) Hide(visible func(tenant string) bool) {
	for _, s := range v.summaries {
		for _, g := range s.Groups {
			g.Tenants = slices.DeleteFunc(g.Tenants, func(tenant string) bool { return !visible(tenant) })
			for i, example := range g.Examples {
				g.Examples[i] = example.Hide(visible)
			}
		}
	}
}

// owner matches the owner of a secret in a message.
var owner = regexp.MustCompile(`\b(tenants?|users)[ /][^/\s'"]+`)

// Hide returns the failure without its tenant and its user, unless the tenant is visible.
func (f *Failure) Hide(visible func(tenant string) bool) *Failure {
	if visible(f.Tenant) {
		return f
	}
	id, api := cmp.Or(f.Tenant, "\x00"), cmp.Or(f.Host, "\x00") // the host may be one that the tenant has chosen
	names := strings.NewReplacer(api, "…", id, "…", strings.ToLower(id), "…")
	hide := func(text string) string { return owner.ReplaceAllString(names.Replace(text), "$1/…") }
	public := *f
	public.Tenant, public.Host, public.Cause, public.Remedy = "", "", hide(f.Cause), hide(f.Remedy)
	return &public
}

// Minute counts the requests of the last minute of a report.
func (r *Report) Minute() (sum Tally) {
	for i := range r.Connectors {
		sum.add(r.Connectors[i].minute())
	}
	return sum
}

func (c *Connector) minute() (sum Tally) {
	for i := range parts {
		sum.add(c.tally(i))
	}
	return sum
}

// tally returns a tally by its place. It is empty if a report of another version does not have it.
func (c *Connector) tally(i int) (t Tally) {
	if i*3+2 < len(c.Tallies) {
		t = Tally{c.Tallies[i*3], c.Tallies[i*3+1], c.Tallies[i*3+2], 0}
	}
	if i < len(c.Slow) {
		t.Slow = c.Slow[i]
	}
	return t
}

// add adds the figures of a report.
func (s *Summary) add(r *Report, c *Connector, now time.Time) {
	minutes, hours := now.Unix()/60-r.Time.Unix()/60, now.Unix()/3600-r.Time.Unix()/3600
	minute := c.minute()
	s.Minute.add(minute)
	if minute.Failed > 0 && r.Node != "" {
		s.Nodes = append(s.Nodes, r.Node)
	}
	if minute.Slow > 0 && r.Node != "" {
		s.SlowNodes = append(s.SlowNodes, r.Node)
	}
	for i := range Window {
		if to := i - int(minutes); to >= 0 && to < Window {
			t := c.tally(parts + i)
			s.Minutes[to].add(t)
			s.Lately.add(t)
		}
	}
	for i, n := range c.Latency {
		s.times[min(max(0, min(c.LeastLatency, buckets))+i, buckets-1)] += uint64(n)
	}
	s.health = append(s.health, c.Health)
	s.Waiting.union(c.Waiting)
	s.expires, s.closed = max(s.expires, c.Expires), max(s.closed, c.Closed)
	for _, g := range c.Groups[:min(len(c.Groups), maxGroups)] {
		if g == nil || len(g.Examples) == 0 || slices.Contains(g.Examples, nil) { // it is damaged
			continue
		}
		i := slices.IndexFunc(s.Groups, func(o *Group) bool { return o.ID == g.ID })
		if i < 0 {
			i, s.Groups = len(s.Groups), append(s.Groups, newGroup(g.ID, c.Name))
		}
		s.Groups[i].merge(g, r.Node, minutes, hours)
	}
}

// finish sets what follows from the figures of all nodes.
func (s *Summary) finish(now time.Time) {
	slices.SortFunc(s.Groups, newest)
	for _, g := range s.Groups {
		slices.Sort(g.Tenants)
	}
	s.quantiles()
	if s.Expires = instant(s.expires); s.closed > now.UnixMilli() {
		s.Closed = instant(s.closed)
	}
	all := combined(s.health)
	connected := s.Minute.Requests - s.Minute.Unconnected
	switch {
	case s.Lately.Requests == 0:
		s.State = StateQuiet
	case s.Lately.Unconnected == s.Lately.Requests:
		s.State = StateToConnect
	case s.Lately.Failed == 0 && s.Minute.Slow > 0 && s.Minute.Slow*10 >= connected:
		s.State, s.Since = StateSlow, s.slowSince(now)
	case s.Lately.Failed == 0:
		s.State = StateWorking
	case all.Streak >= failingStreak, s.Minute.Failed > 0 && s.Minute.Failed*2 >= connected:
		s.State, s.Since = StateFailing, instant(all.Trouble)
	case s.Minute.Failed > 0, all.Repair == 0:
		s.State, s.Since = StateSomeFail, instant(all.Trouble)
	default:
		s.State, s.Since = StateWorksAgain, instant(all.Repair)
	}
}

// slowSince returns the beginning of the first of the last minutes in which no fewer than a tenth of the requests were slow.
func (s *Summary) slowSince(now time.Time) time.Time {
	first := now.Truncate(time.Minute)
	for i := Window - 2; i >= 0 && s.Minutes[i].Slow > 0 && s.Minutes[i].Slow*10 >= s.Minutes[i].Requests; i-- {
		first = first.Add(-time.Minute)
	}
	return first
}

func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// combined returns the health of a connector from that on each node. Of streaks, only those count in which no other node had a success.
func combined(nodes []Health) (all Health) {
	if len(nodes) == 1 {
		return nodes[0]
	}
	slices.SortFunc(nodes, func(a, b Health) int { return cmp.Compare(b.Failure, a.Failure) })
	for _, h := range nodes {
		all.Success, all.Failure = max(all.Success, h.Success), max(all.Failure, h.Failure)
	}
	if all.Failure == 0 {
		return all
	}
	all.Trouble = nodes[0].Trouble
	for _, h := range nodes {
		if h.Streak > 0 && h.Began >= all.Success {
			all.Streak += h.Streak
		}
		// Its trouble is the same one unless a good minute lies between them.
		if h.Failure != 0 && (h.Failure > all.Trouble-minuteMillis || h.Failure > all.Success) {
			all.Trouble = min(all.Trouble, h.Trouble)
		}
		if h.Success > all.Failure { // of a node without failures, the first success after it is not known
			repair := max(h.Repair, all.Failure)
			if all.Repair == 0 || repair < all.Repair {
				all.Repair = repair
			}
		}
	}
	return all
}

// quantiles sets Half and P99.
func (s *Summary) quantiles() {
	rest := uint64(0)
	for _, n := range s.times {
		rest += n
	}
	total := rest
	for b := 0; rest > 0; b++ {
		rest -= s.times[b]
		if s.Half == 0 && rest*2 <= total {
			s.Half = bound(b)
		}
		if s.P99 == 0 && rest*100 <= total {
			s.P99 = bound(b)
		}
	}
}
