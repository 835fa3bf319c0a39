package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	soakRequests = 20_000 // at least; requests continue until the last configuration has been replaced
	soakClients  = 16
	soakReloads  = 50
	// soakHeap limits the growth of the heap from the tenth replacement to the last one, in bytes.
	soakHeap = 3 << 20
)

// providers are an API and a token endpoint that accept the valid secrets and record their use.
type providers struct {
	api, login *httptest.Server

	mu     sync.Mutex
	valid  map[string]chan struct{} // by secret; closed at the first request with it
	tokens map[string]string        // the secret by token

	refused atomic.Int64 // requests without a valid secret or token
}

func newProviders() *providers {
	p := &providers{valid: map[string]chan struct{}{}, tokens: map[string]string{}}
	p.api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		key := r.Header.Get("X-Key")
		if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			key = p.tokens[bearer]
		}
		ok := p.takes(key)
		p.mu.Unlock()
		if !ok {
			p.refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, "ok "+r.URL.Query().Get("n"))
	}))
	p.login = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		key := r.FormValue("client_secret")
		if !p.takes(key) {
			p.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		token := fmt.Sprintf("token-of-the-soak-%d", len(p.tokens))
		p.tokens[token] = key
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
	}))
	return p
}

// takes reports whether a secret is valid. The caller holds p.mu.
func (p *providers) takes(secret string) bool {
	used, valid := p.valid[secret]
	if !valid {
		return false
	}
	select {
	case <-used:
	default:
		close(used)
	}
	return true
}

// allow makes a secret valid. The channel is closed at the first request with it.
func (p *providers) allow(secret string) (used <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := make(chan struct{})
	p.valid[secret] = first
	return first
}

// refuse makes a secret invalid.
func (p *providers) refuse(secret string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.valid, secret)
}

// epochs counts running requests by epoch, to wait for those that may have read an older secret.
type epochs struct {
	mu      sync.RWMutex
	current *sync.WaitGroup
}

func (e *epochs) enter() *sync.WaitGroup {
	e.mu.RLock()
	defer e.mu.RUnlock()
	e.current.Add(1)
	return e.current
}

func (e *epochs) next() (before *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, e.current = e.current, &sync.WaitGroup{}
	return before
}

// soak holds a gateway whose configuration and secret are replaced while it is used.
type soak struct {
	t       *testing.T
	file    string
	secret  string // path of the file with the secret
	epochs  epochs
	version string // the current secret
	*providers
	said chan bool // for each logged configuration, whether it is in use

	callers string
}

// Write implements the log.
func (s *soak) Write(line []byte) (int, error) {
	var said struct{ Msg string }
	if err := json.Unmarshal(line, &said); err == nil && strings.HasPrefix(said.Msg, "the configuration") {
		s.said <- strings.Contains(said.Msg, "is in use")
	}
	return len(line), nil
}

func replace(t *testing.T, file, text string) {
	t.Helper()
	testworld.Check(t, os.WriteFile(file+".new", []byte(text), 0o600))
	testworld.Check(t, os.Rename(file+".new", file))
}

// rotate writes a new secret. The providers accept the previous one until no request can have it: the gateway caches it for up
// to a second, and requests that began before the first use of the new one may still have it.
func (s *soak) rotate(n int) {
	s.t.Helper()
	before := s.version
	s.version = fmt.Sprintf("secret-of-the-soak-%d", n)
	used := s.allow(s.version)
	replace(s.t, s.secret, s.version)
	if before != "" {
		<-used
		s.epochs.next().Wait()
		s.refuse(before)
	}
}

// configure writes a configuration, and waits until the gateway uses or refuses it.
func (s *soak) configure(n int) {
	s.t.Helper()
	good := n%2 == 0
	kind := "api_key"
	if !good {
		kind = "api_kye"
	}
	replace(s.t, s.file, s.text(kind, n))
	if in := <-s.said; in != good {
		s.t.Errorf("configuration %d is in use: %t", n, in)
	}
}

func (s *soak) text(kind string, n int) string {
	return fmt.Sprintf(`secrets: [{type: dir, path: %q}]
connectors:
  - name: Key
    url: %s/v1
    headers: [{name: X-Configuration, value: "%d"}]
    query: [{name: n, value: "", overridable: true}]
    auth: {type: %s, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
  - name: Token
    url: %s/v1
    query: [{name: n, value: "", overridable: true}]
    auth:
      type: oauth_client_credentials
      config: {client_id: soak, client_secret: "{{ get_secret('key') }}", token_url: %s/token}
`, filepath.Dir(s.secret), s.api.URL, n, kind, s.api.URL, s.login.URL)
}

// call sends one request, and checks that it gets its own response.
func (s *soak) call(client *http.Client, n int64) error {
	defer s.epochs.enter().Done()
	name := [...]string{"key", "token"}[n%2]
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("%s/connectors/%s?n=%d", s.callers, name, n), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || string(answer) != fmt.Sprintf("ok %d", n)) {
		err = fmt.Errorf("%s %d: %d %s", name, n, response.StatusCode, answer)
	}
	return err
}

// heap returns the bytes in use on the heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what finalizers released
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// While the configuration and the secret are replaced, no request is lost or sent with an invalid secret. Afterwards, no
// goroutine and no memory is left.
func TestSoak(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	secrets := t.TempDir()
	s := &soak{
		t: t, file: filepath.Join(t.TempDir(), "connectors.yaml"), secret: filepath.Join(secrets, "key"), said: make(chan bool, 10),
		epochs: epochs{current: &sync.WaitGroup{}}, providers: newProviders(),
	}
	defer s.login.Close()
	defer s.api.Close()
	s.rotate(0)
	replace(t, s.file, s.text("api_key", 0))
	callers, end := serve(t, s.file, s, nil)
	defer func() { testworld.Check(t, end()) }() // before goroutines are counted
	s.callers = callers

	transport := &http.Transport{MaxIdleConnsPerHost: soakClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var made, lost atomic.Int64
	var replaced atomic.Bool
	var clients sync.WaitGroup
	for range soakClients {
		clients.Go(func() {
			for {
				n := made.Add(1)
				if n > soakRequests && replaced.Load() {
					return
				}
				if err := s.call(client, n); err != nil && lost.Add(1) <= 10 {
					t.Error(err)
				}
			}
		})
	}
	var early int64
	for n := range soakReloads {
		s.configure(n + 1)
		s.rotate(n + 1)
		if n == 10 {
			early = heap()
		}
	}
	replaced.Store(true)
	clients.Wait()
	late := heap()
	t.Logf("%d requests; %d bytes in use after 10 replacements, %d after %d", made.Load(), early, late, soakReloads)
	if late > early+soakHeap {
		t.Errorf("%d bytes are in use, and %d were after 10 replacements", late, early)
	}
	if n := lost.Load(); n > 0 {
		t.Errorf("%d requests were lost", n)
	}
	if n := s.refused.Load(); n > 0 {
		t.Errorf("the providers refused %d requests", n)
	}
}
