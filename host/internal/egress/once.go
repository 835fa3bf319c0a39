package egress

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"
)

// Once returns a client that sends each request over a connection of its own, and nothing after the deadline of a context. It
// returns false, and the same client, if the client's transport is not an [http.Transport].
func Once(sendCtx context.Context, client *http.Client) (*http.Client, bool) {
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		return client, false
	}
	own := transport.Clone()
	own.DisableKeepAlives = true
	own.DialContext, own.DialTLSContext = inTime(sendCtx, own.DialContext), inTime(sendCtx, own.DialTLSContext)
	once := *client
	once.Transport = own
	return &once, true
}

// dial is the type of the functions with which an [http.Transport] connects.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// inTime returns a function that connects like next, with connections that send nothing after the deadline of a context. A process
// that was stopped goes on before its timers run, and another node may have the turn by then.
func inTime(sendCtx context.Context, next dial) dial {
	deadline, bounded := sendCtx.Deadline()
	if next == nil || !bounded {
		return next
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &timely{conn, deadline}, nil
	}
}

// timely is a connection with a deadline for what is sent.
type timely struct {
	net.Conn
	deadline time.Time
}

// Write implements [net.Conn].
func (t *timely) Write(b []byte) (int, error) {
	if Over(t.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return t.Conn.Write(b)
}

// Over reports whether a deadline is over, by either clock: the monotonic one stands while a machine is suspended.
func Over(deadline time.Time) bool {
	now := time.Now()
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}
