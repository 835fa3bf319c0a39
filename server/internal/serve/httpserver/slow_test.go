package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// pipes is a listener of connections in memory, whose deadlines use the bubble's time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.done) // the server calls Close once
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns a connection to a server with the handler. Both end with the test.
func dial(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	listener := pipes{make(chan net.Conn, 1), make(chan struct{})}
	s := server(withDeadlines(h), slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	client, of := net.Pipe()
	listener.conns <- of
	t.Cleanup(func() {
		_ = client.Close()
		_ = s.Close()
		<-ended
	})
	return client
}

// threats.md 49: a client that stops sending loses its connection after a fixed time.
func TestStalledClients(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n"
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	read := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("the body was read")
		}
		w.WriteHeader(http.StatusBadRequest)
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		send    string
		silent  bool // the server sends no response
		after   time.Duration
	}{
		"header":                         {refuse, "GET / HTTP/1.1\r\nX-A: a", true, headerTime},
		"request line":                   {refuse, "GET /", false, headerTime},
		"no request":                     {refuse, "", true, headerTime},
		"body":                           {read, head + "\r\nhello", false, stallTime},
		"body that nobody reads":         {refuse, head + "\r\nhello", false, restTime},
		"next request":                   {refuse, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, idleTime},
		"body that is not to be sent":    {refuse, head + "Expect: 100-continue\r\n\r\n", false, restTime},
		"body of chunks, without an end": {refuse, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", false, restTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			client := dial(t, c.handler)
			testworld.Must(io.WriteString(client, c.send))(t)
			answer, err := io.ReadAll(client)
			if took := time.Since(began); took < c.after || took > c.after+time.Second {
				t.Errorf("%s: the connection was closed after %v, want %v", name, took, c.after)
			}
			if err != nil || (len(answer) == 0) != c.silent {
				t.Errorf("%s: the client got %q, %v", name, answer, err)
			}
		})
	}
}

// A client that does not read blocks a handler's write for stallTime, and no longer.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		client := dial(t, func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					ended <- time.Since(began)
					return
				}
			}
		})
		_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if took := <-ended; took != stallTime {
			t.Errorf("writing ended after %v", took)
		}
	})
}

// A client may stop reading for less than stallTime, whether or not it has sent a body. The request goes on.
func TestLateReader(t *testing.T) {
	for name, request := range map[string]string{
		"without a body": "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"with a body":    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		"in chunks":      "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			client := dial(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if _, err := w.Write(make([]byte, 64<<10)); err != nil || r.Context().Err() != nil {
					t.Errorf("%s: the request was ended: %v, %v", name, err, r.Context().Err())
				}
			})
			_, _ = io.WriteString(client, request)
			<-time.After(stallTime - time.Second) // of the bubble
			if answer, err := io.ReadAll(client); err != nil || strings.Count(string(answer), "\x00") != 64<<10 {
				t.Errorf("%s: the client got %d bytes, %v", name, len(answer), err)
			}
		})
	}
}

// A handler may wait for something else, and may write its response in pieces with long pauses.
func TestHandlerMayTakeItsTime(t *testing.T) {
	const pause = 10 * stallTime
	wait := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return errors.New("the request was ended")
		case <-time.After(pause):
			return nil
		}
	}
	for name, request := range map[string]string{
		"without a body": "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"with a body":    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
	} {
		synctest.Test(t, func(t *testing.T) {
			client := dial(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for range 3 {
					if err := wait(r.Context()); err != nil {
						t.Error(err)
					}
					_, _ = io.WriteString(w, "piece")
					_ = http.NewResponseController(w).Flush()
				}
			})
			_, _ = io.WriteString(client, request)
			response := testworld.Must(http.ReadResponse(bufio.NewReader(client), nil))(t)
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != strings.Repeat("piece", 3) {
				t.Errorf("%s: the client got %q, %v", name, body, err)
			}
		})
	}
}

// threats.md 49: a body that arrives in drops is cut off, and one that arrives slowly but steadily is not.
func TestBodyInDrops(t *testing.T) {
	for name, c := range map[string]struct {
		first  int // bytes that are sent at once
		drop   int
		pause  time.Duration
		status int
	}{
		"drops":                   {0, 1, 20 * time.Second, http.StatusBadRequest},
		"drops, most of it there": {204000, 1, 20 * time.Second, http.StatusBadRequest},
		"slowly":                  {0, 20 << 10, 10 * time.Second, http.StatusOK},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := dial(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					w.WriteHeader(http.StatusBadRequest)
				}
			})
			began := time.Now()
			sent := make(chan struct{})
			defer func() { _ = client.Close(); <-sent }()
			go func() {
				defer close(sent)
				_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 204800\r\n\r\n"+strings.Repeat("x", c.first))
				for range (204800 - c.first) / c.drop {
					<-time.After(c.pause) // in the bubble's time
					if _, err := io.WriteString(client, strings.Repeat("x", c.drop)); err != nil {
						return
					}
				}
			}()
			response := testworld.Must(http.ReadResponse(bufio.NewReader(client), nil))(t)
			defer response.Body.Close()
			if took := time.Since(began); response.StatusCode != c.status || took > 5*time.Minute {
				t.Errorf("%s: after %v: %d", name, took, response.StatusCode)
			}
		})
	}
}
