package gateway

import (
	"context"
	"net/http"
	"time"
)

// Share returns the number of bodies of one connector that can be shaped at once.
func (g *Gateway) Share() int { return g.places.Share() }

// Shape waits for a place for shaping a body of a connector. The function leave releases it. leave is nil if ctx ended first.
func (g *Gateway) Shape(ctx context.Context, permalink string) (leave func()) {
	leave, _ = g.places.Enter(ctx, time.Hour, permalink)
	return leave
}

// Consents has the consents of a connector's users.
type Consents = consents

// FakeConsents replaces the host's consents of a connector.
func (c *Connector) FakeConsents(fake Consents) { c.consents = fake }

// TestedAnswer returns the body that a test gets of a handler, and why that is not all of it.
func TestedAnswer(ctx context.Context, handle func(context.Context, http.ResponseWriter)) (body, cut string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &testedAnswer{header: http.Header{}, cancel: cancel}
	w.serve(func() { handle(ctx, w) })
	return w.body.String(), w.cut
}
