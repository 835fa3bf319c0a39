package httpserver

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

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
		t.Run(name, func(t *testing.T) {
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
					t.Errorf("after %v: %d", took, response.StatusCode)
				}
			})
		})
	}
}
