package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// A serving is a process of keywright serve, and its callers.
type serving struct {
	t              *testing.T
	callers, admin string
	client         http.Client
	// end ends the process by SIGTERM, and returns after how long it has ended.
	end func() time.Duration
}

// serve runs keywright serve with connectors and further members of the file. Its callers say in X-User who they are. The directory of
// the secrets has one, and those of users.
func serve(t *testing.T, connectors, more string, users ...string) *serving {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "connectors.yaml")
	text := "gateway: {user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User}}}\n" + more + "connectors:\n" + connectors
	testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
	secrets := filepath.Join(dir, "secrets")
	secret := base64.StdEncoding.AppendEncode(nil, []byte(textOf(32))) // which may be a state key, too
	for _, user := range append(users, "..") {
		directory := filepath.Join(secrets, "users", user)
		testworld.Check(t, errors.Join(os.MkdirAll(directory, 0o700), os.WriteFile(filepath.Join(directory, "secret"), secret, 0o600)))
	}
	s := &serving{t: t}
	s.client.Transport = &http.Transport{MaxIdleConnsPerHost: 4 * loadClients}
	listen := freeAddress(t)
	s.admin = "http://" + listen
	callers, stop := start(t, keywright(t, "serve", "-c", file, "--secrets-dir", secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", listen))
	s.callers = callers
	s.end = func() time.Duration {
		begin := time.Now()
		stop()
		return time.Since(begin)
	}
	return s
}

// connector returns a connector of the file whose users have a token each, from an origin, and whose API is at another one.
func connector(name, api, login, more string) string {
	return fmt.Sprintf(`  - name: %s
    url: %s
    auth:
      type: oauth_client_credentials
      config: {client_id: "{{ user.id }}", client_secret: "{{ get_secret('secret') }}", token_url: %s/token}
%s`, name, api, login, more)
}

// get sends a request of a user, and returns the status, or 0 without an answer.
func (s *serving) get(ctx context.Context, connector, user string) (status int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.callers+connector, nil)
	if err != nil {
		return 0
	}
	r.Header.Set("X-User", user)
	response, err := s.client.Do(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// memory returns what the process has in use, on its heap and stacks, in bytes.
func (s *serving) memory() (bytes float64) {
	s.t.Helper()
	for range 2 { // the second collection frees what a sync.Pool keeps for one more
		s.operate("/debug/pprof/heap?gc=1")
	}
	return s.metric("go_memstats_heap_alloc_bytes") + s.metric("go_memstats_stack_inuse_bytes")
}

// metric returns the value of a metric.
func (s *serving) metric(name string) float64 {
	s.t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(s.operate("/metrics"))
	if found == nil {
		s.t.Fatalf("/metrics has no %s", name)
	}
	return testworld.Must(strconv.ParseFloat(found[1], 64))(s.t)
}

// operate returns what an operators' path answers.
func (s *serving) operate(path string) string {
	s.t.Helper()
	var body strings.Builder
	testworld.Check(s.t, fetch(s.t.Context(), http.DefaultTransport, s.admin+path, &body))
	return body.String()
}

// origin serves a handler at an origin of its own until the test ends, also if requests do not end.
func origin(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// issue answers each request with tokens of a length.
func issue(length int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"%s","token_type":"Bearer","expires_in":36000,"refresh_token":"%s"}`, textOf(length), textOf(length))
	}
}

// crowd has callers send requests to slow connectors, again some seconds after each answer, until ctx ends. It returns after all
// have sent one. ended is closed when all have gone.
func (s *serving) crowd(ctx context.Context, n, connectors int) (ended chan struct{}) {
	var sent, all sync.WaitGroup
	sent.Add(n)
	for i := range n {
		name, user := "slow", fmt.Sprint("caller-", i)
		if i %= connectors; i > 0 {
			name = fmt.Sprint("slow", i-1)
		}
		first := sync.OnceFunc(sent.Done)
		all.Go(func() {
			trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { first() }}
			s.get(httptrace.WithClientTrace(ctx, trace), name, user)
			first() // also if nothing could be sent
			for ctx.Err() == nil {
				select {
				case <-time.After(5*time.Second + time.Duration(rand.Int64N(int64(5*time.Second)))):
					s.get(ctx, name, user)
				case <-ctx.Done():
				}
			}
		})
	}
	sent.Wait()
	ended = make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	return ended
}
