package tokencache

import (
	"testing"
	"time"
	"unsafe"
)

// clocks returns a time that is later than since by different durations of the monotonic clock and of the wall clock, as
// after the wall clock has been set. It changes the wall clock's seconds, which package time keeps from bit 30 of the
// first word on.
func clocks(t *testing.T, since time.Time, monotonic, wall time.Duration) time.Time {
	t.Helper()
	at := since.Add(monotonic)
	*(*uint64)(unsafe.Pointer(&at)) += uint64((wall-monotonic)/time.Second) << 30
	if got := at.Sub(since); got != monotonic {
		t.Fatalf("the monotonic clock has gone on by %s, want %s: package time keeps it elsewhere", got, monotonic)
	}
	if got := at.Round(0).Sub(since.Round(0)); got != wall {
		t.Fatalf("the wall clock has gone on by %s, want %s: package time keeps it elsewhere", got, wall)
	}
	return at
}

// An entry is used until its time has passed, or lies in the future, by either of the two clocks. (threats.md 33)
func TestNeitherClockKeepsAnEntryBeyondItsTime(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		ttl, monotonic, wall time.Duration
		want                 bool
	}{
		{10 * time.Second, 0, 0, true},
		{10 * time.Second, 5000 * ms, 5000 * ms, true},
		{10 * time.Second, 9999 * ms, 9999 * ms, true},
		{10 * time.Second, 0, 9000 * ms, true},
		{10 * time.Second, 9000 * ms, 0, true},
		{10 * time.Second, 9000 * ms, 1000 * ms, true},
		{10500 * ms, 10200 * ms, 10200 * ms, true},
		{500 * ms, 400 * ms, 400 * ms, true},

		{10 * time.Second, 10000 * ms, 5000 * ms, false},
		{10 * time.Second, 3600000 * ms, 5000 * ms, false},
		{10 * time.Second, -1000 * ms, 5000 * ms, false},
		{10 * time.Second, 5000 * ms, 10000 * ms, false},
		{10 * time.Second, 5000 * ms, 11000 * ms, false},
		{10 * time.Second, 5200 * ms, 10200 * ms, false},
		{10 * time.Second, 5000 * ms, 3600000 * ms, false},
		{3 * time.Second, 1000 * ms, 3600000 * ms, false},
		{10 * time.Second, 5000 * ms, -5000 * ms, false},
		{10 * time.Second, 200 * ms, -800 * ms, false},
		{10500 * ms, 5500 * ms, 10500 * ms, false},
		{500 * ms, 400 * ms, 1400 * ms, false},
		{500 * ms, 500 * ms, 500 * ms, false},
	} {
		for fraction := range 10 { // of the second in which the entry was stored
			since := time.Now()
			since = since.Add(time.Duration(fraction)*100*ms - time.Duration(since.Nanosecond()))
			if got := withinPeriod(since, clocks(t, since, tt.monotonic, tt.wall), tt.ttl); got != tt.want {
				t.Errorf("of %s, %s have passed by the monotonic clock and %s by the wall clock, from %d00 ms on: used: %t", tt.ttl, tt.monotonic, tt.wall, fraction, got)
			}
		}
	}
}
