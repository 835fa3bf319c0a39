package gateway

import (
	"context"
	"time"
)

// Share is how many bodies of one connector are shaped at once.
func (g *Gateway) Share() int { return g.places.Share() }

// Shape takes one of the places where bodies are shaped, for a connector. leave gives it back; it is nil when the
// context ended first.
func (g *Gateway) Shape(ctx context.Context, permalink string) (leave func()) {
	leave, _ = g.places.Enter(ctx, permalink, time.Hour)
	return leave
}
