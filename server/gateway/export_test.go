package gateway

import (
	"context"
	"time"
)

// Share returns the number of bodies of one connector that can be shaped at once.
func (g *Gateway) Share() int { return g.places.Share() }

// Shape waits for a place for shaping a body of a connector. The function leave releases it. leave is nil if ctx ended first.
func (g *Gateway) Shape(ctx context.Context, permalink string) (leave func()) {
	leave, _ = g.places.Enter(ctx, permalink, time.Hour)
	return leave
}

// Consents has the consents of a connector's users.
type Consents = consents

// FakeConsents replaces the host's consents of a connector.
func (c *Connector) FakeConsents(fake Consents) { c.consents = fake }
