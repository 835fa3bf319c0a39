package activity_test

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
)

// The report of 5,000 busy connectors is small, and that of one that was never used is empty.
func TestReportSize(t *testing.T) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	busy(n, 5_000)
	text := testworld.Must(json.Marshal(n.Report(clock.Now())))(t)
	var b bytes.Buffer
	w := testworld.Must(flate.NewWriter(&b, flate.DefaultCompression))(t)
	testworld.Must(w.Write(text))(t)
	testworld.Check(t, w.Close())
	if b.Len() > 200_000 {
		t.Errorf("a report has %d bytes, %d deflated", len(text), b.Len())
	}
	var later activity.Report
	testworld.Check(t, json.Unmarshal(bytes.Replace(text, []byte(`{"Node"`), []byte(`{"New":[1],"Node"`), 1), &later)) // of a newer version
	if len(later.Connectors) != 5_000 || len(newNode(clock, "b").Report(clock.Now()).Connectors) != 0 {
		t.Errorf("the report has %d connectors", len(later.Connectors))
	}
}

// busy has connectors send some requests a minute for a quarter of an hour, as callers do: now more, now fewer.
func busy(n node, connectors int) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // traffic
	for range 90 {
		for i := range connectors {
			for range random.IntN(4) {
				took := time.Duration(math.Exp(random.NormFloat64()*.3) * float64(time.Duration(5+i%50)*time.Millisecond))
				n.Request(&gateway.Event{Connector: fmt.Sprintf("c%04d-billing", i), Status: 200, UpstreamStatus: 200, Began: n.clock.Now(), Total: took})
			}
		}
		n.clock.Advance(10 * time.Second)
	}
}

// A request that succeeds costs the recorder no memory.
func TestSuccessAllocations(t *testing.T) {
	recorder := activity.New(activity.Config{Clock: time.Now})
	e := gateway.Event{Connector: "orders", Status: 200, Began: begin, Total: time.Millisecond}
	attempt := host.Attempt{Connector: "orders", Cached: true, Expires: begin.Add(time.Hour)}
	record := func() {
		recorder.Attempted(&attempt)
		recorder.Request(&e)
	}
	record()
	if n := testing.AllocsPerRun(100, record); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	recorder := activity.New(activity.Config{Clock: time.Now})
	e := gateway.Event{Connector: "orders", Status: 200, Began: begin, Total: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		recorder.Request(&e)
	}
}

func BenchmarkFailure(b *testing.B) {
	recorder := activity.New(activity.Config{Clock: time.Now})
	e := broken
	e.Connector, e.Began, e.User, e.Tenant = "orders", begin, "ann", "acme"
	b.ReportAllocs()
	for b.Loop() {
		recorder.Request(&e)
	}
}

// The view of a page, with three nodes and 5,000 busy connectors.
func BenchmarkMerge(b *testing.B) {
	clock := testworld.NewClock(begin)
	n := newNode(clock, "a")
	busy(n, 5_000)
	r := n.Report(clock.Now())
	b.ReportAllocs()
	for b.Loop() {
		activity.Merge([]*activity.Report{n.Report(clock.Now()), r, r}, clock.Now())
	}
}
