package activity

import (
	"slices"
	"time"
)

// Report has what a process knows of its connectors at a time. It is written as JSON for other nodes, whose version may be another one.
type Report struct {
	// Node is the name of the machine, Version the version of the program, and SHA256 the digest of the file in use.
	Node, Version, SHA256 string
	// Started is the time at which the process began, and Time that of the report, both by the clock of its machine. [Report.Shift] leaves
	// Started as it is, so that all nodes have the same one.
	Started, Time time.Time
	// Offset is the time that its clock is ahead of that of the store. Who reads the report from a store sets it.
	Offset time.Duration `json:"-"`
	// shift is the time that Shift has added to Time.
	shift time.Duration
	// Store describes the store of state as the process sees it, or is "".
	Store string
	// Fingerprints returns short digests of the members of each connector of the file in use by its permalink, and of what is outside of
	// connectors by "". It may be nil.
	Fingerprints func() map[string]map[string]string `json:"-"`
	// Differences are those from the file that most nodes use. Who reads the report from a store sets them.
	Differences []Difference `json:"-"`
	// Connectors are those that were used.
	Connectors []Connector
}

// Difference says of a connector, or of what is outside of connectors, which members two files define otherwise.
type Difference struct {
	// Connector is the permalink, or "".
	Connector string `json:"connector" doc:"The permalink, or an empty text for what is outside of connectors."`
	// Members are the paths of the members, sorted. It is empty if only one of the files has the connector.
	Members []string `json:"members"`
}

// WrongClock reports whether the clock of the node is wrong by a minute or more.
func (r *Report) WrongClock() bool { return r.Offset.Abs() >= time.Minute }

// StartTime returns the time at which the process began, by the clock that Time has. It is zero if Started is.
func (r *Report) StartTime() time.Time {
	if r.Started.IsZero() {
		return r.Started
	}
	return r.Started.Add(r.shift)
}

// Up returns the time since which the process runs.
func (r *Report) Up() time.Duration { return r.Time.Sub(r.StartTime()) }

// Shift changes the times of a report that was read to those of another clock, which is ahead by a difference. One of less than a second may be
// the time that writing took, and does not count.
func (r *Report) Shift(difference time.Duration) {
	if difference.Abs() < time.Second {
		return
	}
	r.Time, r.shift = r.Time.Add(difference), difference
	for i := range r.Connectors {
		c := &r.Connectors[i]
		for _, millis := range []*int64{&c.Began, &c.Trouble, &c.Failure, &c.Repair, &c.Success, &c.Expires, &c.Closed} {
			if *millis != 0 {
				*millis += difference.Milliseconds()
			}
		}
		for _, g := range c.Groups {
			g.First, g.Last = g.First.Add(difference), g.Last.Add(difference)
			for _, f := range g.Examples {
				r.ShiftFailure(f)
			}
		}
	}
}

// ShiftFailure changes the times of a failure of the process as Shift has changed those of the report.
func (r *Report) ShiftFailure(f *Failure) {
	f.Time = f.Time.Add(r.shift)
	if !f.Until.IsZero() {
		f.Until = f.Until.Add(r.shift)
	}
}

// Connector is a part of a [Report].
type Connector struct {
	Name string `json:"n"`
	// Tallies has three numbers for each part of the last minute and then for each minute: those of a [Tally] but Slow, which Slow has for
	// each unless all are 0. The present one is the last.
	Tallies Counts `json:"c"`
	Slow    Counts `json:"v,omitempty"`
	// Latency has the numbers of requests of the classes of times from LeastLatency on.
	LeastLatency int    `json:"i,omitempty"`
	Latency      Counts `json:"l,omitempty"`
	Health
	// Expires is the end of the token that was used last, and Closed the time until which the token endpoint that refused is not asked, in
	// milliseconds of Unix time, or 0.
	Expires int64    `json:"e,omitempty"`
	Closed  int64    `json:"w,omitempty"`
	Waiting Set      `json:"u,omitzero"`
	Groups  []*Group `json:"g,omitempty"`
}

// Counts are numbers, of which most are small.
type Counts []uint32

func (c Counts) sum() (n uint64) {
	for _, count := range c {
		n += uint64(count)
	}
	return n
}

// later returns a copy as it is some periods later. They may be negative.
func (c Counts) later(periods int64) Counts {
	moved := make(Counts, len(c))
	for i, n := range c {
		if to := int64(i) - periods; to >= 0 && to < int64(len(c)) {
			moved[to] = n
		}
	}
	return moved
}

func (c Counts) add(o Counts) {
	for i := range min(len(c), len(o)) {
		c[i] += o[i]
	}
}

// Report returns what is known now, by the clock of this machine. The caller sets the members about the process.
func (r *Recorder) Report(now time.Time) *Report {
	records := r.connectors.All()
	report := &Report{Node: r.config.Node, Time: now, Connectors: make([]Connector, 0, len(records))}
	for name, rec := range records {
		report.Connectors = append(report.Connectors, rec.report(name, now))
	}
	return report
}

func (r *record) report(name string, now time.Time) Connector {
	minute := now.Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.figures(name, now)
	if until := r.waitsUntil.Load(); r.tokenRefused.Load() && until > now.UnixNano() {
		c.Closed = until / int64(time.Millisecond)
	}
	c.Expires, c.Latency = r.expires.Load()/int64(time.Millisecond), make(Counts, buckets)
	for i := range r.latency {
		if s := &r.latency[i]; minute/spanMinutes-s.number < spans {
			c.Latency.add(s.buckets[:])
		}
	}
	c.LeastLatency = max(0, slices.IndexFunc(c.Latency, func(n uint32) bool { return n > 0 }))
	c.Latency = c.Latency[c.LeastLatency:]
	if minute-r.waited < Window {
		c.Waiting.union(r.waiting)
	}
	for _, g := range r.groups {
		c.Groups = append(c.Groups, g.snapshot(minute))
	}
	return c
}

// figures returns of a report what says in which state a connector is. The caller has locked mu.
func (r *record) figures(name string, now time.Time) Connector {
	const n = parts + Window
	c := Connector{Name: name, Health: r.Health, Tallies: make(Counts, 0, 3*n), Slow: make(Counts, 0, n)}
	c.appendTallies(r.parts[:], now.Unix()/partSeconds)
	c.appendTallies(r.minutes[:], now.Unix()/60)
	if slices.Max(c.Slow) == 0 {
		c.Slow = nil
	}
	return c
}

// appendTallies appends the tallies of a ring, of which the last one is that of the period now.
func (c *Connector) appendTallies(ring []tally, now int64) {
	n := int64(len(ring))
	for number := now - n + 1; number <= now; number++ {
		var t Tally
		if entry := ring[number%n]; entry.number == number {
			t = entry.Tally
		}
		c.Tallies, c.Slow = append(c.Tallies, t.Requests, t.Failed, t.Unconnected), append(c.Slow, t.Slow)
	}
}
