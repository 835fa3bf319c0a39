package answer

import (
	"net/http"
	"testing"
	"time"
)

// An offset of less than ten seconds in either direction counts as none.
func TestLeastOffset(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	for seconds, want := range map[int64]int64{-11: -11, -10: -10, -9: 0, 0: 0, 9: 0, 10: 10, 11: 11} {
		var o Offset
		date := now.Add(time.Duration(seconds) * time.Second).Format(http.TimeFormat)
		o.Learn(http.StatusUnauthorized, http.Header{"Date": {date}}, now)
		if got := o.Seconds(); got != want {
			t.Errorf("%d seconds: %d", seconds, got)
		}
	}
}
