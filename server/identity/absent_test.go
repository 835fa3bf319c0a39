package identity

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// threats.md 65: the memory for made-up key IDs is bounded.
func TestKeysThatAreNotThereAreRememberedWithinBounds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := &keyCache{
		refreshPolicy: urlRefresh, clock: func() time.Time { return now }, log: slog.New(slog.DiscardHandler), base: t.Context(), cancel: func() {},
		read: func(context.Context) ([]byte, error) { return []byte(`{"keys":[]}`), nil },
	}
	for i := range 3 * maxUnknown {
		set, err := c.current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		came := now
		now = now.Add(c.minInterval)
		if _, err := c.newer(t.Context(), set, &token{algorithm: "ES256", keyID: fmt.Sprint(i)}, came); err != nil {
			t.Fatal(err)
		}
		if n := len(c.unknown); n != i%maxUnknown+1 { // at the limit, all entries are dropped
			t.Fatalf("%d keys are remembered after %d", n, i+1)
		}
	}
	c.close()
}
