package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

// wire is an API that reads the bytes of requests itself, without an HTTP library.
type wire struct {
	t        *testing.T
	listener net.Listener
	handlers sync.WaitGroup

	mu       sync.Mutex
	requests []string // the bytes of the complete requests, since forget
	raw      []byte   // all bytes that were received
}

func newWire(t *testing.T) *wire {
	t.Helper()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	a := &wire{t: t, listener: listener}
	a.handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			a.handlers.Go(func() { a.serve(conn) })
		}
	})
	return a
}

func (a *wire) serve(conn net.Conn) {
	defer conn.Close()
	from := bufio.NewReader(io.TeeReader(conn, a))
	for {
		request, err := a.read(from)
		if err != nil {
			return // a request broke off, or there is none
		}
		a.mu.Lock()
		a.requests = append(a.requests, request)
		a.mu.Unlock()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// Write adds p to raw.
func (a *wire) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raw = append(a.raw, p...)
	return len(p), nil
}

// read reads one request. The test fails if the request has more than one framing.
func (a *wire) read(from *bufio.Reader) (string, error) {
	var text strings.Builder
	length, chunked, framings := 0, false, 0
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return "", err
		}
		text.WriteString(line)
		if !strings.HasSuffix(line, "\r\n") || strings.Count(line, "\r") != 1 {
			a.t.Errorf("the API received the line %q", line)
		}
		if line == "\r\n" {
			break
		}
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); strings.ToLower(name) {
		case "content-length":
			framings++
			if length, err = strconv.Atoi(value); err != nil {
				a.t.Errorf("the API received the length %q", value)
			}
		case "transfer-encoding":
			framings++
			chunked = true
		}
	}
	if framings > 1 {
		a.t.Errorf("the API received a request with %d framings: %q", framings, text.String())
	}
	for size := length; ; {
		if chunked {
			line, err := from.ReadString('\n')
			if err != nil {
				return "", err
			}
			n, err := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 31)
			if err != nil {
				a.t.Errorf("the API received the chunk size %q", line)
			}
			size = int(n) + 2
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(from, body); err != nil {
			return "", err
		}
		if chunked {
			body = body[:size-2]
		}
		text.Write(body)
		if len(body) == 0 || !chunked {
			return text.String(), nil
		}
	}
}

func (a *wire) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = nil
}

func (a *wire) close() {
	_ = a.listener.Close()
	a.handlers.Wait()
}

// serveWire runs a gateway in front of the API, with the server of package httpserver. It ends before the test does.
func serveWire(t *testing.T, a *wire) (address string) {
	t.Helper()
	var d gateway.Definition
	w := newWorld(t, func(_ *options, of *gateway.Definition) {
		of.Paths, of.Methods = []string{"/**"}, []string{"GET", "POST"}
		of.Limits.RequestBytes = 1000
		d = *of
	})
	d.URL = "http://" + a.listener.Addr().String() + "/v1"
	w.api.URL = "http://" + a.listener.Addr().String() // the origin for the definition
	w.gateway.Use(gateway.Setup{Connectors: []*gateway.Connector{w.connector(d)}})
	t.Cleanup(func() {
		_ = w.host.Close(context.Background()) // closes the connections to the API, for which a.close waits
		a.close()
	})
	config := httpserver.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Handler: w.gateway.Handler(), Logger: slog.New(slog.DiscardHandler)}
	callers, _, _ := testworld.Serve(t, &config.Started, func(ctx context.Context) error { return httpserver.Run(ctx, config) })
	return strings.TrimPrefix(callers, "http://")
}

// exchange sends the bytes of a caller, reads this number of answers, and returns their statuses. If closed is set, it then
// reads further answers until the connection ends. Otherwise it sends one more request and reads its answer.
func exchange(t *testing.T, address, raw string, answers int, closed bool) (statuses []int) {
	t.Helper()
	conn := testworld.Must(net.Dial("tcp", address))(t)
	defer conn.Close()
	testworld.Check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	go func() { _, _ = io.WriteString(conn, raw) }() // the gateway may close the connection before it has read everything
	from := bufio.NewReader(conn)
	one := func() bool {
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Errorf("an answer broke off: %v", err)
		}
		statuses = append(statuses, response.StatusCode)
		return true
	}
	for range answers {
		if !one() {
			return statuses
		}
	}
	if closed {
		for one() { // answers to bytes that were wrongly taken for a request
		}
		return statuses
	}
	_, _ = fmt.Fprintf(conn, "GET /connectors/weather/last HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address)
	for one() {
	}
	return statuses
}

// request returns the bytes of an accepted request at the API, with the chunks of its body joined.
func (a *wire) request(method, path, framing, body string) string {
	if framing != "" {
		framing += "\r\n"
	}
	return method + " /v1" + path + " HTTP/1.1\r\nHost: " + a.listener.Addr().String() + "\r\nUser-Agent: " + agent + "\r\n" + framing + "Accept-Encoding: identity\r\nX-Api-Key: " + secret + "\r\n\r\n" + body
}
