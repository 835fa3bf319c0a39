package sdk

import (
	"strconv"
	"testing"
	"time"
)

// Dates are those of the Go standard library, in every year from 1970 to 2400.
func TestFormatTime(t *testing.T) {
	const hour = 60 * 60 * 1000
	for millis := int64(0); millis < 430*366*24*hour; millis += 23*hour + 59*60*1000 + 7001 {
		moment := time.UnixMilli(millis).UTC()
		want := moment.Format("Mon, 02 Jan 2006 15:04:05 GMT 01 ") + moment.Format(".000")[1:] + moment.Format(" ") + strconv.FormatInt(moment.Unix(), 10)
		if got := FormatTime(millis, "%a, %d %b %Y %H:%M:%S GMT %m %L %s"); got != want {
			t.Fatalf("%s, not %s", got, want)
		}
	}
	for format, want := range map[string]string{
		"": "", "%": "%", "%s": "0", "100% %%Y %": "100% %Y %", "%x%q%%%%d%d": "%x%q%%d01", "é%Yé": "é1970é",
	} {
		if got := FormatTime(0, format); got != want {
			t.Errorf("%q: got = %q", format, got)
		}
	}
}
