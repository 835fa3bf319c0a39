package gateway

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
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
		time.Sleep(time.Minute) // of the bubble
		if synctest.Wait(); over {
			t.Error("the caller's time counted")
		}
		go func() {
			time.Sleep(time.Minute)
			_ = to.Close()
		}()
		_, _ = body.Read(make([]byte, 10))
		if synctest.Wait(); !over {
			t.Error("the upstream's time did not count")
		}
	})
}

// What waits to be shaped takes no more memory than there is for it, and what was shaped leaves its place to others.
func TestBodiesThatAreHeld(t *testing.T) {
	var all atomic.Int64
	read := func(length int) (*held, error) {
		h := &held{Reader: strings.NewReader(strings.Repeat("x", length)), all: &all, most: 10}
		_, err := io.ReadAll(h)
		return h, err
	}
	first, err := read(6)
	if err != nil {
		t.Error(err)
	}
	second, err := read(5)
	if p := (*problem)(nil); !errors.As(err, &p) || p.status != 503 {
		t.Errorf("the second gives %v", err)
	}
	second.release()
	third, err := read(4)
	if err != nil {
		t.Error(err)
	}
	first.release()
	if third.release(); all.Load() != 0 {
		t.Errorf("%d bytes are held", all.Load())
	}
}
