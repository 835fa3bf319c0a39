package gateway

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An answer ends when the API pauses for too long, and not because the caller takes its time to read it.
func TestStallingCountsTheUpstreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := false
		timer := time.AfterFunc(time.Second, func() { over = true })
		timer.Stop()
		from, to := io.Pipe()
		body := &stalling{io.NopCloser(io.MultiReader(strings.NewReader("piece"), from)), timer, time.Second}
		if n, err := body.Read(make([]byte, 10)); n != 5 || err != nil {
			t.Error(n, err)
		}
		<-time.After(time.Minute) // of the bubble
		if synctest.Wait(); over {
			t.Error("the caller's time counted")
		}
		go func() {
			<-time.After(time.Minute)
			_ = to.Close()
		}()
		_, _ = body.Read(make([]byte, 10))
		if synctest.Wait(); !over {
			t.Error("the upstream's time did not count")
		}
	})
}
