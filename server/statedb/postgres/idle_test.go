package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/postgresurl"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// idleConn is a connection to PostgreSQL in a bubble of synctest. While the server owes no answer, a read waits for the next
// write, and not for the network, so that the time of the bubble goes on. It counts the statements.
type idleConn struct {
	net.Conn
	statements *atomic.Int64

	mu sync.Mutex
	// owed is the number of ReadyForQuery that the server is still to send. past is set after the deadline.
	owed   int
	past   bool
	turned chan struct{}
	// cut holds the beginning of a message whose rest was not read yet.
	cut []byte
}

// dial returns a function that connects to the server at once, whatever the time of the bubble.
func dial(statements *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), network, address)
		if err != nil {
			return nil, err
		}
		return &idleConn{Conn: conn, statements: statements, turned: make(chan struct{})}, nil
	}
}

// turn changes c by change, and wakes who reads.
func (c *idleConn) turn(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.turned)
	c.turned = make(chan struct{})
}

// Write implements [net.Conn]. The server answers the first message of a connection, which has no type, and each Query and Sync with
// a ReadyForQuery at the end.
func (c *idleConn) Write(b []byte) (int, error) {
	answers := 0
	for m := b; len(m) >= 5; m = m[1+binary.BigEndian.Uint32(m[1:]):] {
		if m[0] == 0 {
			answers++
			break
		}
		if m[0] == 'Q' || m[0] == 'E' { // Query and Execute
			c.statements.Add(1)
		}
		if m[0] == 'Q' || m[0] == 'S' {
			answers++
		}
	}
	c.turn(func() { c.owed += answers })
	return c.Conn.Write(b)
}

// Read implements [net.Conn]. A notification may follow a ReadyForQuery in the bytes that it returns.
func (c *idleConn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		owed, past, turned := c.owed, c.past, c.turned
		c.mu.Unlock()
		switch {
		case past:
			return 0, os.ErrDeadlineExceeded
		case owed > 0:
			n, err := c.Conn.Read(b)
			c.turn(func() { c.owed -= c.answered(b[:n]) })
			return n, err
		}
		<-turned
	}
}

// answered returns the number of ReadyForQuery that end in b, which the server has sent.
func (c *idleConn) answered(b []byte) (ready int) {
	c.cut = append(c.cut, b...)
	for len(c.cut) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(c.cut[1:]))
		if len(c.cut) < size {
			break
		}
		if c.cut[0] == 'Z' {
			ready++
		}
		c.cut = c.cut[size:]
	}
	return ready
}

func (c *idleConn) SetDeadline(t time.Time) error {
	c.turn(func() { c.past = !t.IsZero() && !t.After(time.Now()) })
	return nil
}

func (c *idleConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

func (c *idleConn) SetWriteDeadline(time.Time) error { return nil }

// anySecrets is a store in which each secret is its name.
type anySecrets struct{}

func (anySecrets) Secret(_ context.Context, name string) (string, error) { return name, nil }

// login is the network: an API, and a token endpoint whose tokens are new each time.
func login() testworld.Answer {
	var n atomic.Int64
	return func(*http.Request) (*http.Response, error) {
		return testworld.Response(http.StatusOK, fmt.Sprintf(`{"access_token":"access-%[1]d","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-%[1]d"}`, n.Add(1))), nil
	}
}

// node returns a function that authenticates a request of a user on a new node.
func node(t *testing.T, config *pgx.ConnConfig, network testworld.Answer, code string) func(user string) {
	t.Helper()
	store := testworld.Must(connect(t.Context(), config, Options{}, sqlstate.Usual))(t)
	t.Cleanup(func() { _ = store.Close() })
	shared := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	t.Cleanup(func() { _ = shared.Close(context.Background()) })
	h := testworld.Must(host.New(t.Context(), host.Config{
		State: shared, Secrets: anySecrets{}, Base: network, CodeCache: code,
		BuiltIns: []host.Plugin{{Name: "oauth_refresh_token", Wasm: plugins.Of("oauth_refresh_token")}},
	}))(t)
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "orders", Origins: []string{"https://api.test"}, Auth: []host.Auth{{
		Type: "oauth_refresh_token", Config: map[string]any{
			"client_id": "me", "client_secret": "{{ get_secret('client') }}", "token_url": "https://login.test/token", "refresh_token": "{{ get_secret('seed', 'user') }}",
		},
	}}}))(t)
	return func(user string) {
		t.Helper()
		r := testworld.Must(http.NewRequestWithContext(host.WithUser(t.Context(), host.User{ID: user}), http.MethodGet, "https://api.test/", nil))(t)
		response := testworld.Must(connector.Transport(nil).RoundTrip(r))(t)
		_ = response.Body.Close()
	}
}

// 100 nodes that have used grants, their own and a common one, and then have nothing to do for an hour, send PostgreSQL less than
// 50 statements a second in each minute of it.
func TestIdleNodes(t *testing.T) {
	const nodes = 100
	server := testworld.Must(postgrestest.Start("max_connections=400"))(t)
	t.Cleanup(func() { _ = server.Stop() })
	address := testworld.Must(server.Database(t.Context()))(t)
	code, network := t.TempDir(), login()
	synctest.Test(t, func(t *testing.T) {
		var statements atomic.Int64
		config := testworld.Must(postgresurl.Config(address, settings, false))(t)
		config.DialFunc = dial(&statements)
		for i := range nodes {
			use := node(t, config.Copy(), network, code)
			use("all")
			use(fmt.Sprint("user", i))
		}
		synctest.Wait()
		busy := statements.Swap(0)
		idle, most := int64(0), int64(0)
		for range 60 {
			time.Sleep(time.Minute) // of the bubble
			n := statements.Swap(0)
			if idle, most = idle+n, max(most, n); n >= 50*60 {
				t.Fatalf("%d statements in a minute", n)
			}
		}
		t.Logf("%d nodes: %d statements to begin with, then %d in an hour, %d in a minute at most", nodes, busy, idle, most)
		if busy < 4*nodes || idle < 4*nodes {
			t.Error("not all statements were counted: a node has some for a new token, and sweeps six times in an hour")
		}
	})
}
