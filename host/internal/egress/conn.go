package egress

import (
	"net"
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

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write implements [net.Conn].
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

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.end()
	return c.Conn.Close()
}
