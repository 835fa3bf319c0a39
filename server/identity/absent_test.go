package identity

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 65: the memory for made-up key IDs is bounded.
func TestUnknownKeyBound(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := &keyCache{
		refreshPolicy: urlRefresh, clock: func() time.Time { return now }, log: slog.New(slog.DiscardHandler), base: t.Context(), cancel: func() {},
		read: func(context.Context) ([]byte, error) { return []byte(`{"keys":[]}`), nil },
	}
	c.unknown, _ = lru.New[keyRef, bool](maxUnknown)
	for i := range 3 * maxUnknown {
		set := testworld.Must(c.current(t.Context()))(t)
		received := now
		now = now.Add(c.minInterval)
		testworld.Must(c.newer(t.Context(), set, &token{algorithm: "ES256", keyID: fmt.Sprint(i)}, received))(t)
		if n := c.unknown.Len(); n != min(i+1, maxUnknown) {
			t.Fatalf("%d keys are remembered after %d", n, i+1)
		}
	}
	c.close()
}
