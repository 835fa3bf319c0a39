package egress

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// answerTime is the maximum time that a failed write waits for the answer.
const answerTime = time.Second

// conn is a connection whose failed writes return only when its answer has been read. A server that refuses a request before it has read
// the body answers and closes the connection (RFC 9112 section 9.6); net/http would return the error of the write in place of that answer.
type conn struct {
	net.Conn
	once sync.Once
	// over is closed when nothing more can be read.
	over chan struct{}
}

func (c *conn) end() { c.once.Do(func() { close(c.over) }) }

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		timer := time.NewTimer(answerTime)
		defer timer.Stop()
		select {
		case <-c.over:
		case <-timer.C:
			c.end() // the alert of TLS, which follows, does not wait again
		}
	}
	return n, err
}

func (c *conn) Close() error {
	c.end()
	return c.Conn.Close()
}

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
