package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// An answer that the API sends before it has read the body reaches the caller, though the API closes the connection then.
func TestAnAnswerBeforeTheBody(t *testing.T) {
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			head := bufio.NewReaderSize(conn, 16)
			for line := ""; line != "\r\n"; line, err = head.ReadString('\n') {
				if err != nil {
					break
				}
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 411 Length Required\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwhy?")
			_ = conn.Close() // with bytes that nobody has read: a reset
		}
	}()
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.URL, d.Methods, d.Limits.RequestBytes = "http://"+listener.Addr().String(), []string{"PUT"}, 1<<30
	})
	body := strings.Repeat("x", 4<<20)
	gate := httptest.NewServer(w.gateway.Handler())
	t.Cleanup(gate.Close)
	answered := 0
	for range 100 { // whether the answer or the reset comes first is chance
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, gate.URL+"/connectors/weather", io.LimitReader(strings.NewReader(body), int64(len(body)))))(t)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			continue // the gateway has closed its own connection
		}
		got, err := io.ReadAll(response.Body)
		if _ = response.Body.Close(); err != nil || response.StatusCode != http.StatusLengthRequired || string(got) != "why?" {
			t.Fatalf("a caller got %d %s (%v), and the log is %s", response.StatusCode, got, err, w.log.String())
		}
		answered++
	}
	if answered == 0 {
		t.Error("no caller got an answer")
	}
}
