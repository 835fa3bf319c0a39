package host

import (
	"testing"
	"time"
)

// The seconds of an attribute are whole, and no less than the time.
func TestRetryAfterOfASpan(t *testing.T) {
	for d, want := range map[time.Duration]int64{1: 1, 30 * time.Second: 30, 30*time.Second + 1: 31} {
		if got := (SpanEnd{retryAfter: d}).Attributes(); len(got) != 1 || got[0].Key != "keywright.retry_after_seconds" || got[0].Value.Int64() != want {
			t.Errorf("%v is %v, want %d", d, got, want)
		}
	}
	if got := (SpanEnd{}).Attributes(); len(got) != 0 {
		t.Errorf("no time is %v", got)
	}
}
