package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/gateway"
)

// threats.md 49: who sends a body slowly, a caller or an API, does not keep the bodies of others from being shaped.
func TestSlowBodiesDoNotKeepOthersFromBeingShaped(t *testing.T) {
	slow := 4 * runtime.GOMAXPROCS(0)
	for name, slowAPI := range map[string]bool{"callers": false, "API": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) {
				d.Methods, d.Request, d.Response.Body = []string{"POST"}, "{{ body_text }}", "response.body"
			})
			begun, release := make(chan struct{}), make(chan struct{})
			w.answer = func(rw http.ResponseWriter, r *http.Request) {
				w.mu.Lock()
				first := len(w.got) <= slow
				w.mu.Unlock()
				if slowAPI && first {
					rw.(http.Flusher).Flush()
					begun <- struct{}{}
					<-release
				}
				_, _ = io.WriteString(rw, "answer")
			}
			var all sync.WaitGroup
			for range slow {
				all.Go(func() {
					body := io.Reader(strings.NewReader("whole"))
					if !slowAPI {
						body = readerFunc(func([]byte) (int, error) {
							begun <- struct{}{}
							<-release
							return 0, io.EOF
						})
					}
					w.gateway.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, w.server.URL+"/connectors/weather", body))
				})
			}
			for range slow {
				<-begun
			}
			got := w.do(w.request("POST", "/connectors/weather", "whole"))
			close(release)
			all.Wait()
			if got.status != http.StatusOK || got.body != "answer" {
				t.Errorf("another caller got %+v", got)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
